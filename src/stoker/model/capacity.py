"""Where the memory of a deployment lies, what fits into it, and what could be gained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from stoker.model.facts import Plain
from stoker.model.finding import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A figure with the interval that is claimed for it. The unit stands in the field's name."""

    low: float
    likely: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPart:
    """One part of a GPU's or the host's memory.

    ``part`` is its name in data and JSON (weights, kv_pool, state_pool, draft, request_table,
    graphs, workspace, others, unused, host_cache, pinned_weights, processes). ``predicted_bytes``
    None: not known, and ``reason`` says which reading would settle it. ``resolved_bytes`` is what
    the engine itself told once it ran, None before.
    """

    part: str
    title: str
    predicted_bytes: Span | None = None
    resolved_bytes: int | None = None
    reason: str = ""
    source: Source | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryMap:
    """The memory of one GPU (for one rank of the engine), or of the host (``rank`` None)."""

    title: str
    total_bytes: int | None
    rank: int | None = None
    parts: tuple[MemoryPart, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCache:
    """The cache in host memory: reuse of prompts, never more context at the same time.

    ``rank_bytes`` of one rank, ``total_bytes`` of all on this host; ``remaining_bytes`` of the
    host's memory that is available to all others then.
    """

    tokens: Span
    rank_bytes: Span
    total_bytes: Span
    ranks: int
    remaining_bytes: Span | None = None
    is_pinned: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One way to more: a change of the deployment, with its gain and its price.

    ``gain_tokens`` of context at the same time; ``host_tokens`` of the cache in host memory, which
    are shown apart. ``changes`` are keys of the deployment file and their values.
    """

    id: str
    title: str
    gain_tokens: Span | None
    changes: Mapping[str, Plain]
    cost: str
    risk: str = ""
    host_tokens: Span | None = None
    host_bytes: Span | None = None
    needs_restart: bool = True
    source: Source | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """The earlier start that a prediction was corrected by.

    ``deployment`` and ``at_seconds`` (of the epoch) say which it was. ``missing_bytes``: how much
    less its pools had on each GPU than was predicted (below zero: more), None where that does not
    hold for this deployment. ``told_tokens``: what it told. ``carried`` names what was taken over.
    """

    deployment: str
    at_seconds: float
    missing_bytes: int | None = None
    told_tokens: int | None = None
    carried: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """The whole answer. ``unknown`` are sentences: what is missing and which reading settles it.

    ``token_bytes`` of one token on one GPU; ``kv_tokens`` of the pool that one copy of the model
    has (in all, over the ranks that share it); ``state_requests`` how many requests the pool of
    recurrent states lets run, None where there is none. ``corrected_by``: None where no earlier
    start of this build and model is known.
    """

    SCHEMA: ClassVar[str] = "capacity/2"

    name: str
    engine: str
    release: str
    kv_tokens: Span | None
    token_bytes: float | None
    context_tokens: int | None
    state_requests: int | None = None
    maps: tuple[MemoryMap, ...] = ()
    host_cache: HostCache | None = None
    options: tuple[Option, ...] = ()
    unknown: tuple[str, ...] = field(default=())
    corrected_by: Correction | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What a plan expects to fit: a capacity without options, and what the deployment asks of it.

    Requests of ``context_tokens``, ``parallel`` of them at the same time; None where it asks for
    nothing. ``notes`` are sentences.
    """

    capacity: Capacity
    context_tokens: int | None = None
    parallel: int | None = None
    notes: tuple[str, ...] = ()
