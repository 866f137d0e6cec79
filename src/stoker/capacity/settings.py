"""The settings that size memory, by meaning, from an engine's flags.

Called by whoever builds :class:`~stoker.capacity.inputs.Inputs` from a deployment or from a running
engine. Which flag means what is data; a value that no engine could use counts as not set.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from stoker.capacity.inputs import (
    Batch,
    HostSettings,
    LlamaSettings,
    Ranks,
    Settings,
    SettingsParts,
    Speculation,
    StateSettings,
    Undescribed,
)
from stoker.knowledge.capacity_flags import (
    FlagRow,
    UndescribedRow,
    load_capacity_flags,
    load_undescribed,
)
from stoker.model.facts import Plain

_MOST, _MOST_BYTES = 1 << 40, 1 << 60
#: Small letters count in thousands and capitals in 1024, as the engines read them.
_UNITS = {
    "": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12,
    "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40,
}  # fmt: skip
_NUMBER = re.compile(r"([+-]?\d{0,15}(?:\.\d{0,9})?)(?:[eE]([+-]?\d{1,2}))?([kmgtKMGT]?)")
_BETWEEN = re.compile(r"[\s,\[\]]+")
#: Words for a flag that is not set, as parsers and catalogues print them.
_NOTHING = frozenset({"", "none", "null", "false", "0", "auto", "unused", "[]", "{}"})


def to_number(value: Plain) -> int | float | None:
    """A number, also where it is text such as ``0.9``, ``32k`` and ``4G``; None for anything else.

    Small letters count in thousands and capitals in 1024.
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return value
    found = _NUMBER.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None or not any(sign.isdigit() for sign in found[1]):
        return None
    digits, power, unit = found.groups()
    number = float(digits) * 10.0 ** int(power or 0) * _UNITS[unit]
    return int(number) if number.is_integer() else number


def read_settings(engine: str, flags: Mapping[str, Plain]) -> Settings:
    """What the flags of an engine (without dashes) say; nothing for an engine that is not known."""
    row = load_capacity_flags().get(engine)
    if row is None:
        return Settings()
    read = _Reader(row=row, flags=flags)
    return Settings(
        context_tokens=read.count("context_tokens"),
        memory_share=read.number("memory_share"),
        kv_type=read.word("kv_type"),
        value_type=read.word("value_type"),
        page_tokens=read.count("page_tokens"),
        window_ratio=read.number("window_ratio"),
        has_prefix_reuse=not read.is_on("has_prefix_reuse", row.off),
        has_overlap=not read.is_on("has_overlap", row.off),
        most_tokens=read.count("most_tokens"),
        kv_bytes=read.size("kv"),
        backend=read.word("backend"),
        parts=_read_parts(read),
    )


def read_ranks(engine: str, flags: Mapping[str, Plain]) -> Ranks:
    """How the flags divide the model; one rank where they say nothing."""
    row = load_capacity_flags().get(engine)
    if row is None:
        return Ranks()
    read = _Reader(row=row, flags=flags)
    tensor, pipeline = read.count("tensor") or 1, read.count("pipeline") or 1
    replicas, groups = read.count("replicas") or 1, read.count("groups") or 1
    if groups == 1 and read.is_on("attention_groups", row.on):
        # The older spelling counts the groups where copies are counted otherwise.
        groups, replicas = replicas, 1
    hosts = read.count("hosts") or 1
    expert = read.count("expert") or 1
    if read.is_on("expert", row.on):
        expert = tensor * replicas
    return Ranks(
        tensor=tensor,
        pipeline=pipeline,
        replicas=replicas,
        attention_groups=groups,
        expert=expert,
        context=read.count("context") or 1,
        on_host=None if hosts == 1 else max(1, tensor * pipeline * replicas // hosts),
    )


def _read_parts(read: _Reader) -> SettingsParts:
    row = read.row
    return SettingsParts(
        batch=_read_batch(read),
        state=StateSettings(
            slots=read.count("state_slots"),
            ratio=read.number("state_ratio"),
            strategy=read.word("state_strategy"),
            number_type=read.word("state_type"),
        ),
        host=_read_host(read),
        speculation=_read_speculation(read),
        llama=LlamaSettings(
            sequences=read.count("sequences"),
            micro_batch_tokens=read.count("micro_batch_tokens") or 512,
            is_unified=read.is_on("is_unified", row.on),
            keeps_all=read.is_on("keeps_all", row.on),
            gpu_layers=read.count("gpu_layers"),
        ),
        keeps_all=read.is_on("keeps_all", row.on),
        has_memory_saver=read.is_on("memory_saver", row.on),
        undescribed=tuple(_list_undescribed(read)),
    )


def _read_batch(read: _Reader) -> Batch:
    row = read.row
    has_graphs = not read.is_off("has_graphs") and not read.is_on("has_graphs_off", row.on)
    # Graphs of prompts may be on without those of decoding, and the other way round.
    has_prefill_graphs = None if has_graphs or "has_prefill_graphs" not in row.off else True
    if read.is_off("has_prefill_graphs"):
        has_prefill_graphs = False
    return Batch(
        requests=read.count("requests"),
        chunk_tokens=read.count("chunk_tokens"),
        batch_tokens=read.count("batch_tokens"),
        graph_requests=read.count("graph_requests"),
        has_graphs=has_graphs,
        has_prefill_graphs=has_prefill_graphs,
        prefill_graph_tokens=read.count("prefill_graph_tokens"),
        role=read.word("role"),
    )


def _read_host(read: _Reader) -> HostSettings:
    row, size = read.row, read.size("host_size")
    share = read.number("host_share")
    return HostSettings(
        is_on=read.is_on("host_cache", row.on) if "host_cache" in row.on else bool(size),
        ratio=read.number("host_ratio"),
        size_bytes=size,
        weight_bytes=read.size("host_weights") or 0,
        share=share if share is not None and share <= 1 else None,
        binds=read.decide("binds"),
        nodes=tuple(int(node) for node in read.numbers(row.largest.get("nodes", ()), least=0)),
    )


def _read_speculation(read: _Reader) -> Speculation | None:
    kind = read.word("draft_kind").lower()
    if kind:
        return Speculation(kind=kind, tokens=_read_drafted(read))
    table = _parse(read.flags.get(read.row.draft_table)) if read.row.draft_table else None
    if not isinstance(table, Mapping) or not table:
        return None
    method, tokens = table.get("method"), table.get("num_speculative_tokens")
    return Speculation(
        kind=method.lower() if isinstance(method, str) else "draft",
        tokens=tokens if type(tokens) is int and 0 < tokens < _MOST else None,
    )


def _read_drafted(read: _Reader) -> int | None:
    """Tokens of a draft; a chain of steps without branches has one more than steps."""
    tokens, steps = read.count("draft_tokens"), read.count("draft_steps")
    if tokens is None and steps is not None and read.count("draft_branches") == 1:
        return steps + 1
    return tokens


def _list_undescribed(read: _Reader) -> Iterable[Undescribed]:
    for row in load_undescribed():
        if row.engine == read.row.engine and _counts(row, read.flags.get(row.flag)):
            says = f"{row.flag} is set: {row.says}, which is not described here"
            yield Undescribed(
                says=says,
                refuses=row.refuses,
                of_weights=row.of_weights,
                of_gpus=row.of_gpus,
            )


def _counts(row: UndescribedRow, value: Plain) -> bool:
    if row.above is not None:
        number = to_number(value)
        return number is not None and number > row.above
    if isinstance(value, str):
        text = value.strip().lower()
        return text in row.words if row.words else text not in _NOTHING
    return bool(value) and not row.words


def _parse(value: Plain) -> Plain:
    """A table that stands as text; the value itself where it is none."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reader:
    """Looks a meaning up in the flags."""

    row: FlagRow
    flags: Mapping[str, Plain]

    def number(self, meaning: str) -> float | None:
        """A positive number; of a list the greatest."""
        listed = self.numbers(self.row.largest.get(meaning, ()))
        if listed:
            return float(max(listed))
        for place in self.row.places(meaning, self.row.meanings):
            value = to_number(self._find(place))
            if value is not None:
                return float(value) if 0 < value < _MOST else None
        return None

    def numbers(self, places: Iterable[str], least: int = 1) -> list[int | float]:
        """The numbers of the first list that is there."""
        for place in places:
            value = self._find(place)
            if isinstance(value, str):
                value = [word for word in _BETWEEN.split(value) if word]
            items = value if isinstance(value, (list, tuple)) else [value]
            found = [to_number(item) for item in items]
            known = [each for each in found if each is not None and least <= each < _MOST]
            if known:
                return known
        return []

    def count(self, meaning: str) -> int | None:
        """A positive whole number."""
        value = self.number(meaning)
        return int(value) if value is not None and value >= 1 else None

    def word(self, meaning: str) -> str:
        """A word, empty where there is none or it leaves the choice to the engine."""
        for place in self.row.places(meaning, self.row.words):
            value = self._find(place)
            if isinstance(value, str) and value.lower() not in ("", "auto", "none", "null"):
                return value
        return ""

    def size(self, meaning: str) -> int | None:
        """A size in bytes."""
        value = to_number(self.flags.get(self.row.sized.get(meaning, "")))
        if value is None or not 0 < value < _MOST:
            return None
        found = int(value * self.row.bytes[meaning])
        return found if 0 < found < _MOST_BYTES else None

    def is_on(self, meaning: str, switches: Mapping[str, str]) -> bool:
        """Whether a switch is set."""
        return any(self._is_set(place) for place in self.row.places(meaning, switches))

    def is_off(self, meaning: str) -> bool:
        """Whether a switch, or a word in place of one, turns it off."""
        words = self.row.off_words.get(meaning, {})
        # What is not set is no word: None must not read as "none".
        found = [(self._find(place), off) for place, off in words.items()]
        told = [value is not None and str(value).lower() in off for value, off in found]
        return any(told) or self.is_on(meaning, self.row.off)

    def decide(self, meaning: str) -> bool | None:
        """On, off, or neither."""
        if self.is_on(meaning, self.row.on):
            return True
        return False if self.is_on(meaning, self.row.off) else None

    def _is_set(self, place: str) -> bool:
        value = self._find(place)
        if isinstance(value, str):
            return value.strip().lower() == "true"
        # A parser that has both spellings may tell the other one alone.
        return value is True or (
            value is None and place.startswith("no-") and self.flags.get(place[3:]) is False
        )

    def _find(self, place: str) -> Plain:
        """What stands at a place: a flag, or a path in the table that is its value."""
        flag, _, path = place.partition(":")
        found = self.flags.get(flag)
        if not path:
            return found
        found = _parse(found)
        for name in path.split("."):
            found = found.get(name) if isinstance(found, Mapping) else None
        return found
