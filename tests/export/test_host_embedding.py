"""Graphs that take rows of the embedding: what they hold, and where the manifest says it lies."""

import numpy as np
import onnx
import pytest
import torch

from edgeformer.backends.embedding import open_table
from edgeformer.bundle import Bundle
from edgeformer.export import export_decoder
from tests.export.graph_rows import CAPACITY, CHUNK
from tests.nn.choices import CHOICES, PROMPT, choice_decoder

# a multiplier, learned and sinusoidal positions, a norm on the embedding: each stays in the graph
SOME = ("like-gemma", "like-gpt2", "sinusoidal", "norm-on-embedding", "tied")


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    folder, made = tmp_path_factory.mktemp("host"), {}

    def get(name, precision="fp32"):
        key = name, precision
        if key not in made:
            made[key] = export_decoder(
                choice_decoder(name),
                folder / (name + precision),
                name=name,
                capacity=CAPACITY,
                chunk=CHUNK,
                golden_prompt=PROMPT,
                precision=precision,
                embedding="host",
            )
        return made[key]

    return get


@pytest.mark.parametrize("name", SOME)
def test_logits_are_those_of_the_graph_that_looks_up_itself_to_the_bit(name, host, bundles):
    from edgeformer.backends.ort import OrtBackend

    found, wanted = (OrtBackend(Bundle.open(str(b.path)), 1) for b in (host(name), bundles[name]))
    ids, position = [(37 * i + 11) % 96 for i in range(40)], 0
    with found, wanted:
        for count in (5, 3, 1, 1, 5, 1):
            part = ids[position : position + count], range(position, position + count)
            assert np.array_equal(*(b.step(*part, [count - 1]).logits for b in (found, wanted)))
            position += count
    assert host(name).golden.greedy_ids == bundles[name].golden.greedy_ids


@pytest.mark.parametrize(("name", "precision"), [(n, "fp32") for n in SOME] + [("tied", "fp16")])
def test_the_manifest_says_where_the_table_lies(name, precision, host):
    bundle = Bundle.open(str(host(name, precision).path))
    config, place = CHOICES[name], bundle.manifest.embedding
    assert (place.rows, place.width) == (config.vocab_size, config.d_model)
    wanted = choice_decoder(name).embedding.weight.detach()
    wanted = wanted.half() if precision == "fp16" else wanted
    assert np.array_equal(open_table(bundle), wanted.numpy())
    assert place.offset % 4096 == 0
    for graph in bundle.manifest.graphs.values():
        model = onnx.load(bundle.file(graph.file), load_external_data=False)
        assert model.graph.input[0].name == "embeddings"
        readers = [n for n in model.graph.node if "embedding.weight" in n.input]
        assert [n.op_type for n in readers] == (["Gemm"] if config.tie_embeddings else [])


def test_a_tied_table_is_stored_once(host, bundles):
    sizes = [(b.path / "weights.bin").stat().st_size for b in (host("tied"), bundles["tied"])]
    assert sizes[0] == sizes[1]


def test_a_table_that_is_not_what_the_manifest_says_is_found_at_export(tmp_path, monkeypatch):
    """The golden run reads the table from the file, by the manifest's own words."""
    from edgeformer.errors import CheckFailed
    from edgeformer.export.weights import WeightsFile

    real = WeightsFile.store
    table = choice_decoder("tied").embedding.weight.detach()

    def shifted(self, array):
        same = array.shape == table.shape and np.array_equal(array, table.numpy())
        return real(self, array) + (4 if same and self._offsets else 0)

    monkeypatch.setattr(WeightsFile, "store", shifted)
    with torch.no_grad(), pytest.raises(CheckFailed, match=r"(prefill|decode)\.onnx differs"):
        export_decoder(
            choice_decoder("tied"), tmp_path / "b", name="b", capacity=40, embedding="host"
        )
