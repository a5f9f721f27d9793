"""The page: whole in one file, the same to every eye, and deaf to what documents try."""

import itertools
import re
from html.parser import HTMLParser

import compare
import numpy as np
import pytest
from report import drawing, markdown, page, runs, style, tables, timeline, worth

from tests.bench.documents import settled
from tests.benchmarks.samples import HOSTILE, board_document, model_case, rounds, save

VOID = {"meta", "br", "hr", "img", "link"}


class Page(HTMLParser):
    """Every tag with its attributes, and the text; a tag that is not closed is an error."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.text = [], [], ""
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


def page_of(folder, *documents):
    paths = [save(folder, "%d.json" % i, made) for i, made in enumerate(documents)]
    assert compare.main([*paths, "-o", str(folder / "report.html")]) == 0
    return (folder / "report.html").read_text("ascii")


def test_page_fetches_nothing_and_runs_nothing(tmp_path, capsys):
    text = page_of(tmp_path, board_document())
    assert not re.search(r"https?:|//[a-z]|@import|<script|javascript:|<img|<link|src=", text)
    found = Page(text)
    for tag, attributes in found.tags:
        assert not [name for name in attributes if name.startswith("on")], tag
        assert attributes.get("href", "#").startswith("#"), tag
    for target in re.findall(r"url\(([^)]*)\)", text):
        assert target.startswith("#")
    policy = [meta for meta in found.all("meta") if meta.get("http-equiv")]
    assert policy[0]["content"].startswith("default-src 'none'")
    assert any("width=device-width" in meta.get("content", "") for meta in found.all("meta"))


def test_every_identifier_is_there_once_and_every_reference_finds_it(tmp_path, capsys):
    other = board_document()
    other["machine"]["cpus"] = 64
    text = page_of(tmp_path, board_document(), other)
    tags = Page(text).tags
    ids = [attributes["id"] for _, attributes in tags if "id" in attributes]
    assert len(ids) == len(set(ids)) > 20
    wanted = {attributes["href"][1:] for _, attributes in tags if "href" in attributes}
    wanted |= set(re.findall(r"url\(#([^)]*)\)", text))
    assert wanted and wanted <= set(ids)


def test_all_that_issue_asks_for_is_drawn_with_conditions_and_words(tmp_path, capsys):
    found = Page(page_of(tmp_path, board_document()))
    pictures = [svg for svg in found.all("svg") if svg.get("role") == "img"]
    assert len(pictures) == len(found.all("figcaption")) == 6
    for words in (
        "Ratios between",
        "Size of",
        "Time per token of",
        "rows in use",
        "Memory over time. Free",
    ):
        assert [svg for svg in pictures if words in svg["aria-label"]], words
    assert [svg for svg in pictures if "roofline. tiny fp32 ort: 50 %" in svg["aria-label"]]
    for condition in ("onnxruntime 1.10.0", "Python 3.6.15", "rounds 10", "2026-11-30T15:00:00Z"):
        assert found.text.count(condition) >= 6, condition


def test_memory_of_each_process_is_drawn_over_time_and_broken_between_rounds(tmp_path, capsys):
    made = board_document()
    names = [case["name"] for case in made["cases"]]
    text = page_of(tmp_path, made)
    assert "Memory of the processes" not in text  # of an older version
    sample = made["samples"][0]
    made["samples"] = [
        dict(sample, t_s=0.5 * i, case=names[i // 3 % 3], rss_bytes=10**8 + i % 3 * 10**7)
        for i in range(36)
    ]
    for case in made["cases"]:
        for index, turn in enumerate(case["rounds"]):
            turn["at_s"] = 4.5 * index + 1.5 * names.index(case["name"])
    found = Page(page_of(tmp_path, made))
    (told,) = [svg["aria-label"] for svg in found.all("svg") if "Memory over" in str(svg)]
    assert "processes in run 1: tiny fp32 ort up to 120 MB, tiny fp32 trt up to 120 MB" in told
    run = runs.Run(1, "a.json", made)
    points = timeline._lines(run, names[1])
    assert len(points) == 12 + 3  # four rounds, with a break between each two
    assert [place for place, point in enumerate(points) if point[0] != point[0]] == [3, 7, 11]


def test_share_of_the_roofline_stands_with_the_bandwidth_it_is_of(tmp_path, capsys):
    made = board_document()
    probed = {"at_start": 11.2e9, "at_end": 10.4e9, "working_set_bytes": 10**8, "threads": 2}
    made["machine"]["bandwidth_bytes_per_s"] = probed
    text = page_of(tmp_path, made)
    captions = re.findall("<figcaption>(.*?)</figcaption>", text, re.DOTALL)
    told = [one for one in captions if "read bandwidth 11.2 to 10.4 GB/s over 100 MB" in one]
    assert len(told) == 1


def test_what_was_not_measured_is_said_instead_of_drawn(tmp_path, capsys):
    made = board_document()
    made["cases"] = made["cases"][:1]
    made["comparisons"], made["samples"] = [], []
    made["cases"][0]["summary"]["roofline_share"] = None
    for turn in made["cases"][0]["rounds"]:
        turn["rows_s"] = {}
    text = Page(page_of(tmp_path, settled(made))).text
    for words in (
        "No run here compares TensorRT",
        "No run holds samples",
        "bandwidth was not probed",
        "No case was measured at more than one",
    ):
        assert words in text


def test_a_case_that_computes_something_else_is_in_no_picture(tmp_path, capsys):
    made = board_document()
    made["cases"][1]["parity"]["passed"] = False
    found = Page(page_of(tmp_path, settled(made)))
    labels = " ".join(svg.get("aria-label", "") for svg in found.all("svg"))
    assert "tiny fp16 trt" in labels and "tiny fp32 trt" not in labels
    assert "its speed is no result" in found.text


def test_two_machines_have_sections_and_pictures_of_their_own(tmp_path, capsys):
    other = board_document()
    other["machine"]["processor"] = "another CPU"
    found = Page(page_of(tmp_path, board_document(), other))
    assert len(found.all("h2")) == 2 and "2 different machines" in found.text
    assert len([svg for svg in found.all("svg") if svg.get("role") == "img"]) == 12


def test_hostile_texts_of_a_document_stay_text(tmp_path, capsys):
    made = board_document()
    for case in made["cases"]:
        case["parity"]["what"] = HOSTILE
        case["model"]["name"] = HOSTILE
    names = {case["name"]: f"{i} {HOSTILE}" for i, case in enumerate(made["cases"])}
    for case in made["cases"]:
        case["name"] = names[case["name"]]
    for entry in made["comparisons"]:
        entry.update(a=names[entry["a"]], b=names[entry["b"]])
    for key in ("processor", "system", "python"):
        made["machine"][key] = HOSTILE
    made["machine"]["packages"]["onnxruntime"] = HOSTILE
    text = page_of(tmp_path, made)
    assert "<script" not in text and "<script" in Page(text).text
    assert not Page(text).all("script") and "&#8238;" not in text


def test_a_picture_of_eighty_long_names_still_draws(tmp_path, capsys):
    made = board_document()
    made["cases"] = [model_case("p%d" % i, model="model-" * 30) for i in range(90)]
    made["comparisons"] = []
    text = Page(page_of(tmp_path, made)).text
    assert "p79" in text and "(the first 80 of 90)" in text and "(the first 12 of 90)" in text


def test_page_is_the_same_bytes_each_time():
    run = [runs.Run(1, "a.json", board_document())]
    assert page.text_of(runs.by_machine(run)) == page.text_of(runs.by_machine(run))


def lab(colours):
    """CIE L*a*b* of linear RGB, [n, 3]."""
    to_xyz = np.array(
        [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    )
    x = colours @ to_xyz.T / np.array([0.9505, 1.0, 1.089])
    f = np.where(x > 0.008856, np.cbrt(x), 7.787 * x + 16 / 116)
    return np.stack([116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])], 1)


# Machado, Oliveira and Fernandes (2009), severity 1.0, on linear RGB
SEEN = {
    "all colours": np.eye(3),
    "protanopia": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    "deuteranopia": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
    "tritanopia": [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]],
}


def linear(colours):
    srgb = np.array([[int(c[i : i + 2], 16) / 255 for i in (1, 3, 5)] for c in colours])
    return np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)


def nearest(colours, eye):
    seen = lab(np.clip(linear(colours) @ np.array(SEEN[eye]).T, 0, 1))
    return min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2))


@pytest.mark.parametrize("eye", SEEN)
def test_colours_are_told_apart_by_every_eye(eye):
    assert nearest(style.COLOURS, eye) > 10


def test_the_colour_test_finds_red_and_green():
    assert nearest(("#cc3311", "#7a7a00"), "deuteranopia") < 10


@pytest.mark.parametrize("paper", ["#ffffff", "#161616"])
def test_colours_stand_out_on_both_papers(paper):
    light = np.array([0.2126, 0.7152, 0.0722])
    ground = linear([paper]) @ light
    for colour, line in zip(style.COLOURS, linear(style.COLOURS) @ light):
        high, low = max(line, ground[0]), min(line, ground[0])
        assert (high + 0.05) / (low + 0.05) > 2, colour


def test_no_two_cases_of_a_model_look_alike():
    cases = [model_case(p, b) for p in style.PRECISIONS for b in ("ort", "trt") if p != "int8"]
    cases += [model_case(p) for p in ("q4_0",)]
    assert len(set(style.looks(cases))) >= len(cases) - 1
    engines = [dict(model_case("fp32"), engine={"name": "e%d" % i}) for i in range(5)]
    assert len(set(style.looks(engines))) == 5


def test_what_stands_between_tags_is_left_as_it_is():
    svg = '<?xml?><svg xmlns="http://x"><text id="a" style="fill: #010203">id="b" #010203</text>'
    inlined = '<svg><text id="n-a" style="fill: currentColor">id="b" #010203</text>'
    assert drawing.inline(svg, "n") == inlined


def test_history_is_a_page_of_the_same_kind(tmp_path, capsys):
    made = board_document()
    later = board_document()
    later.update(made="2026-12-01T15:00:00Z", commit="1" * 40)
    later["cases"][0]["rounds"] = rounds(0.1)
    paths = [save(tmp_path, "a.json", made), save(tmp_path, "b.json", settled(later))]
    out = str(tmp_path / "history.html")
    assert compare.main(["--history", "token_s", *paths, "-o", out]) == 0
    text = (tmp_path / "history.html").read_text("ascii")
    assert not re.search(r"https?:|<script|src=", text)
    found = Page(text)
    assert "REGRESSION at 11111111" in found.text and "% worse" in found.text
    assert len([svg for svg in found.all("svg") if svg.get("role") == "img"]) == 1


def test_three_sizes_of_model_make_a_ladder_and_two_do_not(tmp_path, capsys):
    made = board_document()
    for case, count in zip(made["cases"], (10**6, 2 * 10**6, 2 * 10**6)):
        case["model"].update(parameters=count)
    assert "The ladder" not in Page(page_of(tmp_path, made)).text
    made["cases"][2]["model"].update(parameters=4 * 10**6)
    found = Page(page_of(tmp_path, made))
    assert "The ladder" in found.text
    assert [s for s in found.all("svg") if "fp16, trt: 4 M 1 ms" in s.get("aria-label", "")]


def test_what_is_outdone_in_speed_and_quality_is_told(tmp_path, capsys):
    made = board_document()
    assert "Quality against speed" not in Page(page_of(tmp_path, made)).text
    for case, kl in zip(made["cases"], (0.0, 0.02, 0.004)):  # 250, 500 and 1,000 tokens/s
        lost = {"perplexity": 9.1, "reference_perplexity": 9.0, "kl": kl, "top1": 0.9}
        case["model"].update(quality=lost)
    found = Page(page_of(tmp_path, made))
    (told,) = [s["aria-label"] for s in found.all("svg") if "Quality against" in str(s)]
    assert "tiny fp32 ort: 250 tokens/s, KL 0.0001. " in told
    assert told.endswith("Outdone in both: tiny fp32 trt")
    assert worth.outdone([(1, 1), (2, 2), (2, 1), (1, 3)]) == [False, False, False, True]


def test_runs_of_other_prompts_are_panels_of_their_own_in_the_ladder(tmp_path, capsys):
    both = [board_document(), board_document()]
    for number, made in enumerate(both):
        made["settings"]["prompt_tokens"] = [(4, 16)[number]]
        for index, case in enumerate(made["cases"]):
            case["model"].update(parameters=10 ** (3 + 3 * number + index))
            case.update(backend="ort", precision="fp32")  # one line, if it were one panel
            for turn in case["rounds"]:
                turn["first_token_s"] = {str((4, 16)[number]): [0.02]}
        settled(made)
    found = Page(page_of(tmp_path, *both))
    (told,) = [svg["aria-label"] for svg in found.all("svg") if "Parameters against" in str(svg)]
    assert "run 1, behind a prompt of 4 tokens: fp32, ort: 0.001 M 4 ms" in told
    assert "0.1 M 1 ms. run 2, behind a prompt of 16 tokens: fp32, ort: 1 M 4 ms" in told
    table = [
        [cell.strip() for cell in row.split("|")]
        for row in markdown.table(
            tables.ladder([runs.Run(i + 1, "", made) for i, made in enumerate(both)])
        )
    ]
    place = table[0].index("behind a prompt of")
    assert [row[place] for row in table[2:]] == ["4"] * 3 + ["16"] * 3


def test_presets_of_the_ladder_are_those_that_there_are():
    import presets

    from edgeformer.nn.presets import PRESETS

    assert list(presets.ALL) == list(PRESETS)
    for plan in (presets.QUICK, presets.FULL):
        assert {name for names in plan.wanted.values() for name in names} <= set(PRESETS)
