"""TensorRT's own parser and builder take FP16 graphs, parts of which are FP32."""

from __future__ import annotations

import pytest

from edgeformer.export.graphs import assemble, trace
from edgeformer.export.weights import WeightsFile
from edgeformer.nn.pins import half_copy
from tests.export.test_pinned import PINS
from tests.nn.choices import choice_decoder
from tests.rtx.graphs import shared, split


@pytest.mark.parametrize("name", PINS)
def test_graphs_with_pinned_parts_build(name, rtx, tmp_path):
    decoder, graphs = half_copy(choice_decoder(name), PINS[name]), {}
    with WeightsFile(tmp_path) as weights:
        for kind in ("prefill", "decode"):
            draft = trace(decoder, kind, pins=PINS[name])
            model = assemble(draft, list(weights.initializers(draft.weights)))
            (tmp_path / draft.contract.file).write_bytes(model.SerializeToString())
            graphs[kind] = draft.contract
    profiles = {
        "decode": split(graphs, 80, 16)["decode"],
        "prefill": shared(graphs, 80, 16)["prefill"],
    }
    for kind, profile in profiles.items():
        built = rtx.build(tmp_path / graphs[kind].file, graphs[kind], profile)
        assert built.layers > 40
