"""What starts of an engine found, against what was predicted: it corrects the next prediction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from stoker.model.facts import Plain


@dataclass(frozen=True, slots=True, kw_only=True)
class StartConditions:
    """What a start's figures depend on beside the build, the model and the kind of GPU.

    ``loading``: how the model was divided and loaded; what is free before and after its weights
    depends on it.
    ``work``: what sizes a step (batches, graphs, drafting): what lies beside the pool depends on
    it. ``pool``: what only divides the rest (share, context, number format); bytes do not depend
    on it. ``driver``: the GPUs' driver, which takes a part of them for itself ("" without).
    """

    loading: Mapping[str, Plain]
    work: Mapping[str, Plain]
    pool: Mapping[str, Plain]
    driver: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartFigures:
    """What a start found, in bytes of the fullest rank; None where it did not tell.

    ``gpu_free_bytes``: what other programs left of the fullest GPU then, by its driver.
    ``predicted_pool_bytes`` before anything was known of a start, ``missing_bytes`` what the pools
    had less than is predicted from this very start's readings. ``parts`` by the names of a map.
    """

    free_before_bytes: int | None = None
    free_after_bytes: int | None = None
    weight_bytes: int | None = None
    gpu_free_bytes: int | None = None
    predicted_pool_bytes: int | None = None
    resolved_pool_bytes: int | None = None
    missing_bytes: int | None = None
    told_tokens: int | None = None
    parts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityStart:
    """One start: of which deployment, when it was read (seconds of the epoch), what it found."""

    deployment: str
    at_seconds: float
    conditions: StartConditions
    figures: StartFigures


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityStarts:
    """The starts of one build of an engine with one model on one kind of GPU, newest first.

    These four name the document. ``gpus`` are kinds and sizes, each once: engines look at the
    smallest, and how many there were is a start's own condition.
    """

    SCHEMA: ClassVar[str] = "capacity-starts/1"

    engine: str
    release: str
    model: str
    gpus: tuple[str, ...] = ()
    starts: tuple[CapacityStart, ...] = ()
