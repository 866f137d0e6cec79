"""Recorded start-ups with known results, as inputs of a prediction.

Called by :mod:`stoker.evaluate.capacity`. One YAML file a case: the engine, its release, the GPUs,
how the model is divided, flags by meaning, the file with the model's dimensions, and what the log
said, each with its unit in the key. A case is asked up to three questions: ``a``, free memory after
the weights is known; ``b``, only GPU, config and flags; ``c``, as b with the true weights. Nothing
of the log is an input but what the question grants.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from stoker.capacity.dimensions import read_shape
from stoker.capacity.inputs import (
    Gpu,
    Inputs,
    Quantization,
    Ranks,
    Readings,
    Settings,
    Shape,
    Speculation,
)
from stoker.capacity.settings import read_ranks, read_settings
from stoker.evaluate.capacity_flags import read_flags
from stoker.evaluate.capacity_gpus import read_gpu
from stoker.evaluate.capacity_precision import list_precisions
from stoker.knowledge.capacity import GIB, MIB
from stoker.model.facts import Plain

QUESTIONS = ("a", "b", "c")
#: A release in a case's own words: digits with points, a build of llama.cpp, what stands before.
_RELEASE = re.compile(
    r"(?:^|[\s:-])v?(\d+(?:\.\d+)+)(\.?x(?![a-z]))?|(?:^|\s)(b\d{3,6})\b", re.IGNORECASE
)
#: Engines whose pool follows from what is free.
_SIZED = ("sglang", "vllm")
#: How cases name the bytes of a cache: whole, or in parts.
_CACHE_KEYS = (
    ("kv_mib",),
    ("kv_gib",),
    ("k_mib", "v_mib"),
    ("k_gib", "v_gib"),
    ("full_mib", "swa_mib"),
    ("full_k_gib", "full_v_gib", "swa_k_gib", "swa_v_gib"),
)
_CASE_FILES = (".yaml", ".yml", ".json")
#: Logs have two decimals.
_PRINTED_GIB, _PRINTED_MIB = 0.006 * GIB, 0.006 * MIB
_NO_SHAPE = Shape(
    model_class="",
    layers=0,
    hidden_width=0,
    intermediate_width=0,
    vocabulary=0,
    heads=0,
    context_tokens=None,
    attention=(),
    unknown="the dimensions of the model are not known: read its config.json",
)

Table = Mapping[str, Plain]


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged:
    """What the engine found, and what it told of its memory.

    ``tokens`` of the pool of one group of ranks; ``kv_bytes`` of the cache with ``doubt_bytes`` of
    rounding, for engines that are told the tokens and find the bytes.
    """

    table: Table
    tokens: int | None = None
    kv_bytes: int | None = None
    doubt_bytes: float = 0.0

    @property
    def is_known(self) -> bool:
        """Whether there is anything to compare with."""
        return bool(self.tokens or self.kv_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One start-up: what was asked for, and what the engine found.

    ``is_whole``: all that is needed for a prediction is told, and was not inferred from the result.
    ``knows_share``: the share of the GPU is told, or the default's. ``gpus``: none where the case
    does not name them. ``draft_weight_bytes`` were logged, so not every question grants them.
    """

    id: str
    source: str
    model: str
    is_whole: bool
    knows_share: bool
    inputs: Inputs
    gpus: tuple[Gpu, ...]
    logged: Logged
    draft_weight_bytes: int | None = None
    is_busy: bool = False
    precisions: tuple[Quantization, ...] = ()

    @property
    def engine(self) -> str:
        """The engine's name."""
        return self.inputs.engine

    @property
    def tokens(self) -> int | None:
        """Those that were logged."""
        return self.logged.tokens

    def question(self, name: str) -> Inputs | None:
        """The inputs of one question; None where the case does not tell what it needs."""
        if not self.logged.is_known:
            return None
        if name == "a":
            return self._after_weights()
        if not self.gpus or self.is_busy or not self.knows_share:
            return None
        inputs = replace(self.inputs, gpus=self.gpus)
        if name == "b":
            return inputs
        weights = _bytes(self.logged.table, "weights_gib", "weights_mib")
        if weights is None:
            return None
        return replace(self._with_draft(inputs), readings=Readings(weight_bytes=weights))

    def _after_weights(self) -> Inputs | None:
        inputs = self._with_draft(replace(self.inputs, gpus=self.gpus or self.inputs.gpus))
        if self.engine == "llamacpp":
            inputs = _as_llamacpp(inputs)
        if self.engine not in _SIZED:
            # llama.cpp's cache is as long as it was told; an engine that nobody knows is refused.
            return inputs
        logged = self.logged.table
        if self.engine == "vllm":
            pool = _bytes(logged, "available_kv_gib")
            return None if pool is None else replace(inputs, readings=Readings(pool_bytes=pool))
        after = _bytes(logged, "avail_after_min_rank_gib", "avail_after_weights_gib")
        before = _bytes(logged, "avail_before_min_rank_gib", "avail_before_weights_gib")
        weights = _bytes(logged, "weights_gib")
        if before is None and after is not None and weights is not None:
            before = after + weights
        if after is None or before is None or not self.knows_share:
            return None
        return replace(inputs, readings=Readings(free_before_bytes=before, free_after_bytes=after))

    def _with_draft(self, inputs: Inputs) -> Inputs:
        """With the bytes of the draft model's weights, for questions that grant weights."""
        parts = inputs.settings.parts
        if parts.speculation is None or self.draft_weight_bytes is None:
            return inputs
        told = replace(parts.speculation, weight_bytes=self.draft_weight_bytes)
        settings = replace(inputs.settings, parts=replace(parts, speculation=told))
        return replace(inputs, settings=settings)


def read_cases(folder: Path, models: Path) -> tuple[Case, ...]:
    """All cases of a folder, by name. Of a file that cannot be read stderr tells in a sentence; a
    file that is no case is left out."""
    return tuple(_read_all(folder, models))


def _read_all(folder: Path, models: Path) -> Iterator[Case]:
    shapes: dict[str, Table | None] = {}
    for path in sorted(each for each in folder.iterdir() if each.suffix in _CASE_FILES):
        try:
            data = YAML(typ="safe", pure=False).load(path.read_text("utf-8"))
        except (YAMLError, OSError, ValueError, RecursionError) as error:
            reason = str(error).strip().splitlines()
            _complain(path, reason[0] if reason else type(error).__name__)
            continue
        if not isinstance(data, Mapping) or not isinstance(data.get("logged"), Mapping):
            continue
        name = data.get("config")
        if isinstance(name, str) and name not in shapes:
            shapes[name] = _read_model(name, models)
        yield _make_case(path.stem, data, shapes.get(name) if isinstance(name, str) else None)


def _complain(path: Path, reason: str) -> None:
    sys.stderr.write(f"{path.name} is left out, since it cannot be read: {reason}\n")


def _read_model(name: str, models: Path) -> Table | None:
    """The file with a model's dimensions; None where there is none."""
    path = models / f"{name.removesuffix('.json')}.json"
    if "/" in name or not is_file(path):
        return None
    try:
        table = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        _complain(path, str(error))
        return None
    return table if isinstance(table, Mapping) else None


def is_file(path: Path) -> bool:
    """Also of a name that no file can have."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _make_case(name: str, data: Table, model: Table | None) -> Case:
    said = _table(data, "inputs")
    logged = _table(data, "logged")
    engine = _name_engine(data)
    flags = read_flags(engine, data.get("flags"))
    settings, ranks = _make_settings(said, flags, engine), _make_ranks(data, flags, engine)
    if engine == "llamacpp" and settings.context_tokens is None:
        # There the context is no answer: it is what the engine was told.
        told = _count(logged, "n_ctx") or _count(logged, "context_len")
        settings = replace(settings, context_tokens=told)
    explicit = said.get("mem_fraction_explicit")
    shape = _make_shape(said, model)
    likely, *others = list_precisions(data, flags, shape.other.quantization)
    shape = replace(shape, other=replace(shape.other, quantization=likely))
    return Case(
        id=name,
        source=_name_source(str(data.get("source") or "")),
        model=str(data.get("model") or ""),
        is_whole=data.get("partial") is not True and explicit != "inferred",
        knows_share=engine == "llamacpp" or settings.memory_share is not None or explicit is False,
        inputs=Inputs(
            name=name,
            engine=engine,
            release=read_release(_find_version(data)),
            shape=shape,
            gpus=(Gpu(total_bytes=None),) * _count_gpus(data, ranks),
            ranks=ranks,
            settings=settings,
        ),
        gpus=_make_gpus(data, ranks),
        logged=_make_logged(logged, engine),
        draft_weight_bytes=_bytes(logged, "draft_weights_gib"),
        is_busy=said.get("busy_gpu") is True,
        precisions=tuple(others),
    )


def _name_engine(data: Table) -> str:
    """As the tables name it: llama.cpp has a point there and none here."""
    return re.sub(r"[^a-z0-9]", "", str(data.get("engine") or "").lower())


def _name_source(text: str) -> str:
    """The repository or file, without the place inside of it."""
    return re.split(r"[@ ]", text.strip(), maxsplit=1)[0] if "id " not in text else text


def _find_version(data: Table) -> str:
    """As it stands there. A number with one decimal may have lost a zero: 0.20 is read as 0.2."""
    version = data.get("version")
    is_doubtful = isinstance(version, float) and len(str(version).partition(".")[2]) < 2
    return "" if is_doubtful or version is None else str(version)


def read_release(text: str) -> str:
    """The first release of a range, the middle of ``0.5.1x``; empty for what names none."""
    found = _RELEASE.search(text.strip())
    if found is None:
        return ""
    if found[3]:
        return found[3].lower()
    if found[2] and found[2].startswith("."):
        return ""
    return found[1] + ("5" if found[2] else "")


def _count_gpus(data: Table, ranks: Ranks) -> int:
    """As many as are told, and at least as many as the ranks need: some cases count those of one
    machine."""
    needed = ranks.tensor * ranks.pipeline * ranks.replicas
    return max(_count(data, "gpu_count") or 0, needed, 1)


def _make_gpus(data: Table, ranks: Ranks) -> tuple[Gpu, ...]:
    """The GPUs that the case names; none where it names none."""
    word = data.get("gpu_key")
    gpu = read_gpu(word, _number(data, "gpu_mem_gb")) if isinstance(word, str) else None
    return () if gpu is None else (gpu,) * _count_gpus(data, ranks)


def _make_logged(logged: Table, engine: str) -> Logged:
    tokens = _count(logged, "kv_tokens")
    if engine != "llamacpp":
        return Logged(table=logged, tokens=tokens)
    for keys in _CACHE_KEYS:
        parts = [_bytes(logged, key) for key in keys]
        known = [part for part in parts if part is not None]
        if len(known) == len(keys):
            doubt = _PRINTED_MIB if keys[0].endswith("_mib") else _PRINTED_GIB
            doubts = len(keys) * doubt
            return Logged(table=logged, tokens=tokens, kv_bytes=sum(known), doubt_bytes=doubts)
    return Logged(table=logged, tokens=tokens)


def _make_ranks(data: Table, flags: Table, engine: str) -> Ranks:
    """As the case says, and where it says nothing as its flags do."""
    read = read_ranks(engine, flags)
    tensor = _count(data, "tp") or read.tensor
    pipeline = _count(data, "pp") or read.pipeline
    copies = _count(data, "dp") or max(read.replicas, read.attention_groups)
    # SGLang forms groups of its tensor ranks where copies are no GPUs of their own.
    told = _count(data, "gpu_count")
    is_beyond = told is not None and tensor * pipeline * copies > max(told, tensor * pipeline)
    is_grouped = copies > 1 and (read.attention_groups > 1 or (is_beyond and engine == "sglang"))
    return Ranks(
        tensor=tensor,
        pipeline=pipeline,
        replicas=1 if is_grouped or is_beyond else copies,
        attention_groups=copies if is_grouped else 1,
        expert=_count(data, "ep") or read.expert,
        context=_count(data, "dcp") or read.context,
    )


def _make_settings(said: Table, flags: Table, engine: str) -> Settings:
    """As the flags say; what the case has by meaning goes before."""
    read = read_settings(engine, flags)
    batch, kind = read.parts.batch, said.get("spec")
    requests = _count(said, "max_running") or batch.requests
    speculation = read.parts.speculation
    if isinstance(kind, str):
        speculation = Speculation(
            kind=kind.lower(),
            tokens=_count(said, "draft_tokens") or (speculation.tokens if speculation else None),
            layers=_count(said, "draft_layers"),
        )
    context = _count(said, "max_model_len") or _count(said, "n_ctx")
    return replace(
        read,
        context_tokens=context or _count(said, "context_len") or read.context_tokens,
        memory_share=_number(said, "mem_fraction_static") or read.memory_share,
        kv_type=str(said.get("kv_dtype") or read.kv_type),
        # A case has one word for keys and values.
        value_type=read.value_type or str(said.get("kv_dtype") or ""),
        page_tokens=_count(said, "page") or read.page_tokens,
        window_ratio=_number(said, "swa_ratio") or read.window_ratio,
        has_prefix_reuse=said.get("no_radix") is not True and read.has_prefix_reuse,
        most_tokens=_count(said, "max_total_tokens") or read.most_tokens,
        parts=replace(read.parts, batch=replace(batch, requests=requests), speculation=speculation),
    )


def _make_shape(said: Table, model: Table | None) -> Shape:
    if model is None:
        return _NO_SHAPE
    own = model.get("quantization_config") or model.get("quantization")
    shape = read_shape({**model, "quantization_config": own})
    kind = said.get("weight_dtype")
    number_type = kind if isinstance(kind, str) else shape.other.number_type
    return replace(shape, other=replace(shape.other, number_type=number_type))


def _as_llamacpp(inputs: Inputs) -> Inputs:
    """llama.cpp knows windows where layers differ; one for all layers it does not read. A latent
    attention has no values of its own, so a start that told keys alone was one."""
    shape, settings = inputs.shape, inputs.settings
    if all(kind.window_tokens is not None for kind in shape.attention):
        full = tuple(replace(kind, window_tokens=None) for kind in shape.attention)
        shape = replace(shape, attention=full)
    if not settings.value_type and any(kind.latent_width for kind in shape.attention):
        settings = replace(settings, value_type=settings.kv_type)
    return replace(inputs, shape=shape, settings=settings)


def _table(data: Table, name: str) -> Table:
    found = data.get(name)
    return found if isinstance(found, Mapping) else {}


def _number(table: Table, name: str) -> float | None:
    """A positive number, also as text."""
    value = table.get(name)
    if isinstance(value, str) and re.fullmatch(r"\d{1,15}(\.\d{1,9})?", value):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1e15:
        return None
    return float(value)


def _count(table: Table, name: str) -> int | None:
    """A whole number; none, as opposed to not told, is 0."""
    if table.get(name) == 0 and table.get(name) is not False:
        return 0
    value = _number(table, name)
    return int(value) if value is not None and value.is_integer() else None


def _bytes(table: Table, *names: str) -> int | None:
    """The first of some figures in the unit of their name, in bytes."""
    for name in names:
        value = _number(table, name)
        if value is not None:
            return int(value * (MIB if name.endswith("_mib") else GIB))
    return None
