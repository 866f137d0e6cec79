"""A model as `stoker model show` tells of it: what its files say, and what nobody could tell.

Made by the command, drawn by the report, printed as JSON. Frozen data without behaviour.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from stoker.model.facts import Plain


@dataclass(frozen=True, slots=True, kw_only=True)
class RankShare:
    """What the fullest of the GPUs holds: ``tensor`` ranks split the model, ``expert`` ranks share
    its experts (1: they are split as well). ``uneven`` says what of it every engine that divides
    models would refuse, empty for nothing."""

    tensor: int
    expert: int
    weight_bytes: int
    uneven: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownModel:
    """``known`` are the parts of a checkpoint with a value (None: surely not there), ``unknown``
    the others with the reason. ``files``: sizes, counts and types of what lies there.
    ``is_whole`` is None where nobody can tell; ``reason`` says what is wrong, None if nothing is.
    ``shares`` is empty where the headers could not be read, or a GPU cannot hold a part. ``card``
    are the releases, sizes and precisions that the model's card names, as phrases."""

    SCHEMA: ClassVar[str] = "model/1"

    path: str
    format: str
    is_whole: bool | None
    reason: str | None
    known: Mapping[str, Plain]
    unknown: Mapping[str, str]
    files: Mapping[str, Plain] = field(default_factory=dict)
    shares: tuple[RankShare, ...] = ()
    card: tuple[str, ...] = ()
