"""Repairs that were seen to work: evidence for the next deployment of the same kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from stoker.model.facts import Plain


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptRepair:
    """Changes with which a deployment was verified after it had failed without them.

    ``cause`` is the kind of what was wrong and ``title`` its words, ``shown_by`` the lines that
    told it. ``changes`` are keys of the deployment file. ``wish`` is what was asked for then
    (context, parallel requests, draft, GPUs): a number that suits one need not suit another.
    ``failed`` are the repairs that were tried before, in words. ``checks`` promises were kept at
    the end; ``at_seconds`` is of the epoch, ``run`` the run that was verified.
    """

    deployment: str
    cause: str
    title: str
    changes: Mapping[str, Plain]
    wish: Mapping[str, Plain] = field(default_factory=dict)
    shown_by: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    checks: int = 0
    at_seconds: float = 0.0
    run: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptRepairs:
    """The repairs of one build of an engine with one model on one kind of GPU, newest first.

    The first four name the document: what mends a fault on one of them says nothing of another.
    """

    SCHEMA: ClassVar[str] = "kept-repairs/1"

    engine: str
    release: str
    model: str
    gpu: str
    repairs: tuple[KeptRepair, ...] = ()
