"""Every name of TensorRT that the code touches exists where the code touches it."""

import ast
import os
import re

import pytest

from tests.standin import libraries
from tests.standin.conftest import RELEASE

# Names that 8.2.1 lacks. The code asks `hasattr` first, for one of them that stands for the rest.
NEWER = {
    "TensorIOMode": "num_io_tensors",
    "ExecutionContextAllocationStrategy": "ExecutionContextAllocationStrategy",
    "MemoryPoolType": "set_memory_pool_limit",
}
METHODS = {  # of which class the methods are that the code calls on engines and contexts
    "ICudaEngine": {
        "by index": [
            "num_bindings",
            "get_binding_name",
            "binding_is_input",
            "get_binding_shape",
            "get_binding_dtype",
            "get_profile_shape",
        ],
        "by name": [
            "num_io_tensors",
            "get_tensor_name",
            "get_tensor_mode",
            "get_tensor_shape",
            "get_tensor_dtype",
            "get_tensor_profile_shape",
        ],
    },
    "IExecutionContext": {
        "by index": ["set_binding_shape", "execute_async_v2", "device_memory"],
        "by name": ["set_input_shape", "set_tensor_address", "execute_async_v3"],
    },
}

# What the builder's code calls, by class. "8.4 on" and "up to 10" are asked for by name first.
BUILDING = {
    "Builder": [
        "create_network",
        "create_builder_config",
        "create_optimization_profile",
        "build_serialized_network",
    ],
    "INetworkDefinition": [
        "num_layers",
        "get_layer",
        "num_inputs",
        "get_input",
        "num_outputs",
        "get_output",
    ],
    "IBuilderConfig": [
        "set_flag",
        "clear_flag",
        "add_optimization_profile",
        "set_tactic_sources",
        "create_timing_cache",
        "set_timing_cache",
        "get_timing_cache",
    ],
    "ITensor": ["name", "dtype", "shape", "is_shape_tensor", "allowed_formats"],
    "ILayer": ["name", "num_inputs", "get_input", "num_outputs", "get_output"],
    "ITimingCache": ["serialize"],
    "IOptimizationProfile": ["set_shape"],
    "OnnxParser": ["parse_from_file", "num_errors", "get_error"],
    "ParserError": ["desc", "node"],
}
SOMEWHERE = {
    ("IBuilderConfig", "max_workspace_size"): "before 8.4",
    ("IBuilderConfig", "set_memory_pool_limit"): "8.4 on",
    ("ILayer", "precision"): "up to 10",
    ("ILayer", "set_output_type"): "up to 10",
    ("Builder", "platform_has_fast_int8"): "up to 10",
}
FLAGS = ("FP16", "INT8", "OBEY_PRECISION_CONSTRAINTS")  # up to 10, looked up by name


def sources():
    """{file: text} of the code that imports tensorrt."""
    found = {}
    for folder in ("backends", "engines"):
        path = os.path.join(libraries.ROOT, "edgeformer", folder)
        for name in os.listdir(path):
            if name.endswith(".py"):
                with open(os.path.join(path, name), encoding="utf-8") as file:
                    text = file.read()
                if re.search(r"^ *import tensorrt as trt$", text, re.MULTILINE):
                    found[name] = text
    return found


def names_in(text):
    """Chains such as ("DataType", "FLOAT") that follow `trt.` in a source text."""
    for node in ast.walk(ast.parse(text)):
        chain = []
        while isinstance(node, ast.Attribute):
            chain.insert(0, node.attr)
            node = node.value
        if chain and isinstance(node, ast.Name) and node.id == "trt":
            yield tuple(name for name in chain if not name.startswith("__"))


def test_each_name_after_trt_is_in_8_2_1_or_known_to_be_newer():
    table = libraries.names_of("8.2.1")
    seen = set()
    for file, text in sources().items():
        for chain in names_in(text):
            if not chain:
                continue
            seen.add(chain[0])
            known = chain[0] in table and (len(chain) < 2 or chain[1] in table[chain[0]])
            guarded = chain[0] in NEWER and NEWER[chain[0]] in text
            assert known or guarded, "%s: trt.%s" % (file, ".".join(chain))
    assert {"Runtime", "ILogger", "DataType", "TensorIOMode"} <= seen


def test_each_name_after_trt_is_in_the_bindings_that_are_driven():
    import tensorrt as trt

    for file, text in sources().items():
        for chain in names_in(text):
            if chain and chain[0] in NEWER and not hasattr(trt, chain[0]):
                assert RELEASE in ("8.6.1", libraries.AS_821), chain
                continue
            found = trt
            for name in chain:
                assert hasattr(found, name), "%s: trt.%s" % (file, ".".join(chain))
                found = getattr(found, name)


@pytest.mark.parametrize("owner", sorted(METHODS))
def test_the_methods_of_the_path_that_is_taken_exist_and_are_the_ones_in_the_code(owner):
    import tensorrt as trt

    from edgeformer.backends import trt_api

    text = sources()["trt_api.py"]
    path = "by name" if trt_api.BY_NAME else "by index"
    assert (RELEASE == libraries.AS_821) == (path == "by index")
    for method in METHODS[owner][path]:
        assert hasattr(getattr(trt, owner), method)
    for methods in METHODS[owner].values():
        for method in methods:
            assert re.search(r"\.%s\b" % method, text), "%s is not in the code" % method
    table = libraries.names_of("8.2.1")
    assert set(METHODS[owner]["by index"]) <= set(table[owner])
    called = set(re.findall(r"(?:engine|_context)\.([a-z_0-9]+)\(", text))
    ours = {"set_shape", "set_address", "run", "context"}
    listed = {name for paths in METHODS.values() for names in paths.values() for name in names}
    others = {"create_execution_context", "create_execution_context_without_device_memory"}
    assert called - ours <= listed | others


def test_the_names_that_building_calls_exist_in_8_2_1_in_these_bindings_and_in_the_code():
    import tensorrt as trt

    table, text = libraries.names_of("8.2.1"), sources()["trt_builder.py"]
    for owner, members in BUILDING.items():
        for member in members:
            assert member in table[owner], (owner, member)
            assert hasattr(getattr(trt, owner), member), (owner, member)
            assert re.search(r"\.%s\b" % member, text), member
    for (owner, member), when in SOMEWHERE.items():
        assert re.search(r"\b%s\b" % member, text), member
        here = hasattr(getattr(trt, owner), member)
        expected = {
            "before 8.4": RELEASE in ("8.6.1", libraries.AS_821),
            "8.4 on": RELEASE != libraries.AS_821,
            "up to 10": not RELEASE.startswith("11."),
        }
        assert here == expected[when], (owner, member)
        assert (member in table[owner]) == (when != "8.4 on")
    for name in FLAGS:
        assert name in table["BuilderFlag"]
        assert (name in trt.BuilderFlag.__members__) == (not RELEASE.startswith("11."))
        assert '"%s"' % name in text


def test_building_calls_no_method_that_is_not_listed():
    text = sources()["trt_builder.py"]
    owners = "builder|network|config|parser|profile|layer|tensor|error|first"
    called = set(re.findall(r"\b(?:%s)\.([a-z_0-9]+)\b" % owners, text))
    listed = {member for members in BUILDING.values() for member in members}
    listed |= {member for _, member in SOMEWHERE}
    assert called <= listed


@pytest.mark.skipif(RELEASE != libraries.AS_821, reason="names are hidden for 8.2.1 alone")
def test_the_stand_in_for_8_2_1_has_only_its_names():
    import tensorrt as trt

    table = libraries.names_of("8.2.1")
    for name in ("num_io_tensors", "get_tensor_name"):
        assert not hasattr(trt.ICudaEngine, name)
        assert name not in table["ICudaEngine"]
    for name in ("set_input_shape", "execute_async_v3"):
        assert not hasattr(trt.IExecutionContext, name)
    assert hasattr(trt.IExecutionContext, "execute_async_v2")
    assert not hasattr(trt, "TensorIOMode")
