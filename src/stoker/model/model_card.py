"""What a model's card asks for: commands, releases and changes of engines, sizes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from stoker.model.note import NotedCommand


@dataclass(frozen=True, slots=True, kw_only=True)
class CardRequirement:
    """One thing that a card asks of a package.

    ``package`` is the package's name, ``engine`` our word for it, empty for what is no engine.
    ``kind``: ``release`` (a range of releases in ``versions``), ``change`` (the change ``number``
    of the package; ``versions`` then is the range of releases that have it, empty where that is
    not known), or ``unreleased`` (a nightly build, or one from source). ``sentence`` is the
    card's own, cut; ``reason`` says why ``versions`` is not known, empty where it is.
    """

    package: str
    engine: str
    kind: str
    versions: str = ""
    number: int = 0
    line: int = 0
    sentence: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CardRequirements:
    """Everything that was found in a card.

    ``precisions`` are our words for how the weights are quantized, as far as the card names it.
    ``tensor_sizes`` and ``context_tokens`` are all that it names, without repeats, in its order.
    ``base_models`` stand in its front matter.
    """

    SCHEMA: ClassVar[str] = "model-card/1"

    commands: tuple[NotedCommand, ...] = ()
    requirements: tuple[CardRequirement, ...] = ()
    precisions: tuple[str, ...] = ()
    tensor_sizes: tuple[int, ...] = ()
    context_tokens: tuple[int, ...] = ()
    base_models: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
