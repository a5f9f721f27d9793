"""TensorRT's builder: one ONNX file to one plan, with whichever calls this release has.

Runs in a process of its own (`engines.child`). Asked of the module, never of its version:
workspace as a property (8.2) or a memory pool (8.4 on), precisions by flags and by layer (up to
10) or by the graph's own types (10 on, all that 11 has).
"""

import os
from typing import Any, Callable, Dict, List, Set

import tensorrt as trt

from edgeformer.engines.graphfile import read_graph

VERSION = trt.__version__
FLAGS = trt.BuilderFlag.__members__
NETWORK_FLAGS = trt.NetworkDefinitionCreationFlag.__members__
HAS_FLAGS = "FP16" in FLAGS  # weak typing: a builder flag allows FP16, a layer can be excepted
HAS_TYPES = "STRONGLY_TYPED" in NETWORK_FLAGS  # the types of the graph are those of the engine
# How layers are called that the parser adds of its own accord: up to 8, and in newer parsers.
ADDED = ("(Unnamed Layer", "ONNXTRT_")

Tell = Callable[[Dict[str, Any]], None]


class Refused(Exception):
    """TensorRT did not do it; `kind` says at which point."""

    def __init__(self, kind: str, text: str) -> None:
        Exception.__init__(self, text)
        self.kind = kind


class Teller(trt.ILogger):
    """Passes on warnings and errors as they come: the process may not live to tell them."""

    def __init__(self, tell: Tell) -> None:
        trt.ILogger.__init__(self)
        self._tell = tell

    def log(self, severity: Any, message: str) -> None:
        if severity <= trt.ILogger.WARNING:
            self._tell({"log": message})


def probe(tell: Tell) -> Dict[str, Any]:
    """What this TensorRT is able to build for this GPU."""
    builder = _builder(Teller(tell))
    return {
        "tensorrt": VERSION,
        "has_flags": HAS_FLAGS,
        "has_types": HAS_TYPES,
        # 11 does not say; it knows no GPU that is without INT8
        "fast_int8": getattr(builder, "platform_has_fast_int8", True),
        "tactics": sorted(trt.TacticSource.__members__),
    }


def build(job: Dict[str, Any], tell: Tell) -> Dict[str, Any]:
    """Write the plan that a job (`engines.attempt.Job`) describes."""
    tell({"stage": "starting TensorRT"})
    logger = Teller(tell)
    builder = _builder(logger)
    network = builder.create_network(_network_flags(job["typed"]))
    tell({"stage": "parsing"})
    parser = trt.OnnxParser(network, logger)
    if not parser.parse_from_file(job["graph"]):
        raise Refused("parser", _parser_errors(parser, job["graph"]))
    config = builder.create_builder_config()
    _set_ends(network, job)
    pinned = _set_precision(network, config, job)
    _add_profile(builder, network, config, job["shapes"])
    _set_workspace(config, job["workspace"] << 20)
    if job["tactics"]:
        sources = trt.TacticSource.__members__
        config.set_tactic_sources(sum(1 << int(sources[name]) for name in job["tactics"]))
    timings = _timings(config, job["timings"])
    tell({"stage": "building"})
    plan = builder.build_serialized_network(network, config)
    if plan is None:
        raise Refused("builder", "TensorRT built nothing")
    tell({"stage": "writing"})
    write(job["plan"], plan)
    if timings:
        write(job["new_timings"], config.get_timing_cache().serialize())
    return {"pinned": pinned, "layers": network.num_layers}


def write(path: str, content: Any) -> None:
    """A new file that is on the disk when this returns."""
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _builder(logger: Teller) -> Any:
    try:
        return trt.Builder(logger)
    except TypeError as error:  # pybind11's "factory function returned nullptr"
        raise Refused("start", f"TensorRT {VERSION} does not start ({error})") from None


def _network_flags(typed: bool) -> int:
    wanted = ["EXPLICIT_BATCH"] + ["STRONGLY_TYPED"] * typed
    return sum(1 << int(NETWORK_FLAGS[name]) for name in wanted if name in NETWORK_FLAGS)


def _parser_errors(parser: Any, path: str) -> str:
    """Each error with the node that it is about: TensorRT 8 tells its number alone."""
    nodes, found = read_graph(path, os.path.basename(path)).nodes, []
    for index in range(min(parser.num_errors, 5)):
        error = parser.get_error(index)
        text, number = error.desc(), error.node()
        if 0 <= number < len(nodes):
            text = f"{nodes[number].operator} node {nodes[number].name!r}: {text}"
        found.append(text)
    return "; ".join(found) or "the parser gives no reason"


def _set_ends(network: Any, job: Dict[str, Any]) -> None:
    """Types and layout of inputs and outputs; the names must be those of the manifest."""
    ends = [network.get_input(index) for index in range(network.num_inputs)]
    outputs = [network.get_output(index) for index in range(network.num_outputs)]
    differ = {tensor.name for tensor in ends} ^ set(job["shapes"])
    differ |= {tensor.name for tensor in outputs} ^ set(job["outputs"])
    if differ:
        raise Refused("graph", "other inputs or outputs than the manifest's: " + min(differ))
    for tensor in ends + outputs:
        tensor.allowed_formats = 1 << int(trt.TensorFormat.LINEAR)
        if tensor.name in job["half"] and not job["typed"]:
            tensor.dtype = trt.DataType.HALF


def _set_precision(network: Any, config: Any, job: Dict[str, Any]) -> int:
    """Builder flags, and FP32 for the layers that need it; how many these are."""
    if job["precision"] == "fp32":
        config.clear_flag(trt.BuilderFlag.TF32)  # else an Orin rounds every factor to 10 bits
    if job["precision"] == "fp32" or job["typed"]:
        return 0
    names = {"fp16": ["FP16"], "int8": ["FP16", "INT8"]}[job["precision"]]
    for name in names + ["OBEY_PRECISION_CONSTRAINTS"]:
        config.set_flag(FLAGS[name])
    return _pin(network, job["pinned"])


def _pin(network: Any, prefix: str) -> int:
    """Set layers whose names begin with `prefix` to FP32, and what lies between and before them.

    The parser adds reshapes behind a layer so that ranks agree: a sum of squares that is FP32
    before one and after it must not be FP16 in it. And it makes a layer of each constant: tables
    of positions and the epsilon of a norm must not be rounded either.
    """
    inside: Set[str] = set()  # tensors that pinned layers make
    constants: Dict[str, List[Any]] = {}  # tensor -> the constant and reshapes that it comes from
    pinned: Set[str] = set()
    for index in range(network.num_layers):
        layer = network.get_layer(index)
        inputs = [layer.get_input(i) for i in range(layer.num_inputs)]
        outputs = [layer.get_output(i) for i in range(layer.num_outputs)]
        added = layer.name.startswith(ADDED)
        if not inputs or (added and inputs[0].name in constants):
            before = constants[inputs[0].name] if inputs else []
            constants[outputs[0].name] = before + [layer]
        elif layer.name.startswith(prefix) or (added and inputs[0].name in inside):
            group = [layer]
            for tensor in inputs:  # None is an input that is left out
                group += constants.get(tensor.name, []) if tensor is not None else []
            pinned.update(one.name for one in group if _set_fp32(one))
            inside.update(tensor.name for tensor in outputs)
    return len(pinned)


def _set_fp32(layer: Any) -> bool:
    """Compute and answer in FP32, where the answers are floats: INT32 is no choice of flags."""
    floats = [i for i in range(layer.num_outputs) if _is_float(layer.get_output(i))]
    for i in floats:
        layer.set_output_type(i, trt.DataType.FLOAT)
    if floats and layer.num_inputs and _is_float(layer.get_input(0)):
        layer.precision = trt.DataType.FLOAT
    return bool(floats)


def _is_float(tensor: Any) -> bool:
    return tensor.dtype == trt.DataType.FLOAT and not tensor.is_shape_tensor


def _add_profile(builder: Any, network: Any, config: Any, shapes: Dict[str, List[Any]]) -> None:
    """One profile: the least, the best and the largest shape of each input that is free."""
    profile, free = builder.create_optimization_profile(), 0
    for index in range(network.num_inputs):
        tensor = network.get_input(index)
        if any(size < 0 for size in tensor.shape):
            free += 1
            least, best, most = shapes[tensor.name]
            profile.set_shape(tensor.name, least, best, most)
    if free and config.add_optimization_profile(profile) < 0:
        raise Refused("profile", "TensorRT refuses the profile of shapes")


def _set_workspace(config: Any, size: int) -> None:
    if hasattr(trt.IBuilderConfig, "set_memory_pool_limit"):
        config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, size)
    else:
        config.max_workspace_size = size


def _timings(config: Any, path: str) -> bool:
    """Begin with the kernels' timings of earlier builds; a file that is no use is left out."""
    content = b""
    if os.path.isfile(path):
        with open(path, "rb") as file:
            content = file.read()
    cache = config.create_timing_cache(content)
    if cache is None and content:
        cache = config.create_timing_cache(b"")
    return cache is not None and bool(config.set_timing_cache(cache, False))
