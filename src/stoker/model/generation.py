"""A generation: one deployment as it was applied, whole enough to be brought back later."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from stoker.model.facts import Plain
from stoker.model.launch import Launch, Service

_MOST_SECONDS = 7 * 24 * 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """What was in force: the wish, what it resolved to, and what the supervisor was asked to run.

    ``digest`` identifies the content (deployment, launch, service); two generations with the
    same digest are the same. ``source`` is the text of the file as the person wrote it.
    ``model`` identifies the weights (a digest, a revision, or size and date of a local file).
    ``note`` says how it came about (``applied``, ``rolled back to 3``). It holds no secret: the
    launch names the owner's key file, not the key.
    """

    SCHEMA: ClassVar[str] = "generation/2"

    name: str
    number: int
    digest: str
    deployment: Mapping[str, Plain]
    source: str
    launch: Launch
    service: Service
    model: str
    note: str = "applied"


@dataclass(frozen=True, slots=True, kw_only=True)
class Current:
    """Which generation is in force."""

    SCHEMA: ClassVar[str] = "current/1"

    name: str
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """One start that ended verified, and how long it took from the process to the verdict."""

    digest: str
    model: str
    seconds: float
    at_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Starts:
    """The newest starts of a deployment, oldest first; they give the expected seconds."""

    SCHEMA: ClassVar[str] = "starts/1"

    name: str
    starts: tuple[Start, ...] = field(default=())

    def expected_seconds(self, model: str) -> float | None:
        """The median of earlier starts with these weights, None without any."""
        of_model = (start.seconds for start in self.starts if start.model == model)
        # A service may write what it likes where these are kept: no start takes a week.
        seconds = sorted(each for each in of_model if 0 < each < _MOST_SECONDS)
        return seconds[len(seconds) // 2] if seconds else None
