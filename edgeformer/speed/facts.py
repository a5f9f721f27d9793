"""What a board that is elsewhere allows, from public pages. Nothing was measured on one by us.

GB/s, GFLOPS (two operations a multiply-add), microseconds. `note` says what was worked out, and a
source that begins with targets.NO_PAGE is an assumption: there was no public figure to take.
"""

from typing import Dict, NamedTuple, Tuple

from edgeformer.errors import EdgeformerError
from edgeformer.speed.predict import Machine, Range
from edgeformer.targets import NO_PAGE, TARGETS, Fact

_LLAMA_NANO = "https://github.com/kreier/llama.cpp-jetson"
_WHISPER = "https://github.com/ggml-org/whisper.cpp/issues/89"
_ORIN = "https://github.com/hokwangchoi/jetson-orin-nano-benchmarks"
_MEM_BENCH = "https://github.com/jetsonhacks/jetson-mem-bench"
_GRAPHS = "https://developer.nvidia.com/blog/cuda-graphs/"
_SMOL = "https://smolhub.com/posts/jetson-nano-super-benchmark-non-reasoning/"

Pair = Tuple[Fact, Fact]  # the lowest and the highest that is believed


class BoardSpeed(NamedTuple):
    """One memory size of a target. `rates`: GFLOPS of products, by the precision of an engine."""

    bandwidth: Pair
    rates: Dict[str, Pair]
    launch: Pair  # microseconds of a kernel that does next to nothing, launched in a CUDA graph
    host: Pair  # microseconds of a step that are Python's and the driver's


_HOST_NANO = (
    Fact(100, NO_PAGE + "assumed", "5 times what a step's Python takes on a 2023 server core"),
    Fact(500, NO_PAGE + "assumed", "25 times that: a Cortex-A57 with cold caches"),
)
_HOST_ORIN = (
    Fact(50, NO_PAGE + "assumed", "half of the Nano's: Cortex-A78AE at a like clock"),
    Fact(250, NO_PAGE + "assumed", "half of the Nano's"),
)
_NANO = BoardSpeed(
    bandwidth=(
        Fact(16.5, _LLAMA_NANO, "device to device copy, reads and writes counted"),
        TARGETS["jetson-nano"].boards["4gb"].bandwidth_seen,
    ),
    rates={
        "fp32": (
            Fact(52.8, _WHISPER, "cuBLAS through ggml, 512 x 512 x 512 in FP32"),
            Fact(
                235.9,
                "https://gist.github.com/r7vme/45ad34e9c2e8d8cd1c01d94975ee6bee",
                "worked out: 128 cores, 2 operations a clock, 921.6 MHz; no kernel reaches it",
            ),
        ),
        "fp16": (
            Fact(49.9, _WHISPER, "cuBLAS through ggml, 512 x 512 x 512 in FP16"),
            Fact(471.9, "https://github.com/YahboomTechnology/Jetson-NANO-4GB", "the peak"),
        ),
    },
    launch=(
        Fact(3.4, _GRAPHS, "a short kernel in a graph on a V100, the least to be had"),
        Fact(20, NO_PAGE + "assumed", "three times what is worked out for the Orin Nano"),
    ),
    host=_HOST_NANO,
)
_ORIN_LAUNCH = (
    Fact(3.4, _GRAPHS, "a short kernel in a graph on a V100, the least to be had"),
    Fact(
        6.6,
        _SMOL,
        "worked out: SmolLM2-135M takes 6.05 ms a token, of which 101 MB at 82 GB/s are 1.23, and "
        "its graph has 732 nodes that compute",
    ),
)


def _orin(nominal: float, fastest: float, cores: int, tops: float) -> BoardSpeed:
    """`tops`: of INT8 as advertised, sparse, in the Super modes."""
    cuda = 2 * cores * 0.625
    return BoardSpeed(
        bandwidth=(
            Fact(0.6 * nominal, _MEM_BENCH, f"worked out: 60 % of {nominal} GB/s, at 15 W"),
            Fact(0.8 * fastest, _MEM_BENCH, f"worked out: 80 % of {fastest} GB/s, Super modes"),
        ),
        rates={
            "fp32": (
                Fact(0.25 * cuda, _ORIN, "worked out: a quarter of the peak; no figure was found"),
                Fact(cuda, _ORIN, f"worked out: {cores} cores, 2 operations a clock, 625 MHz"),
            ),
            "fp16": (
                Fact(cuda, _ORIN, "worked out: what the CUDA cores do in FP32 at 625 MHz"),
                Fact(250 * tops, _ORIN, "worked out: a quarter of sparse INT8; the peak"),
            ),
            "int8": (
                Fact(cuda, _ORIN, "worked out: as FP16, where kernels gain nothing"),
                Fact(500 * tops, _ORIN, "worked out: half of sparse INT8; the peak"),
            ),
        },
        launch=_ORIN_LAUNCH,
        host=_HOST_ORIN,
    )


SPEEDS: Dict[str, BoardSpeed] = {
    "jetson-nano-4gb": _NANO,
    "jetson-nano-2gb": _NANO,
    "jetson-orin-nano-8gb": _orin(68, 102, 1024, 67),
    "jetson-orin-nano-4gb": _orin(34, 51, 512, 33.5),
}


def machine(name: str, precision: str) -> Machine:
    """What a board such as `jetson-nano-4gb` allows an engine of a precision."""
    if name not in SPEEDS:
        raise EdgeformerError(f"nothing is known of {name}'s speed; choose {', '.join(SPEEDS)}")
    speed = SPEEDS[name]
    rate = _range(speed.rates[precision], 0.5e9)  # two operations are one multiply-add
    return Machine(
        _range(speed.bandwidth, 1e9),
        rate,
        rate,
        _range(speed.launch, 1e-6),
        _range(speed.host, 1e-6),
    )


def facts(name: str, precision: str) -> Dict[str, Pair]:
    """Each figure that `machine` is made of."""
    speed = SPEEDS[name]
    return {
        "bandwidth_gb_per_s": speed.bandwidth,
        "products_gflops": speed.rates[precision],
        "launch_us": speed.launch,
        "host_us": speed.host,
    }


def _range(pair: Pair, unit: float) -> Range:
    low, high = (fact.value * unit for fact in pair)
    return Range(low, (low * high) ** 0.5, high)
