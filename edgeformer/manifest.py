"""manifest.json, format 6: the records, and the one place that checks them.

The exporter writes through `manifest_json`, so that what it writes has passed the very check
that a device applies.
"""

import json
import re
from typing import Any, Dict, NamedTuple, Optional, Tuple

from edgeformer import strictjson as js
from edgeformer.contract import DTYPES, STEP, Graph, parse_graphs
from edgeformer.errors import BundleError
from edgeformer.generation.params import LEAST
from edgeformer.manifest_embedding import Embedding, check_table, embedding
from edgeformer.manifest_golden import Golden, golden
from edgeformer.manifest_quality import Pin, Quality, pins, quality
from edgeformer.manifest_text import TokenizerEntry, chat_templates, token_id, tokenizer_entry

MANIFEST_FORMAT = 6  # raised by every new key

TARGETS = ("jetson-nano", "jetson-orin-nano", "cpu")
DIALECTS = ("portable", "ort")
PRECISIONS = tuple(DTYPES)
BLOCKS = ("n8", "n4")  # precisions with ONNX Runtime's own operators: dialect `ort`, target `cpu`

EXACT = "n8"  # whose steps of several tokens can give the bits of steps of one

FUSED = (
    "fp32",
    "int8-dynamic",
    *BLOCKS,
)  # precisions that the fused graph of dialect `ort` can have

MOST = js.MOST_INT32  # positions and ids are INT32
MOST_LAYERS = 1000
MODEL_SIZES = (
    "vocab_size",
    "d_model",
    "n_layers",
    "n_heads",
    "n_kv_heads",
    "head_dim",
    "d_ff",
    "max_positions",
)


class Source(NamedTuple):
    """The checkpoint that a bundle was made from."""

    checkpoint: str
    sha256: Optional[str]
    license: Optional[str]


class FileEntry(NamedTuple):
    """What a file of the bundle must be."""

    bytes: int
    sha256: str


class Sampling(NamedTuple):
    """The sampling of a stream that asks for nothing else."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    typical_p: float = 1.0
    repetition_penalty: float = 1.0
    no_repeat_ngram_size: int = 0


class Manifest(NamedTuple):
    """A checked manifest. `model` is the exporter's ModelConfig; MODEL_SIZES are certain in it.

    `precision` is that of the graphs. `pinned`: modules that compute in FP32 in every engine.
    `exact_steps`: a step of several tokens gives the bits of steps of one; the cache of the graph
    has one row more than the capacity for that.
    """

    format: int
    name: str
    producer: Dict[str, str]
    source: Source
    model: Dict[str, Any]
    target: str
    dialect: str
    precision: str
    embedding: Optional[Embedding]  # None: the graphs take token ids
    capacity: int
    chunk: int
    exact_steps: bool
    min_onnxruntime: str
    graphs: Dict[str, Graph]
    files: Dict[str, FileEntry]
    tokenizer: Optional[TokenizerEntry]
    eos_token_ids: Tuple[int, ...]
    chat_templates: Dict[str, str]  # file by name
    sampling: Sampling
    quality: Optional[Quality]  # None: nothing but float32 was measured
    pinned: Tuple[Pin, ...]
    golden: Golden


def manifest_json(data: Dict[str, Any]) -> str:
    """The text of a manifest.json, refused here when a device would refuse it."""
    text = json.dumps(data, indent=1) + "\n"
    parse_manifest(js.parse(text.encode("ascii"), "manifest.json"))
    return text


def parse_manifest(data: Any, where: str = "manifest.json") -> Manifest:
    """Check every key of a manifest; `where` names it in errors."""
    found = js.table(data, where).get("format")
    if found != MANIFEST_FORMAT or isinstance(found, bool):
        raise BundleError(
            f"{where} has format {js.shown(found)}; this version of edgeformer reads format "
            f"{MANIFEST_FORMAT}: export the bundle again, or install the version that made it"
        )
    top = js.record(data, where, Manifest._fields)

    def at(key: str) -> Tuple[Any, str]:
        return top[key], f"{where}: {key}"

    model = _model(*at("model"))
    files = _files(*at("files"))
    precision = js.choice(*at("precision"), known=PRECISIONS)
    table = js.optional(*at("embedding"), check=embedding)
    exact = js.truth(*at("exact_steps"))
    manifest = Manifest(
        format=found,
        name=js.text(*at("name")),
        producer=_strings(*at("producer")),
        source=_source(*at("source")),
        model=model,
        target=js.choice(*at("target"), known=TARGETS),
        dialect=js.choice(*at("dialect"), known=DIALECTS),
        precision=precision,
        embedding=table,
        capacity=js.integer(*at("capacity"), low=1, high=model["max_positions"]),
        chunk=js.integer(*at("chunk"), low=1, high=MOST),
        exact_steps=exact,
        min_onnxruntime=_release(*at("min_onnxruntime")),
        graphs=parse_graphs(
            *at("graphs"),
            model=model,
            files=tuple(files),
            precision=precision,
            host=table is not None,
            capacity=top["capacity"],
            spare=int(exact),
        ),
        files=files,
        tokenizer=js.optional(*at("tokenizer"), check=tokenizer_entry),
        eos_token_ids=_ids(*at("eos_token_ids")),
        chat_templates=chat_templates(*at("chat_templates"), files=tuple(files)),
        sampling=_sampling(*at("sampling")),
        quality=js.optional(*at("quality"), check=quality),
        pinned=pins(*at("pinned")),
        golden=golden(*at("golden")),
    )
    _check_together(manifest, where)
    return manifest


def _check_together(manifest: Manifest, where: str) -> None:
    """What no key can break alone: ids inside the vocabulary, runs inside the capacity."""
    golden, tokenizer = manifest.golden, manifest.tokenizer
    ids = list(manifest.eos_token_ids + golden.prompt_ids + golden.greedy_ids)
    ids += [number for row in golden.top.ids for number in row]
    if tokenizer is not None:
        ids += [*tokenizer.special_tokens.values(), tokenizer.bos_token_id or 0]
        if tokenizer.file not in manifest.files:
            raise BundleError(f"{where}: tokenizer.file {js.shown(tokenizer.file)} not in files")
    elif manifest.chat_templates:
        raise BundleError(f"{where} has chat_templates and no tokenizer")
    vocabulary = manifest.model["vocab_size"]
    if max(ids) >= vocabulary:
        raise BundleError(f"{where} names token id {max(ids)}; the vocabulary has {vocabulary}")
    rows = len(golden.prompt_ids) + len(golden.greedy_ids) - 1
    if not golden.prompt_ids or not golden.greedy_ids or rows > manifest.capacity:
        raise BundleError(
            f"{where}: golden has {len(golden.prompt_ids)} prompt and {len(golden.greedy_ids)} "
            f"greedy ids; each must be there and both fit the capacity of {manifest.capacity}"
        )
    if manifest.precision not in golden.limits:
        raise BundleError(f"{where}: golden.limits has none for {manifest.precision}")
    fused = STEP in manifest.graphs
    if (manifest.dialect == "ort") != (fused or manifest.precision in BLOCKS):
        raise BundleError(
            f"{where} has dialect {manifest.dialect} with precision {manifest.precision} and "
            f"graphs {', '.join(manifest.graphs)}; {' and '.join(BLOCKS)} and the graph {STEP} "
            "stand in dialect ort, all others in portable"
        )
    if fused and (manifest.precision not in FUSED or manifest.embedding is not None):
        raise BundleError(
            f"{where} has the graph {STEP} in precision {manifest.precision}; it is for "
            f"{', '.join(FUSED)}, with the embedding inside"
        )
    if manifest.exact_steps and not (fused and manifest.precision == EXACT):
        raise BundleError(
            f"{where} has exact_steps with precision {manifest.precision} and graphs "
            f"{', '.join(manifest.graphs)}; it is for {EXACT} and the graph {STEP}"
        )
    measured = {} if manifest.quality is None else manifest.quality.precisions
    if manifest.precision not in ("fp32", "fp16") and manifest.precision not in measured:
        raise BundleError(f"{where}: quality says nothing of {manifest.precision}")
    if manifest.dialect == "ort" and manifest.target != "cpu":
        raise BundleError(f"{where} has dialect ort for {manifest.target}; it is for cpu alone")
    if manifest.embedding is not None:
        size = manifest.model["vocab_size"], manifest.model["d_model"]
        dtype = DTYPES[manifest.precision]
        sizes = {name: entry.bytes for name, entry in manifest.files.items()}
        check_table(manifest.embedding, size, dtype, sizes, where + ": embedding")


def _model(value: Any, where: str) -> Dict[str, Any]:
    model = js.table(value, where)
    for key in MODEL_SIZES:
        most = MOST_LAYERS if key == "n_layers" else MOST
        js.integer(model.get(key), f"{where}.{key}", 1, most)
    return model


def _files(value: Any, where: str) -> Dict[str, FileEntry]:
    files = {}
    for name, entry in js.table(value, where).items():
        at = f"{where}[{js.shown(name)}]"
        # The name becomes a path: plain parts only, so that it cannot leave the bundle.
        if not re.match(r"[\w][\w.+-]*(/[\w][\w.+-]*)*\Z", name, re.ASCII):
            raise BundleError(f"{at} is not a plain path inside the bundle")
        if name == "manifest.json" or name.startswith("engines/"):
            raise BundleError(f"{at} cannot be listed: it is not made by the exporter")
        entry = js.record(entry, at, FileEntry._fields)
        files[name] = FileEntry(
            js.integer(entry["bytes"], at + ".bytes", 0, 2**53),
            _sha256(entry["sha256"], at + ".sha256"),
        )
    return files


def _source(value: Any, where: str) -> Source:
    entry = js.record(value, where, Source._fields)
    return Source(
        js.text(entry["checkpoint"], where + ".checkpoint"),
        js.optional(entry["sha256"], where + ".sha256", _sha256),
        js.optional(entry["license"], where + ".license", js.text),
    )


def _sampling(value: Any, where: str) -> Sampling:
    entry = js.record(value, where, Sampling._fields)
    return Sampling(
        js.number(entry["temperature"], where + ".temperature", 0, 100),
        js.integer(entry["top_k"], where + ".top_k", 0, MOST),
        js.number(entry["top_p"], where + ".top_p", LEAST, 1),
        js.number(entry["min_p"], where + ".min_p", 0, 1),
        js.number(entry["typical_p"], where + ".typical_p", LEAST, 1),
        js.number(entry["repetition_penalty"], where + ".repetition_penalty", 0.01, 100),
        js.integer(entry["no_repeat_ngram_size"], where + ".no_repeat_ngram_size", 0, MOST),
    )


def _strings(value: Any, where: str) -> Dict[str, str]:
    return {key: js.text(item, f"{where}.{key}") for key, item in js.table(value, where).items()}


def _ids(value: Any, where: str) -> Tuple[int, ...]:
    return js.items(value, where, token_id)


def _sha256(value: Any, where: str) -> str:
    if not re.match(r"[0-9a-f]{64}\Z", js.text(value, where)):
        raise BundleError(f"{where} is {js.shown(value)}, not 64 hexadecimal digits")
    return value


def _release(value: Any, where: str) -> str:
    if not re.match(r"\d{1,6}(\.\d{1,6}){1,3}\Z", js.text(value, where), re.ASCII):
        raise BundleError(f"{where} is {js.shown(value)}, not a version such as 1.10")
    return value
