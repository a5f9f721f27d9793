"""`plan --speed` as a user meets it."""

import json

import pytest

from edgeformer.__main__ import main
from edgeformer.cli import plan_speed
from edgeformer.speed.predict import Machine, Range
from tests import bundles


def document(capsys, *words):
    assert main(["plan", *words, "--speed", "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_on_this_machine_it_probes_runs_and_gives_the_share(capsys):
    found = document(capsys, bundles.ROPE, "--threads", "1")
    assert (found["where"], found["threads"], found["facts"]) == ("this machine", 1, {})
    assert found["from"] == "a probe of this machine"
    measured = found["measured"]
    assert measured["tokens_per_s"] == pytest.approx(1 / measured["token_s"])
    ceiling = found["ceiling_tokens_per_s"]["middle"]
    assert measured["share_of_ceiling"] == pytest.approx(measured["tokens_per_s"] / ceiling)
    assert measured["predicted_over_measured"] == pytest.approx(
        found["decode"]["seconds"]["middle"] / measured["token_s"]
    )
    assert found["decode"]["past_rows"] == 64


def test_the_prediction_adds_up_from_the_probe_and_the_costs(capsys):
    found = document(capsys, bundles.INT8, "--threads", "1", "--no-run")
    assert found["measured"] is None
    decode, machine = found["decode"], found["machine"]
    size = decode["weight_bytes"] + decode["cache_bytes"]
    roof = max(
        size / machine["bandwidth_bytes_per_s"]["middle"],
        decode["flops"] / 2 / machine["multiply_adds_per_s"]["middle"],
    )
    total = roof + decode["nodes"] * machine["node_s"]["middle"] + machine["host_s"]["middle"]
    assert decode["seconds"]["middle"] == pytest.approx(total)
    assert sum(decode["parts_s"].values()) >= total


def test_a_board_that_is_elsewhere_is_predicted_from_facts_and_says_so(capsys):
    for target in ("jetson-nano", "jetson-nano-2gb", "jetson-orin-nano", "jetson-orin-nano-4gb"):
        assert main(["plan", bundles.ROPE, "--target", target, "--speed"]) == 0
        text = capsys.readouterr().out
        assert "all of it is predicted" in text
        assert "measured" not in text.replace("no board was measured", "")
        assert text.count("https://") >= 4
    found = document(capsys, bundles.ROPE, "--target", "jetson-nano")
    assert (found["predicted"], found["measured"], found["threads"]) == (True, None, None)
    assert found["precision"] == "fp16"
    assert found["facts"]["bandwidth_gb_per_s"][0]["value"] == 16.5
    seconds = found["decode"]["seconds"]
    assert seconds["low"] < seconds["middle"] < seconds["high"]


def test_precision_and_rows_change_what_is_read(capsys):
    def decode(*words):
        words = (bundles.ROPE, "--target", "jetson-nano", *words)
        return document(capsys, *words)["decode"]

    half, whole = decode("--precision", "fp16"), decode("--precision", "fp32")
    assert half["weight_bytes"] < whole["weight_bytes"]
    assert half["flops"] == whole["flops"]
    few, many = decode("--rows", "1"), decode("--rows", "99")
    assert (few["past_rows"], many["past_rows"]) == (1, 99)
    assert few["cache_bytes"] < many["cache_bytes"]


def test_the_text_has_the_figures_of_the_probe_and_of_the_run(capsys):
    assert main(["plan", bundles.LEARNED, "--speed", "--threads", "1"]) == 0
    text = capsys.readouterr().out
    for words in ("tiny-learned on this machine, fp32, 1 threads", "a token reads", "GB/s at the"):
        assert words in text
    for words in ("ceiling:", "predicted:", "prompt tokens/s", "measured:", "% of the ceiling"):
        assert words in text


@pytest.mark.parametrize(
    "words, why",
    [
        (["--speed", "--rows", "100"], "--rows is 100; it must be 0 to 99"),
        (["--speed", "--rows", "-1"], "--rows is -1"),
        (["--speed", "--threads", "0"], "--threads is 0"),
        (["--rows", "5"], "--rows belongs to --speed"),
        (["--no-run"], "--no-run belongs to --speed"),
        (["--speed", "--target", "jetson-nano", "--precision", "int8"], "no INT8"),
    ],
)
def test_mistakes_are_one_line_and_exit_2(words, why, capsys):
    assert main(["plan", bundles.ROPE, *words]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert why in captured.err
    assert len(captured.err.splitlines()) == 1


def test_a_bundle_that_this_onnxruntime_is_too_old_for_says_so(capsys):
    status = main(["plan", bundles.BLOCKS, "--speed", "--no-run", "--threads", "1"])
    captured = capsys.readouterr()
    if status:
        assert status == 2
        assert "needs onnxruntime" in captured.err
    else:
        assert "n8" in captured.out


@pytest.mark.parametrize(("high", "said"), [(2.9, False), (8.2, True)])
def test_a_probe_that_other_programs_disturb_says_so(high, said):
    calm = Range(1.0, 1.0, 1.0)
    machine = Machine(Range(1e9, 2e9, high * 1e9), calm, calm, calm, calm)
    text = "\n".join(plan_speed._probe(machine))
    assert ("differ 8 times: other programs run here" in text) == said
