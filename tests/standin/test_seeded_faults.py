"""Faults that TrtBackend could have: each fails by wrong tokens, an error or a broken rule."""

import contextlib

import pytest

from edgeformer.backends.cuda import Queue
from edgeformer.backends.trt import TrtBackend
from edgeformer.backends.trt_api import Context
from edgeformer.backends.trt_lane import Lane
from edgeformer.backends.trt_loaded import Loaded
from edgeformer.bundle import Bundle
from edgeformer.errors import EdgeformerError
from edgeformer.generation.golden import golden_mismatches
from tests import bundles
from tests.standin.arithmetic import add_engines, execute


def nothing(*arguments):
    """In the place of what a fault leaves out."""


def no_synchronize(patch):
    patch(Queue, "synchronize", nothing)


def no_engine(patch):
    patch(Lane, "run", nothing)


def row_one_too_far(patch):
    real = Queue.copy_planes

    def copy_planes(self, target, start, source, at, size):
        real(self, target, start + 16 * 4, source, at, size)

    patch(Queue, "copy_planes", copy_planes)


def row_from_the_start(patch):
    real = TrtBackend._append
    patch(TrtBackend, "_append", lambda self, at, *rest: real(self, 0, *rest))


def keys_and_values_swapped(patch):
    real = Loaded.make_lanes

    def swapped(self, addresses):
        first, second = addresses["new.0.key"], addresses["new.0.value"]
        real(self, dict(addresses, **{"new.0.key": second, "new.0.value": first}))

    patch(Loaded, "make_lanes", swapped)


def layers_share_new_rows(patch):
    real = Loaded.make_lanes

    def shared(self, addresses):
        real(self, dict(addresses, **{"new.1.key": addresses["new.0.key"]}))

    patch(Loaded, "make_lanes", shared)


def positions_not_appended(patch):
    patch(Queue, "copy", nothing)


def rows_not_appended(patch):
    patch(Queue, "copy_planes", nothing)


def positions_not_emptied(patch):
    patch(Queue, "fill_int32", nothing)


def cache_not_zeroed(patch):
    patch(Queue, "zero", nothing)


def tokens_not_sent(patch):
    patch(Queue, "send", nothing)


def shapes_not_set(patch):
    patch(Context, "set_shape", nothing)


def shape_of_the_cache_not_set(patch):
    real = Context.set_shape

    def set_shape(self, name, shape):
        if name != "past.1.value":
            real(self, name, shape)

    patch(Context, "set_shape", set_shape)


def address_not_set(patch):
    real = Context.set_address

    def set_address(self, name, address):
        if name != "past.1.key":
            real(self, name, address)

    patch(Context, "set_address", set_address)


def address_not_aligned(patch):
    real = Context.set_address
    patch(Context, "set_address", lambda self, name, address: real(self, name, address + 4))


def pitch_of_other_rows(patch):
    real = Queue.copy_planes

    def copy_planes(self, target, start, source, at, size):
        real(self, target._replace(stride=target.stride - 256), start, source, at, size)

    patch(Queue, "copy_planes", copy_planes)


def planes_too_small(patch):
    real = Queue.planes
    patch(Queue, "planes", lambda self, count, size, what: real(self, count, size // 2, what))


def graph_kept_when_shapes_change(patch):
    patch(Lane, "forget", nothing)


def memory_freed_too_early(patch):
    real = Queue.allocate

    def allocate(self, size, what):
        address = real(self, size, what)
        if what == "logits":
            self._memory.pop().free()
        return address

    patch(Queue, "allocate", allocate)


def arena_too_small(patch):
    real = Queue.allocate
    patch(
        Queue,
        "allocate",
        lambda self, size, what: real(self, size // 2 if "activations" in what else size, what),
    )


FAULTS = [
    no_synchronize,
    no_engine,
    row_one_too_far,
    row_from_the_start,
    keys_and_values_swapped,
    layers_share_new_rows,
    positions_not_appended,
    rows_not_appended,
    positions_not_emptied,
    cache_not_zeroed,
    tokens_not_sent,
    shapes_not_set,
    shape_of_the_cache_not_set,
    address_not_set,
    address_not_aligned,
    pitch_of_other_rows,
    planes_too_small,
    graph_kept_when_shapes_change,
    memory_freed_too_early,
    arena_too_small,
]


def verdict(path, standin):
    """What a golden run and a second one found wrong, or ""."""
    bundle = Bundle.open(path)
    key = bundle.path
    found = []
    with contextlib.ExitStack() as stack:
        try:
            sets = add_engines(key, layout="shared", past_rows=[64, 128])
            backend = stack.enter_context(TrtBackend(bundle, sets))
            for _ in range(2):
                wrong = golden_mismatches(backend, bundle.manifest)
                found += [f"{len(wrong)} wrong tokens"] if wrong else []
        except EdgeformerError as error:
            found.append(str(error))
    rule = standin.fault()
    return "; ".join(found + ([rule] if rule else []))


@pytest.fixture
def path(tmp_path, standin):
    standin.set_executor(execute)
    return bundles.copied(bundles.ROPE, tmp_path)


def test_without_a_fault_nothing_is_found(path, standin):
    assert verdict(path, standin) == ""


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_fault_is_found(fault, path, standin, monkeypatch):
    fault(monkeypatch.setattr)
    found = verdict(path, standin)
    assert found


def test_a_profile_that_is_not_the_record_s_is_refused_at_load(path, standin):
    def narrow(record, plans):
        plans["prefill"] = plans["prefill"].replace(" 1 16\n", " 1 8\n")

    sets = add_engines(path, change=narrow)
    with pytest.raises(EdgeformerError, match="token_ids takes 1 to 8 of T, its record says"):
        TrtBackend(Bundle.open(path), sets)


def test_a_profile_that_is_too_narrow_is_refused_at_the_step(path, standin, monkeypatch):
    monkeypatch.setattr("edgeformer.backends.trt_loaded._difference", lambda *given: "")

    def narrow(record, plans):
        plans["prefill"] = plans["prefill"].replace(" 1 16\n", " 1 4\n")

    bundle = Bundle.open(path)
    with TrtBackend(bundle, add_engines(path, change=narrow)) as backend:
        with pytest.raises(EdgeformerError, match=r"token_ids with shape \(8,\).*outside the pro"):
            golden_mismatches(backend, bundle.manifest)
        assert backend.cached == 0
