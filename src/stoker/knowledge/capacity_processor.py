"""How engines size their cache without a GPU, by release: package data, typed.

Called by :mod:`stoker.capacity.processor`. Sizes are in MiB (``_mib``): least, likely and most.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from stoker.knowledge.datafiles import check_source, read_toml
from stoker.knowledge.structure import structure
from stoker.model.finding import Source

_WHERE = "capacity/processor.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class SglangProcessor:
    """SGLang's arithmetic; see the data file."""

    versions: str
    share: float
    cores_variable: str
    processes_mib: tuple[int, ...]
    moved_mib: tuple[int, ...]
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmProcessor:
    """vLLM's arithmetic; see the data file."""

    versions: str
    space_variable: str
    block_tokens: int
    requests: int
    batch_tokens: int
    process_mib: tuple[int, ...]
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Fails:
    """A setting with which an engine does not start on a processor; ``says`` is a sentence
    without a full stop."""

    engine: str
    setting: str
    says: str
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorRules:
    """The whole of processor.toml."""

    sglang: tuple[SglangProcessor, ...]
    vllm: tuple[VllmProcessor, ...]
    fails: tuple[Fails, ...]


@cache
def load_processor() -> ProcessorRules:
    """The data file. Raises DataError."""
    found = structure(ProcessorRules, read_toml(_WHERE), where=_WHERE)
    sources = [row.source for row in found.sglang] + [row.source for row in found.vllm]
    for source in (*sources, *(row.source for row in found.fails)):
        check_source(source, where=f"{_WHERE}: {source.where}")
    return found
