"""The engines of a backend: chosen for this GPU, loaded, held against the bundle, and freed."""

import hashlib
import os
from typing import Dict, List, Sequence, Tuple

from edgeformer.backends import trt_api
from edgeformer.backends.cuda import Gpu, Queue
from edgeformer.backends.trt_lane import Lane
from edgeformer.bundle import Bundle
from edgeformer.contract import Graph
from edgeformer.engines.record import (
    BUILD,
    RECORD,
    EngineFile,
    EngineSet,
    plan_path,
)
from edgeformer.errors import BundleError, EdgeformerError


def choose_set(bundle: Bundle, sets: Sequence[EngineSet]) -> EngineSet:
    """Of the sets that this GPU and this TensorRT made, the one that was built last."""
    with Gpu.first() as gpu:
        here = (trt_api.VERSION, gpu.name, gpu.compute_capability)
    fitting, others = [], []
    for found in sets:
        made = (found.tensorrt, found.device.name, found.device.compute_capability)
        if made == here:
            fitting.append(found)
        else:
            others.append("TensorRT {} on {} ({})".format(*made))
    if not fitting:
        raise EdgeformerError(
            "no engine of this bundle was built here: this is TensorRT {} on {} ({}), the engines "
            "are of {}; build one here: {}".format(*here, "; ".join(others), BUILD)
        )
    return max(fitting, key=lambda found: _built_at(bundle, found))


def _built_at(bundle: Bundle, found: EngineSet) -> float:
    plan = next(iter(found.engines.values()))
    return os.path.getmtime(os.path.join(os.path.dirname(plan_path(bundle, found, plan)), RECORD))


class Loaded:
    """What must be freed, in an order that neither TensorRT nor CUDA may choose."""

    one: Lane  # steps of one token
    many: Lane  # all others

    def __init__(self, bundle: Bundle, engines: EngineSet, cuda_graph: bool) -> None:
        self._set = engines
        self._cuda_graph = cuda_graph
        self._lanes: List[Lane] = []
        self._engines: Dict[str, trt_api.Engine] = {}
        self._logger = trt_api.LOGGER
        self.queue = Queue(Gpu.first())
        try:
            with self.queue:
                self._load(bundle)
        except BaseException:
            self.release()
            raise

    def make_lanes(self, addresses: Dict[str, int]) -> None:
        """One context a lane. They compute one after the other, so one arena serves them all."""
        size = max(engine.arena for engine in self._engines.values())
        arena = self.queue.allocate(size, "TensorRT's activations")
        self.many = self._lane("prefill", arena, addresses)
        if "decode" in self._engines:
            self.one = self._lane("decode", arena, addresses)
        elif trt_api.PROFILES_ARE_SHARED:
            self.one = self._lane("prefill", arena, addresses)
        else:
            self.one = self.many

    def release(self) -> None:
        with self.queue as queue:
            queue.drain()
            for lane in self._lanes:
                lane.release()
            self._lanes = []
            self._engines = {}
            self._runtime = None
            queue.release()

    def _load(self, bundle: Bundle) -> None:
        self._runtime = trt_api.open_runtime(self._logger)
        for kind, profile in self._set.engines.items():
            path = plan_path(bundle, self._set, profile)
            try:
                with open(path, "rb") as file:
                    plan = file.read()
            except (OSError, MemoryError) as error:
                raise EdgeformerError(f"{path} cannot be read: {error}") from None
            # TensorRT trusts a plan: one that a worn SD card changed ends the process.
            if hashlib.sha256(plan).hexdigest() != profile.sha256:
                raise BundleError(f"{path} is damaged; build it again: {BUILD}")
            engine = trt_api.Engine(self._runtime, self._logger, plan, path)
            self._engines[kind] = engine
            wrong = _difference(engine, bundle.manifest.graphs[kind], self._set, profile)
            if wrong:
                raise BundleError(f"{path} does not fit the bundle: {wrong}; build again: {BUILD}")

    def _lane(self, kind: str, arena: int, addresses: Dict[str, int]) -> Lane:
        engine = self._engines[kind]
        context = engine.context(arena)
        free = {}
        for name, tensor in engine.tensors.items():
            context.set_address(name, addresses[name])
            if tensor.is_input and -1 in tensor.shape:
                free[name] = tensor.shape[1:]
        lane = Lane(context, self._set.engines[kind], free, self._cuda_graph)
        self._lanes.append(lane)
        return lane


def _difference(
    engine: trt_api.Engine, graph: Graph, engines: EngineSet, profile: EngineFile
) -> str:
    """The first way in which an engine is not what the manifest and its record say, or ""."""
    names = {spec.name for spec in graph.inputs + graph.outputs}
    for name in engine.tensors:
        if name not in names:
            return f"{name} is not expected"
    past = (engines.past_rows[0], engines.past_rows[-1])
    ranges: Dict[str, Tuple[int, int]] = {"T": profile.tokens, "R": profile.rows, "P": past}
    inputs = {spec.name for spec in graph.inputs}
    for spec in graph.inputs + graph.outputs:
        tensor = engine.tensors.get(spec.name)
        if tensor is None:
            return f"{spec.name} is missing"
        cached = spec.name.startswith(("past.", "new."))
        dtype = engines.cache_dtype if cached else spec.dtype
        if tensor.dtype != dtype or tensor.is_input != (spec.name in inputs):
            return f"{spec.name} is {tensor.dtype}, it must be {dtype}"
        if len(tensor.shape) != len(spec.shape):
            return f"{spec.name} has rank {len(tensor.shape)}, it must have {len(spec.shape)}"
        for axis, size in enumerate(spec.shape):
            if isinstance(size, int) and tensor.shape[axis] != size:
                return f"{spec.name} has shape {tensor.shape}, it must be {spec.shape}"
            if isinstance(size, str) and tensor.is_input:
                least, most = ranges[size]
                if tensor.least[axis] > least or tensor.most[axis] < most:
                    return (
                        f"{spec.name} takes {tensor.least[axis]} to {tensor.most[axis]} of "
                        f"{size}, its record says {least} to {most}"
                    )
    return ""
