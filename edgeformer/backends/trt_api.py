"""TensorRT's two Python interfaces behind one: by binding index (8.2 to 8.6), by name (8.5 on).

Which one is used is asked of the module, never of its version.
"""

from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

import tensorrt as trt

from edgeformer.errors import EdgeformerError

VERSION = trt.__version__
BY_NAME = hasattr(trt.ICudaEngine, "num_io_tensors")
# Before TensorRT 10 two contexts of an engine cannot use the same profile.
PROFILES_ARE_SHARED = not hasattr(trt.ICudaEngine, "num_bindings")
# Not trt.nptype: in 8.2 it asks numpy for a name that newer ones have dropped.
DTYPES = {
    int(trt.DataType.FLOAT): "float32",
    int(trt.DataType.HALF): "float16",
    int(trt.DataType.INT32): "int32",
}


class TensorInfo(NamedTuple):
    """A tensor of an engine. A size that is free in it is -1 in `shape`."""

    dtype: str
    shape: Tuple[int, ...]
    is_input: bool
    least: Tuple[int, ...]  # of the profile; as `shape` where nothing is free
    most: Tuple[int, ...]


class Logger(trt.ILogger):
    """Keeps the errors of TensorRT, which it tells nowhere else, and prints nothing."""

    def __init__(self) -> None:
        trt.ILogger.__init__(self)
        self._errors: List[str] = []

    def log(self, severity: Any, message: str) -> None:
        if severity <= trt.ILogger.ERROR:
            self._errors = self._errors[-2:] + [message]

    def told(self) -> str:
        """The last errors; then they are forgotten."""
        errors, self._errors = self._errors, []
        return "; ".join(errors) or "TensorRT gives no reason"


# One for the whole process, and for good: TensorRT keeps the first that it is given.
LOGGER = Logger()


def open_runtime(logger: Logger) -> Any:
    """TensorRT's runtime, or an error that says why there is none."""
    try:
        return trt.Runtime(logger)
    except TypeError as error:  # pybind11's "factory function returned nullptr"
        raise EdgeformerError(
            f"TensorRT {VERSION} does not start: {logger.told()} ({error}); "
            "it needs a GPU and a driver that fits: on a Jetson use the TensorRT of its JetPack, "
            "elsewhere use --backend ort"
        ) from None


class Engine:
    """One plan, loaded: what tensors it has and what memory its contexts need."""

    def __init__(self, runtime: Any, logger: Logger, plan: bytes, name: str) -> None:
        self._logger = logger
        self._engine = runtime.deserialize_cuda_engine(plan)
        if self._engine is None:
            raise EdgeformerError(
                f"TensorRT {VERSION} cannot load {name}: {logger.told()}; "
                "build it again: python -m edgeformer build BUNDLE"
            )
        self.tensors = self._by_name() if BY_NAME else self._by_index()
        sized = hasattr(trt.ICudaEngine, "device_memory_size_v2")
        engine = self._engine
        self.arena = engine.device_memory_size_v2 if sized else engine.device_memory_size

    def context(self, arena: int) -> "Context":
        """A context that computes in `self.arena` bytes of memory at an address of ours."""
        engine = self._engine
        if hasattr(trt, "ExecutionContextAllocationStrategy"):
            ours = trt.ExecutionContextAllocationStrategy.USER_MANAGED
            context = engine.create_execution_context(ours)
        else:
            context = engine.create_execution_context_without_device_memory()
        if context is None:
            raise EdgeformerError(
                f"TensorRT cannot make an execution context: {self._logger.told()}; close other "
                "programs, or export with a smaller capacity or chunk"
            )
        if hasattr(trt.IExecutionContext, "set_device_memory"):
            context.set_device_memory(arena, self.arena)
        else:
            context.device_memory = arena
        return Context(context, list(self.tensors), self._logger)

    def _by_name(self) -> Dict[str, TensorInfo]:
        engine, found = self._engine, {}
        for index in range(engine.num_io_tensors):
            name = engine.get_tensor_name(index)
            is_input = engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT
            shape = tuple(engine.get_tensor_shape(name))
            profile = engine.get_tensor_profile_shape(name, 0) if is_input else ()
            found[name] = _info(engine.get_tensor_dtype(name), shape, is_input, profile)
        return found

    def _by_index(self) -> Dict[str, TensorInfo]:
        engine, found = self._engine, {}
        for index in range(engine.num_bindings):
            is_input = engine.binding_is_input(index)
            shape = tuple(engine.get_binding_shape(index))
            profile = engine.get_profile_shape(0, index) if is_input and -1 in shape else ()
            dtype = engine.get_binding_dtype(index)
            found[engine.get_binding_name(index)] = _info(dtype, shape, is_input, profile)
        return found


class Context:
    """One execution context: shapes and addresses stay as they are until they are set again."""

    def __init__(self, context: Any, names: List[str], logger: Logger) -> None:
        self._context = context
        self._logger = logger
        self._index = {name: index for index, name in enumerate(names)}
        self._bindings = [0] * len(names)

    def set_address(self, name: str, address: int) -> None:
        if not BY_NAME:
            self._bindings[self._index[name]] = address
        elif not self._context.set_tensor_address(name, address):
            raise EdgeformerError(f"TensorRT refuses the address of {name}: {self._logger.told()}")

    def set_shape(self, name: str, shape: Sequence[int]) -> None:
        """The shape of an input whose size is free."""
        if BY_NAME:
            taken = self._context.set_input_shape(name, shape)
        else:
            taken = self._context.set_binding_shape(self._index[name], shape)
        if not taken:
            raise EdgeformerError(
                f"the engine does not take {name} with shape {tuple(shape)}: "
                f"{self._logger.told()}; build it again: python -m edgeformer build BUNDLE"
            )

    def run(self, stream: int) -> None:
        """Put one step on a stream."""
        if BY_NAME:
            started = self._context.execute_async_v3(stream)
        else:
            started = self._context.execute_async_v2(self._bindings, stream)
        if not started:
            raise EdgeformerError(f"TensorRT failed in a step: {self._logger.told()}")


def _info(dtype: Any, shape: Tuple[int, ...], is_input: bool, profile: Sequence[Any]) -> TensorInfo:
    least, most = (tuple(profile[0]), tuple(profile[2])) if len(profile) else (shape, shape)
    return TensorInfo(DTYPES.get(int(dtype), str(dtype)), shape, is_input, least, most)
