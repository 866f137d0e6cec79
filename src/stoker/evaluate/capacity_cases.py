"""Recorded start-ups with known results, as inputs of a prediction.

Called by :mod:`stoker.evaluate.capacity`. One YAML file a case: the engine, its release, the GPUs,
how the model is divided, flags by meaning, the file with the model's dimensions, and what the log
said, each with its unit in the key. A case is asked up to three questions: ``a``, free memory after
the weights is known; ``b``, only GPU, config and flags; ``c``, as b with the true weights.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from stoker.capacity.dimensions import read_shape
from stoker.capacity.free_memory import find_row_by_word
from stoker.capacity.inputs import (
    Batch,
    Extras,
    Gpu,
    Inputs,
    Quantization,
    Ranks,
    Readings,
    Settings,
    SettingsParts,
    Shape,
    Speculation,
    StateSettings,
)
from stoker.knowledge.capacity import GIB
from stoker.knowledge.capacity_flags import load_capacity_flags
from stoker.model.facts import Plain

QUESTIONS = ("a", "b", "c")
_BITS = re.compile(r"int4|nvfp4|mxfp4|fp4|w4")
_RELEASE = re.compile(r"^(\d+(?:\.\d+)+)(\.?x)?")
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One start-up: what was asked for, and the tokens that the engine found.

    ``is_whole``: all that is needed for a prediction is told, and was not inferred from the result.
    ``knows_share``: the share of the GPU is told, or the default's.
    """

    id: str
    engine: str
    source: str
    model: str
    tokens: int | None
    is_whole: bool
    knows_share: bool
    inputs: Inputs
    gpu_word: str
    gpu_bytes: int | None
    logged: Mapping[str, Plain]
    is_busy: bool = False

    def question(self, name: str) -> Inputs | None:
        """The inputs of one question; None where the case does not tell what it needs."""
        if self.tokens is None or not self.knows_share:
            return None
        inputs = self._with_gpus()
        if name == "a":
            return self._after_weights(inputs or self.inputs)
        if inputs is None or self.is_busy or name == "b":
            return None if self.is_busy else inputs
        weights = _bytes(self.logged, "weights_gib")
        if weights is None:
            return None
        return replace(inputs, readings=Readings(weight_bytes=weights))

    def _with_gpus(self) -> Inputs | None:
        """With the GPUs that the case names; None where it names none."""
        if not self.gpu_word:
            return None
        row = find_row_by_word(self.gpu_word)
        if row is None:
            unlisted = Gpu(total_bytes=self.gpu_bytes, key=self.gpu_word)
            return replace(self.inputs, gpus=(unlisted,) * len(self.inputs.gpus))
        gpu = Gpu(total_bytes=row.total_mib << 20, key=row.key, is_shared_memory=row.shared)
        return replace(self.inputs, gpus=(gpu,) * len(self.inputs.gpus))

    def _after_weights(self, inputs: Inputs) -> Inputs | None:
        if self.engine == "vllm":
            pool = _bytes(self.logged, "available_kv_gib")
            return None if pool is None else replace(inputs, readings=Readings(pool_bytes=pool))
        after = _bytes(self.logged, "avail_after_min_rank_gib", "avail_after_weights_gib")
        before = _bytes(self.logged, "avail_before_min_rank_gib", "avail_before_weights_gib")
        weights = _bytes(self.logged, "weights_gib")
        if after is None:
            return None
        if before is None and weights is not None:
            before = after + weights
        if before is None:
            return None
        return replace(inputs, readings=Readings(free_before_bytes=before, free_after_bytes=after))


def read_cases(folder: Path, models: Path) -> tuple[Case, ...]:
    """All cases of a folder, by name. A file that is no case is left out."""
    return tuple(_read_all(folder, models))


def _read_all(folder: Path, models: Path) -> Iterator[Case]:
    for path in sorted(folder.glob("*.yaml")):
        try:
            data = YAML(typ="safe").load(path.read_text("utf-8"))
        except (YAMLError, OSError, UnicodeDecodeError):
            continue
        if isinstance(data, Mapping) and isinstance(data.get("logged"), Mapping):
            yield _make_case(path.stem, data, models)


def _make_case(name: str, data: Mapping[str, Plain], models: Path) -> Case:
    said = data.get("inputs")
    inputs = said if isinstance(said, Mapping) else {}
    logged = data["logged"]
    explicit = inputs.get("mem_fraction_explicit")
    share = inputs.get("mem_fraction_static")
    is_given = isinstance(share, float) and explicit is not None
    tokens = logged.get("kv_tokens")
    engine = str(data.get("engine", ""))
    return Case(
        id=name,
        engine=engine,
        source=_name_source(str(data.get("source", ""))),
        model=str(data.get("model", "")),
        tokens=tokens if isinstance(tokens, int) else None,
        is_whole=data.get("partial") is False and explicit != "inferred",
        knows_share=is_given or explicit is False or "available_kv_gib" in logged,
        inputs=_make_inputs(name, data, inputs, models),
        gpu_word=str(data.get("gpu_key") or ""),
        gpu_bytes=_bytes(data, "gpu_mem_gb"),
        logged=logged,
        is_busy=inputs.get("busy_gpu") is True,
    )


def _name_source(text: str) -> str:
    """The repository or file, without the place inside of it."""
    return re.split(r"[@ ]", text.strip(), maxsplit=1)[0] if "id " not in text else text


def _make_inputs(
    name: str, data: Mapping[str, Plain], said: Mapping[str, Plain], models: Path
) -> Inputs:
    flags = " ".join(str(each) for each in data.get("flags") or ()).replace("_", "-")
    return Inputs(
        name=name,
        engine=str(data.get("engine", "")),
        release=_read_release(str(data.get("version", ""))),
        shape=_read_dimensions(data, said, models),
        gpus=(Gpu(total_bytes=None),) * max(1, _count(data, "gpu_count") or 1),
        ranks=_make_ranks(data),
        settings=_make_settings(said, flags, data),
    )


def _read_release(text: str) -> str:
    """The first release of a range, the middle of ``0.5.1x``; empty for what names none."""
    found = _RELEASE.match(text)
    if found is None or found[2] == ".x":
        return ""
    return found[1] + ("5" if found[2] else "")


def _make_ranks(data: Mapping[str, Plain]) -> Ranks:
    count = {name: _count(data, name) or 1 for name in ("tp", "pp", "dp", "ep", "dcp")}
    # These engines form groups of their tensor ranks where copies are no GPUs of their own.
    gpus = _count(data, "gpu_count") or 1
    is_grouped = count["dp"] > 1 and count["tp"] * count["dp"] > gpus
    return Ranks(
        tensor=count["tp"],
        pipeline=count["pp"],
        replicas=1 if is_grouped else count["dp"],
        attention_groups=count["dp"] if is_grouped else 1,
        expert=count["ep"],
        context=count["dcp"],
    )


def _make_settings(said: Mapping[str, Plain], flags: str, data: Mapping[str, Plain]) -> Settings:
    share, ratio = said.get("mem_fraction_static"), said.get("swa_ratio")
    logged = data.get("logged", {})
    engine = str(data.get("engine", ""))
    context = _count(said, "max_model_len") or _flag("context_tokens", engine, flags)
    reuses = said.get("no_radix") is not True
    return Settings(
        context_tokens=context or _count(logged, "context_len"),
        memory_share=share if isinstance(share, float) else None,
        kv_type=str(said.get("kv_dtype") or ""),
        page_tokens=_count(said, "page"),
        window_ratio=ratio if isinstance(ratio, float) else None,
        has_prefix_reuse=reuses and not _has_switch("has_prefix_reuse", engine, flags),
        most_tokens=_count(said, "max_total_tokens"),
        parts=SettingsParts(
            batch=Batch(
                requests=_count(said, "max_running") or _flag("requests", engine, flags),
                chunk_tokens=_flag("chunk_tokens", engine, flags),
                batch_tokens=_flag("batch_tokens", engine, flags),
            ),
            state=StateSettings(slots=_flag("state_slots", engine, flags)),
            speculation=_make_speculation(said, logged),
        ),
    )


def _make_speculation(said: Mapping[str, Plain], logged: Mapping[str, Plain]) -> Speculation | None:
    kind = said.get("spec")
    if not isinstance(kind, str):
        return None
    return Speculation(
        kind=kind.lower(),
        tokens=_count(said, "draft_tokens"),
        layers=_count(said, "draft_layers"),
        weight_bytes=_bytes(logged, "draft_weights_gib"),
    )


def _read_dimensions(data: Mapping[str, Plain], said: Mapping[str, Plain], models: Path) -> Shape:
    name = data.get("config")
    path = models / f"{name}.json"
    if not isinstance(name, str) or "/" in name or not path.is_file():
        return _NO_SHAPE
    table = json.loads(path.read_text("utf-8"))
    config = {**table, "quantization_config": table.get("quantization")}
    shape = read_shape(config)
    word = said.get("quant")
    kind = said.get("weight_dtype")
    # The file may be that of another precision of the same model: the case says which was run.
    quantization = _quantization(word) if isinstance(word, str) else Quantization()
    other: Extras = replace(
        shape.other,
        quantization=quantization,
        number_type=kind if isinstance(kind, str) else shape.other.number_type,
    )
    return replace(shape, other=other)


def _quantization(word: str) -> Quantization:
    group = re.search(r"g(\d+)$", word)
    bits = 4 if _BITS.search(word) else 8
    return Quantization(method=word, bits=bits, group=int(group[1]) if group else 0)


def _flag(meaning: str, engine: str, flags: str) -> int | None:
    """A number in a case's free text, by the engine's flag for its meaning."""
    row = load_capacity_flags().get(engine)
    name = row.meanings.get(meaning) if row is not None else None
    found = re.search(rf"{re.escape(name)}[ =](\d+)", flags) if name else None
    return int(found[1]) if found else None


def _has_switch(meaning: str, engine: str, flags: str) -> bool:
    row = load_capacity_flags().get(engine)
    name = row.off.get(meaning) if row is not None else None
    return name is not None and name in flags


def _count(table: Mapping[str, Plain], name: str) -> int | None:
    value = table.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _bytes(table: Mapping[str, Plain], *names: str) -> int | None:
    """The first of some figures in GiB, in bytes."""
    for name in names:
        value = table.get(name)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return int(value * GIB)
    return None
