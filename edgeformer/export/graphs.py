"""Trace a step of a decoder into the graphs of a bundle, without its weights."""

from __future__ import annotations

import dataclasses
import io
import warnings
from collections.abc import Collection
from dataclasses import dataclass

import onnx
import torch

from edgeformer.contract import DTYPES, STEP, Graph, TensorSpec, fused_graph, portable_graph
from edgeformer.errors import CheckFailed
from edgeformer.export.clean import Draft, Weight
from edgeformer.export.fuse import DOMAIN as OWN_DOMAIN
from edgeformer.export.fuse import fused_nodes
from edgeformer.export.pinned import name_nodes
from edgeformer.export.threads import one_thread
from edgeformer.nn.config import ModelConfig
from edgeformer.nn.decoder import Decoder
from edgeformer.nn.fused_step import FusedStep
from edgeformer.nn.pins import half_copy
from edgeformer.nn.step import CachedStep

OPSET, IR = 13, 8
FEW_IDS = 64  # more than the ids of the example that is traced
ELEMENT = {
    "int32": onnx.TensorProto.INT32,
    "int64": onnx.TensorProto.INT64,
    "float32": onnx.TensorProto.FLOAT,
    "float16": onnx.TensorProto.FLOAT16,
}
TORCH = {precision: getattr(torch, name) for precision, name in DTYPES.items()}


@dataclass(frozen=True)
class Traced:
    """A clean graph whose weights are still to be stored."""

    contract: Graph
    nodes: list[onnx.NodeProto]
    weights: dict[str, Weight]


def trace(
    decoder: Decoder,
    kind: str,
    parameters: dict[str, torch.Tensor] | None = None,
    host: bool = False,
    pins: Collection[str] = (),
) -> Traced:
    """`kind` is prefill (any T, P, R) or decode (T = R = 1). The graph has the decoder's own types.

    `pins`: those of the decoder, or those that a float32 graph is to have in an FP16 engine.
    `parameters` is where weights are looked up when they are stored, by the decoder's names: the
    decoder may be a skeleton that has none, and theirs may be another type. None: the decoder's
    own. `host`: the graph takes rows of the embedding in place of token ids.
    """
    step = CachedStep(decoder, one=kind == "decode", host=host).eval()
    precision = next(name for name, known in TORCH.items() if known == decoder.dtype)
    contract = portable_graph(kind, f"{kind}.onnx", decoder.config.to_json(), precision, host)
    return _traced(step, contract, parameters, pins)


def trace_fused(
    decoder: Decoder,
    capacity: int,
    parameters: dict[str, torch.Tensor] | None = None,
    exact: bool = False,
) -> Traced:
    """The one graph of dialect `ort`, over a cache of so many rows. As `trace`, else.

    `exact`: as nn.fused_step.FusedStep says.
    """
    step = FusedStep(decoder, capacity, exact).eval()
    model = decoder.config.to_json()
    contract = fused_graph(f"{STEP}.onnx", model, capacity, step.counted, step.spare)
    traced = _traced(step, contract, parameters, ())
    outputs = [spec.name for spec in contract.outputs]
    nodes = fused_nodes(traced.nodes, traced.weights, outputs)
    read = {value for node in nodes for value in node.input}
    weights = {value: weight for value, weight in traced.weights.items() if value in read}
    return dataclasses.replace(traced, nodes=nodes, weights=weights)


def _traced(
    step: CachedStep | FusedStep,
    contract: Graph,
    parameters: dict[str, torch.Tensor] | None,
    pins: Collection[str],
) -> Traced:
    decoder = step.decoder
    raw = _export(step, contract)
    _check_contract(raw, contract, step)
    if parameters is None:
        parameters = decoder.state_dict()
    weights, own = {}, step.state_dict()
    for value in raw.graph.input:
        name = value.name.removeprefix("decoder.")
        if value.name in own:
            weights[value.name] = Weight(
                name,
                lambda name=name, dtype=own[value.name].dtype: (
                    parameters[name].detach().to(dtype).cpu().numpy()
                ),
            )
    known = onnx.shape_inference.infer_shapes(raw).graph
    tensors = {v.name: v.type.tensor_type for v in (*known.input, *known.value_info)}
    draft = Draft(
        list(raw.graph.node),
        weights,
        outputs=tuple(spec.name for spec in contract.outputs),
        types={name: t.elem_type for name, t in tensors.items()},
        ranks={name: len(t.shape.dim) for name, t in tensors.items() if t.HasField("shape")},
    )
    draft.clean()
    name_nodes(draft.nodes, draft.weights, decoder, pins)
    _check_shapes(draft.nodes)
    return Traced(contract, draft.nodes, draft.weights)


def skeleton(config: ModelConfig, precision: str = "fp32", pins: Collection[str] = ()) -> Decoder:
    """A decoder to trace, each of whose weights is one number, seen from every place.

    The exporter keeps a copy of each weight that it turns round: beside the real ones that would
    be one model too many. It also takes equal weights for one, so the numbers differ.
    """
    with torch.device("meta"):  # no node knows the size of the vocabulary
        decoder = Decoder(dataclasses.replace(config, vocab_size=min(FEW_IDS, config.vocab_size)))
    decoder.config = config
    if precision == "fp16":
        decoder = half_copy(decoder, pins)
    # by their bits: not every integer is a number of its own in half precision
    bits = {torch.float32: torch.int32, torch.float16: torch.int16}
    numbers = {
        name: torch.tensor(1 + i, dtype=bits[t.dtype]).view(t.dtype).expand(t.shape)
        for i, (name, t) in enumerate(decoder.state_dict().items())
    }
    decoder.load_state_dict(numbers, assign=True)
    decoder.add_tables()
    return decoder.eval()


def assemble(traced: Traced, initializers: list[onnx.TensorProto]) -> onnx.ModelProto:
    """The finished model. Inputs, outputs and their sizes are those of the contract."""
    graph = onnx.helper.make_graph(
        traced.nodes,
        traced.contract.file.removesuffix(".onnx"),
        [_value(spec) for spec in traced.contract.inputs],
        [_value(spec) for spec in traced.contract.outputs],
        initializers,
    )
    opset = onnx.helper.make_opsetid("", OPSET)
    domains = {node.domain for node in traced.nodes} - {""}  # none, or the check will refuse it
    others = [onnx.helper.make_opsetid(domain, 1) for domain in sorted(domains)]
    return onnx.helper.make_model(
        graph, opset_imports=[opset, *others], ir_version=IR, producer_name="edgeformer"
    )


def _export(step: CachedStep | FusedStep, contract: Graph) -> onnx.ModelProto:
    """PyTorch's tracing exporter; parameters become inputs with their names in the module."""
    names = [spec.name for spec in contract.inputs], [spec.name for spec in contract.outputs]
    axes = {
        spec.name: {i: dim for i, dim in enumerate(spec.shape) if isinstance(dim, str)}
        for spec in (*contract.inputs, *contract.outputs)
    }
    file = io.BytesIO()
    with warnings.catch_warnings(), torch.no_grad(), one_thread():
        warnings.simplefilter("ignore")  # the exporter's own deprecation, Python numbers in a trace
        torch.onnx.export(
            step,
            step.example_inputs(),
            file,
            dynamo=False,  # the other exporter has no opset 13
            opset_version=OPSET,
            input_names=names[0],
            output_names=names[1],
            dynamic_axes=axes,
            export_params=False,
            do_constant_folding=False,  # it would copy every transposed weight
            # what ONNX lacks stays in the graph as it is, so that our check can name its module
            operator_export_type=torch.onnx.OperatorExportTypes.ONNX_FALLTHROUGH,
            custom_opsets={OWN_DOMAIN: 1} if isinstance(step, FusedStep) else None,
        )
    return onnx.load_from_string(file.getvalue())


def _check_contract(raw: onnx.ModelProto, contract: Graph, step: CachedStep | FusedStep) -> None:
    """The exporter drops unused inputs without a word and keeps what it cannot name."""
    parameters = step.state_dict()
    inputs = [v.name for v in raw.graph.input if v.name not in parameters]
    outputs = [v.name for v in raw.graph.output]
    for found, wanted in ((inputs, contract.inputs), (outputs, contract.outputs)):
        names = [spec.name for spec in wanted]
        if found != names:
            lost = [n for n in names if n not in found] or [n for n in found if n not in names]
            raise CheckFailed(
                f"{contract.file} was traced with {len(found)} of {len(names)} tensors of its "
                f"contract; check: {', '.join(lost[:5]) or 'their order'}. "
                "An input that nothing depends on is dropped by the exporter"
            )


def _check_shapes(nodes: list[onnx.NodeProto]) -> None:
    """At most one Shape node, read by Slice alone: TensorRT then has no sizes to compute."""
    shapes = [node for node in nodes if node.op_type == "Shape"]
    for node in nodes:
        sizes = {name for shape in shapes for name in shape.output} & set(node.input)
        if sizes and node.op_type != "Slice":
            raise CheckFailed(f"node {node.name} ({node.op_type}) computes with a tensor's size")
    if len(shapes) > 1:
        names = ", ".join(node.name for node in shapes)
        raise CheckFailed(f"{len(shapes)} Shape nodes, one is allowed: {names}")


def _value(spec: TensorSpec) -> onnx.ValueInfoProto:
    return onnx.helper.make_tensor_value_info(spec.name, ELEMENT[spec.dtype], list(spec.shape))
