"""Graphs with quantized matrices compute what the decoder with those matrices computes."""

import copy
import dataclasses
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch

from edgeformer.engines.graphfile import FLOAT, read_graph
from edgeformer.engines.shapes import Value, infer
from edgeformer.errors import EdgeformerError
from edgeformer.export.fused_run import FusedRun, fused_logits
from edgeformer.export.graphs import assemble, skeleton, trace, trace_fused
from edgeformer.export.nbits import FLOAT_ACTIVATIONS, with_blocks, with_eight_bits
from edgeformer.export.parity import open_graph
from edgeformer.export.quality import compare, graph_logits, torch_logits
from edgeformer.export.weights import WeightsFile
from edgeformer.nn.quantize import Format
from edgeformer.nn.quantize.decoder import quantize_decoder
from edgeformer.nn.quantize.eight import in_8_bits
from edgeformer.nn.quantize.offsets import joined
from tests.nn.choices import choice_decoder, random_decoder


def quantized_graph(decoder, kind, choose, folder: Path):
    """The graph's file, and the decoder whose weights are what the blocks stand for."""
    like = copy.deepcopy(decoder)
    ids = torch.arange(32).reshape(2, 16) % decoder.config.vocab_size
    blocks = quantize_decoder(like, choose, ids, "searched")
    traced = with_blocks(trace(decoder, kind), blocks, FLOAT_ACTIVATIONS)
    with WeightsFile(folder) as weights:
        model = assemble(traced, list(weights.initializers(traced.weights)))
    path = folder / f"{kind}.onnx"
    path.write_bytes(model.SerializeToString())
    return path, like, model


def logits_of(path, config, ids):
    """All logits of a whole text at once, [T, vocab]."""
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    n = len(ids)
    inputs = {
        "token_ids": np.array(ids, np.int32),
        "positions": np.arange(n, dtype=np.int32),
        "past_positions": np.full(1, -1, np.int32),
        "rows": np.arange(n, dtype=np.int32),
    }
    for value in session.get_inputs()[4:]:
        inputs[value.name] = np.zeros((1, config.n_kv_heads * config.head_dim), np.float32)
    return session.run(["logits"], inputs)[0]


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("choice", ["gqa", "tied", "tied-head-bias", "head-bias", "all-biases"])
def test_a_quantized_graph_computes_the_quantized_decoder(choice, bits, tmp_path):
    decoder = choice_decoder(choice)
    formats = {"embedding.weight": Format(8, 16)}
    path, like, _ = quantized_graph(
        decoder, "prefill", lambda name: formats.get(name, Format(bits, 16)), tmp_path
    )
    ids = [5 * i % decoder.config.vocab_size for i in range(20)]
    wanted = like(torch.tensor([ids]))[0].detach().numpy()
    plain = decoder(torch.tensor([ids]))[0].detach().numpy()
    found = logits_of(path, decoder.config, ids)
    assert np.abs(found - wanted).max() < 1e-4 * max(1.0, np.abs(wanted).max())
    assert np.abs(found - plain).max() > 1e-3, "nothing was quantized"


@pytest.mark.parametrize("kind", ["prefill", "step"])
@pytest.mark.parametrize("choice", ["gqa", "tied", "all-biases", "rmsnorm-plus-one", "gelu"])
def test_smoothed_blocks_compute_the_decoder(choice, kind, tmp_path):
    """Every fold is in the graph: what is left is the rounding, as PyTorch has it."""
    config = dataclasses.replace(choice_decoder(choice).config, d_model=128, d_ff=128, head_dim=16)
    decoder = random_decoder(config, 1, 0.08)
    with torch.no_grad():
        for block in decoder.blocks:
            block.attention_norm.weight[::7] += 3.0
        decoder.final_norm.weight[::5] += 1.0
    ids = torch.randint(96, (6, 40), generator=torch.Generator().manual_seed(3))
    found = in_8_bits(decoder, ids, 64)
    assert found.folded and (found.rows is not None) == config.tie_embeddings
    parameters = decoder.state_dict()
    if kind == "step":
        traced = trace_fused(skeleton(config), 64, parameters)
    else:
        traced = trace(skeleton(config), kind, parameters)
    traced = with_eight_bits(traced, found)
    with WeightsFile(tmp_path) as weights:
        model = assemble(traced, list(weights.initializers(traced.weights)))
    path = tmp_path / f"{kind}.onnx"
    path.write_bytes(model.SerializeToString())
    read = fused_logits(path) if kind == "step" else graph_logits(path, config)
    kl = compare(torch_logits(decoder), read, ids.tolist()).kl
    assert kl == pytest.approx(in_8_bits(decoder, ids).kl[64], rel=0.5) and 1e-7 < kl < 0.05


def test_a_tied_table_is_stored_once(tmp_path):
    decoder = choice_decoder("tied")
    assert decoder.config.tie_embeddings
    _, _, model = quantized_graph(
        decoder, "decode", lambda n: Format(8, 16) if n == "embedding.weight" else None, tmp_path
    )
    places = {
        tensor.name: {entry.key: entry.value for entry in tensor.external_data}
        for tensor in model.graph.initializer
        if tensor.name.startswith("embedding.weight")
    }
    assert places["embedding.weight.B"] == places["embedding.weight.B.rows"]
    assert {node.op_type for node in model.graph.node} >= {"MatMulNBits", "GatherBlockQuantized"}
    assert not any(tensor.name == "embedding.weight" for tensor in model.graph.initializer)


def test_a_table_of_broken_blocks_is_refused_by_name(tmp_path):
    decoder = choice_decoder("tied")
    block = 16 if decoder.config.d_model % 16 else 256
    with pytest.raises(EdgeformerError, match=r"embedding\.weight has rows of .* no whole blocks"):
        quantized_graph(
            decoder,
            "prefill",
            lambda n: Format(8, block) if n == "embedding.weight" else None,
            tmp_path,
        )


def test_a_parameter_that_is_no_matrix_of_the_graph_is_refused():
    decoder = choice_decoder("gqa")
    traced = trace(decoder, "prefill")
    blocks = quantize_decoder(
        copy.deepcopy(decoder), lambda n: Format(8, 16), torch.zeros(1, 4, dtype=torch.int64)
    )
    blocks["nobody.weight"] = next(iter(blocks.values()))
    with pytest.raises(EdgeformerError, match=r"has no nobody\.weight"):
        with_blocks(traced, blocks)


def test_onnx_knows_the_graph_to_be_whole(tmp_path):
    path, _, _ = quantized_graph(
        choice_decoder("gqa"), "prefill", lambda n: Format(4, 16), tmp_path
    )
    onnx.checker.check_model(path)


def with_offsets(decoder):
    """Blocks with offsets for all products; `decoder` gets what the graph's matrices stand for."""
    generator = torch.Generator().manual_seed(3)
    blocks = quantize_decoder(
        decoder, lambda n: None if n.startswith("emb") else Format(4, 16), torch.zeros(1, 4).long()
    )
    for name, old in blocks.items():
        offsets = torch.randn(old.scales.shape, generator=generator) * old.scales
        blocks[name] = dataclasses.replace(old, offsets=offsets)
        assert joined(blocks[name]).copies > 1
        decoder.get_parameter(name).data.copy_(own_weights(blocks[name]))
    return blocks


def own_weights(blocks):
    """The matrix of `joined`, [outputs, inputs]: its last columns are of means of blocks."""
    whole, count = joined(blocks), blocks.values.shape[1]
    dense = whole.blocks.dense()
    means = dense[:, blocks.inputs :].reshape(len(dense), whole.copies, count).sum(1)
    spread = means.repeat_interleave(blocks.format.block, 1) / blocks.format.block
    return dense[:, : blocks.inputs] + spread


@pytest.mark.parametrize("choice", ["gqa", "head-bias"])
def test_offsets_of_blocks_are_more_inputs_of_the_product(choice, tmp_path):
    decoder = choice_decoder(choice)
    like = copy.deepcopy(decoder)
    blocks = with_offsets(like)
    traced = with_blocks(trace(decoder, "prefill"), blocks, FLOAT_ACTIVATIONS)
    assert {"Reshape", "ReduceMean"} < {node.op_type for node in traced.nodes}
    with WeightsFile(tmp_path) as weights:
        model = assemble(traced, list(weights.initializers(traced.weights)))
    (tmp_path / "prefill.onnx").write_bytes(model.SerializeToString())
    ids = [5 * i % decoder.config.vocab_size for i in range(20)]
    wanted = like(torch.tensor([ids]))[0].detach().numpy()
    found = logits_of(tmp_path / "prefill.onnx", decoder.config, ids)
    assert np.abs(found - wanted).max() < 1e-4 * max(1.0, np.abs(wanted).max())


def test_in_the_fused_graph_a_pool_gives_the_means(tmp_path):
    decoder = choice_decoder("gqa")
    like = copy.deepcopy(decoder)
    blocks = with_offsets(like)
    traced = with_blocks(trace_fused(decoder, 32), blocks, FLOAT_ACTIVATIONS)
    kinds = [node.op_type for node in traced.nodes]
    # of the four products of each layer; the head's input has no axis for it
    assert kinds.count("AveragePool") == 4 * decoder.config.n_layers
    with WeightsFile(tmp_path) as weights:
        model = assemble(traced, list(weights.initializers(traced.weights)))
    (tmp_path / "step.onnx").write_bytes(model.SerializeToString())
    ids = [5 * i % decoder.config.vocab_size for i in range(20)]
    wanted = like(torch.tensor([ids]))[0].detach().numpy()
    run = FusedRun(open_graph(tmp_path / "step.onnx"))
    found = np.concatenate([run(ids[:7], range(7)), run(ids[7:8], [0]), run(ids[8:], range(12))])
    assert np.abs(found - wanted).max() < 1e-4 * max(1.0, np.abs(wanted).max())


@pytest.mark.parametrize("like, bias", [("tied", False), ("tied-head-bias", True)])
def test_a_head_adds_a_bias_if_it_has_one(like, bias):
    decoder = choice_decoder(like)
    blocks = quantize_decoder(
        copy.deepcopy(decoder), lambda n: Format(8, 16), torch.zeros(1, 4).long()
    )
    traced = with_blocks(trace(decoder, "prefill"), blocks)
    (last,) = (node for node in traced.nodes if "logits" in node.output)
    assert last.op_type == ("Add" if bias else "MatMulNBits")


def test_sizes_of_a_graph_with_means_of_blocks_are_known(tmp_path):
    decoder = choice_decoder("gqa")
    traced = with_blocks(trace_fused(decoder, 32), with_offsets(copy.deepcopy(decoder)))
    assert "AveragePool" in {node.op_type for node in traced.nodes}
    with WeightsFile(tmp_path) as weights:
        model = assemble(traced, list(weights.initializers(traced.weights)))
    (tmp_path / "step.onnx").write_bytes(model.SerializeToString())
    graph = read_graph(str(tmp_path / "step.onnx"), "step.onnx")
    sizes = {"T": 3, "R": 2}
    given = {
        spec.name: Value(tuple(sizes.get(size, size) for size in spec.shape), FLOAT)
        for spec in traced.contract.inputs
    }
    found = infer(graph, given, "step.onnx")
    for product in [node for node in traced.nodes if node.name.endswith("ff/down/MatMul")][:-1]:
        assert found[product.output[0]].shape == (1, 3, decoder.config.d_model)


def test_a_table_with_offsets_is_refused_by_name():
    decoder = choice_decoder("tied")
    (name,) = blocks = quantize_decoder(
        copy.deepcopy(decoder),
        lambda n: Format(4, 16) if n == "embedding.weight" else None,
        torch.zeros(1, 4).long(),
    )
    blocks[name] = dataclasses.replace(blocks[name], offsets=torch.zeros_like(blocks[name].scales))
    with pytest.raises(EdgeformerError, match=r"embedding\.weight is stored as Q4_1"):
        with_blocks(trace(decoder, "prefill"), blocks)
