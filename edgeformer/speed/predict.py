"""How long a step takes: what memory, products, nodes and the host allow. A range, not a number.

    seconds = max(bytes / bandwidth, multiply-adds / rate) + nodes * seconds of a node + host

The first term is the roofline: a matrix is multiplied while it is read, and the slower one counts.
Nothing is fitted to a whole step: each figure is measured, or published, by itself.
"""

from typing import Dict, NamedTuple

from edgeformer.speed.costs import Step


class Range(NamedTuple):
    """The smallest and the largest that a figure may be, and what lies between."""

    low: float
    middle: float
    high: float


class Machine(NamedTuple):
    """What a machine allows. Bytes and multiply-adds a second; seconds."""

    bandwidth: Range
    rate: Range  # of one token's products
    chunk_rate: Range  # of a whole chunk's
    node: Range
    host: Range


class Prediction(NamedTuple):
    """Seconds of a step, and of its parts in the middle."""

    seconds: Range
    parts: Dict[str, float]  # reading, products, nodes, host
    ceiling: Range  # steps a second if only reading and products took time

    @property
    def bound_by(self) -> str:
        """The part that takes longest."""
        return max(self.parts, key=lambda name: self.parts[name])

    def per_second(self, tokens: int = 1) -> Range:
        return Range(*(tokens / value for value in reversed(self.seconds)))


def predict(step: Step, machine: Machine, compiled: bool = False) -> Prediction:
    """`compiled`: the fewest nodes are what a compiler may come down to, the most what runs.

    Otherwise every node runs.
    """
    rate = machine.rate if step.tokens == 1 else machine.chunk_rate
    fewest = step.least_nodes if compiled else step.nodes
    counts = Range(fewest, (fewest + step.nodes) / 2, step.nodes)
    reading = _time(step.bytes, machine.bandwidth)
    products = _time(step.flops / 2, rate)
    roof = Range(*(max(pair) for pair in zip(reading, products)))
    nodes = Range(*(count * each for count, each in zip(counts, machine.node)))
    seconds = Range(*map(sum, zip(roof, nodes, machine.host)))
    parts = {
        "reading": reading.middle,
        "products": products.middle,
        "nodes": nodes.middle,
        "host": machine.host.middle,
    }
    return Prediction(seconds, parts, Range(*(1 / value for value in reversed(roof))))


def _time(work: float, rate: Range) -> Range:
    """Seconds: the least at the highest rate."""
    return Range(*(work / value for value in reversed(rate)))
