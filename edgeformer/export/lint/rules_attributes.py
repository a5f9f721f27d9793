"""Rules about attributes, extra outputs and nested graphs."""

from __future__ import annotations

from collections.abc import Iterator

import onnx

from edgeformer.export.lint.graph import Site
from edgeformer.export.lint.rule import Problem, rule

RESIZE_FORMS = ("half_pixel", "pytorch_half_pixel", "tf_half_pixel_for_nn", "asymmetric")
ROUNDINGS = ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")


@rule("shape-part", "Shape", title="Shape with start or end (opset 15), which are not read")
def _shape(site: Site) -> Iterator[Problem]:
    start, end = site.attribute("start"), site.attribute("end")
    if start or end is not None:
        fact = "start and end are not read: the whole shape comes out"
        yield Problem(fact, "export with opset 13 or 14, or Slice the shape")


@rule("resize-mode", "Resize", "Upsample", title="a Resize that is not nearest or linear")
def _resize(site: Site) -> Iterator[Problem]:
    mode = site.attribute("mode") or "nearest"
    form = site.attribute("coordinate_transformation_mode") or "half_pixel"
    rounding = site.attribute("nearest_mode") or "round_prefer_floor"
    if mode == "cubic" and site.is_before("8.5"):
        yield Problem("mode cubic", "use linear")
    elif mode not in ("nearest", "linear", "cubic"):
        yield Problem(f"mode {mode}", "use nearest or linear")
    if form not in (*RESIZE_FORMS, "align_corners"):
        yield Problem(f"coordinate_transformation_mode {form}", "use half_pixel")
    if mode == "nearest" and rounding not in ROUNDINGS:
        yield Problem(f"nearest_mode {rounding}", "use floor")
    if site.attribute("antialias"):
        yield Problem("antialias", "resize without it")
    if site.attribute("keep_aspect_ratio_policy") not in (None, "stretch"):
        yield Problem("an aspect policy other than stretch", "compute the sizes in Python")


@rule("pad-mode", "Pad", title="a Pad mode that the version lacks")
def _pad(site: Site) -> Iterator[Problem]:
    mode = site.attribute("mode") or "constant"
    known = ("constant", "edge", "reflect", *(() if site.is_before("10") else ("wrap",)))
    if mode not in known:
        yield Problem(f"mode {mode}", "use Concat of Slices")


@rule("scatter-reduction", "ScatterElements", "ScatterND", title="Scatter with a reduction")
def _scatter(site: Site) -> Iterator[Problem]:
    reduction = site.attribute("reduction") or "none"
    if reduction != "none":
        fact = f"reduction {reduction} is not supported; 8.x ignores it and overwrites"
        yield Problem(fact, "gather the old values, add, and scatter the result")


@rule("mod-fmod", "Mod", title="Mod whose fmod does not suit its type")
def _mod(site: Site) -> Iterator[Problem]:
    kind, fmod = site.type(site.input(0)), bool(site.attribute("fmod"))
    if kind in ("INT32", "INT64") and fmod:
        yield Problem("fmod=1 is for floats", "use fmod=0")
    elif kind in ("FP32", "FP16", "BF16") and not fmod:
        yield Problem("fmod=0 needs INT32", "use fmod=1, or a - b * floor(a / b)")


@rule("trilu-rank", "Trilu", title="Trilu of more than three axes before TensorRT 8.6")
def _trilu(site: Site) -> Iterator[Problem]:
    rank = site.rank(site.input(0))
    if rank is not None and rank not in (2, 3) and site.is_before("8.6"):
        yield Problem(f"its input has {rank} axes; 2 or 3 are taken", "reshape around it")


@rule("einsum-equation", "Einsum", title="an Einsum with ellipsis, upper case or a diagonal")
def _einsum(site: Site) -> Iterator[Problem]:
    equation = str(site.attribute("equation") or "").replace(" ", "")
    terms = equation.partition("->")[0].split(",")
    if site.is_before("10"):
        rewrite = "write it as Transpose and MatMul"
        if "..." in equation:
            yield Problem("no ellipsis is taken", rewrite)
        if equation != equation.lower():
            yield Problem("only lower-case subscripts are taken", rewrite)
        if any(len(set(term) - {"."}) < len(term.replace(".", "")) for term in terms):
            yield Problem("no subscript may stand twice in one operand", rewrite)


@rule(
    "extra-output", "MaxPool", "LayerNormalization", "Dropout", title="an output that is not made"
)
def _extra_output(site: Site) -> Iterator[Problem]:
    if site.node.op_type != "Dropout" and any(site.node.output[1:]):
        yield Problem("only the first output is made", "compute the others apart")


@rule("if-branches", "If", title="an If whose branches share an output name or differ in number")
def _if(site: Site) -> Iterator[Problem]:
    then, other = site.attribute("then_branch"), site.attribute("else_branch")
    if not isinstance(then, onnx.GraphProto) or not isinstance(other, onnx.GraphProto):
        yield Problem("a branch is missing", "export it again")
        return
    names = {value.name for value in then.output}, {value.name for value in other.output}
    if len(then.output) != len(other.output):
        yield Problem("its branches have different numbers of outputs", "trace, do not script")
    elif names[0] & names[1]:
        yield Problem(f"both branches name an output {min(names[0] & names[1])}", "rename one")


@rule("loop", "Loop", "Scan", "CumSum", title="an operator that runs step after step (note)")
def _loop(site: Site) -> Iterator[Problem]:
    if site.node.op_type == "CumSum":
        fact = "it becomes a sequential loop of the network: slow"
        yield Problem(fact, "pass the sums in as an input, or multiply by a triangle", note=True)
    else:
        yield Problem("its body runs once a step: slow", "unroll it by tracing", note=True)


@rule("data-dependent", "NonZero", title="an output whose size depends on the data (note)")
def _data_dependent(site: Site) -> Iterator[Problem]:
    fact = "the output's size depends on the data; engines then need an output allocator"
    yield Problem(fact, "use a mask of fixed size", note=True)
