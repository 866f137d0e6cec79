"""The settings that size memory, by meaning, from an engine's flags.

Called by whoever builds :class:`~stoker.capacity.inputs.Inputs` from a deployment or from a running
engine. Which flag means what is data; a value that no engine could use counts as not set.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
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
)
from stoker.knowledge.capacity_flags import FlagRow, load_capacity_flags
from stoker.model.facts import Plain

_MOST = 1 << 40


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
    replicas = read.count("replicas") or 1
    groups = replicas if read.is_on("attention_groups", row.on) else 1
    hosts = read.count("hosts") or 1
    replicas = 1 if groups > 1 else replicas
    return Ranks(
        tensor=tensor,
        pipeline=pipeline,
        replicas=replicas,
        attention_groups=groups,
        expert=read.count("expert") or 1,
        context=read.count("context") or 1,
        on_host=None if hosts == 1 else max(1, tensor * pipeline * replicas // hosts),
    )


def _read_parts(read: _Reader) -> SettingsParts:
    row = read.row
    has_graphs = not read.is_on("has_graphs", row.off) and not read.is_on("has_graphs_off", row.on)
    host_size = read.size("host_size")
    is_on = read.is_on("host_cache", row.on) if "host_cache" in row.on else bool(host_size)
    return SettingsParts(
        batch=Batch(
            requests=read.count("requests"),
            chunk_tokens=read.count("chunk_tokens"),
            batch_tokens=read.count("batch_tokens"),
            graph_requests=read.count("graph_requests"),
            has_graphs=has_graphs,
            role=read.word("role"),
        ),
        state=StateSettings(
            slots=read.count("state_slots"),
            ratio=read.number("state_ratio"),
            strategy=read.word("state_strategy"),
            number_type=read.word("state_type"),
        ),
        host=HostSettings(
            is_on=is_on,
            ratio=read.number("host_ratio"),
            size_bytes=host_size,
            weight_bytes=read.size("host_weights") or 0,
        ),
        speculation=_read_speculation(read),
        llama=LlamaSettings(
            sequences=read.count("sequences") or 1,
            micro_batch_tokens=read.count("micro_batch_tokens") or 512,
            is_unified=read.is_on("is_unified", row.on),
            keeps_all=read.is_on("keeps_all", row.on),
            gpu_layers=read.count("gpu_layers"),
        ),
    )


def _read_speculation(read: _Reader) -> Speculation | None:
    kind = read.word("draft_kind").lower()
    if kind:
        return Speculation(kind=kind, tokens=read.count("draft_tokens"))
    table = read.flags.get(read.row.draft_table) if read.row.draft_table else None
    if isinstance(table, str):
        table = _parse(table)
    if not isinstance(table, Mapping) or not table:
        return None
    method, tokens = table.get("method"), table.get("num_speculative_tokens")
    return Speculation(
        kind=method.lower() if isinstance(method, str) else "draft",
        tokens=tokens if type(tokens) is int and 0 < tokens < _MOST else None,
    )


def _parse(text: str) -> Plain:
    try:
        return json.loads(text)
    except ValueError:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reader:
    """Looks a meaning up in the flags."""

    row: FlagRow
    flags: Mapping[str, Plain]

    def number(self, meaning: str) -> float | None:
        """A positive number."""
        value = self.flags.get(self.row.meanings.get(meaning, ""))
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return None
        return float(value) if 0 < value < _MOST else None

    def count(self, meaning: str) -> int | None:
        """A positive whole number."""
        value = self.number(meaning)
        return int(value) if value is not None and value >= 1 else None

    def word(self, meaning: str) -> str:
        """A word, empty where there is none or it leaves the choice to the engine."""
        value = self.flags.get(self.row.words.get(meaning, ""))
        return value if isinstance(value, str) and value != "auto" else ""

    def size(self, meaning: str) -> int | None:
        """A size in bytes."""
        value = self.flags.get(self.row.sized.get(meaning, ""))
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < _MOST:
            return None
        return int(value * self.row.bytes[meaning])

    def is_on(self, meaning: str, switches: Mapping[str, str]) -> bool:
        """Whether a switch is set."""
        return self.flags.get(switches.get(meaning, "")) is True
