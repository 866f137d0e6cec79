"""What was read of a note: the engine commands in it, and what became of each of their words.

Made by :mod:`stoker.recipes.notes`; the command layer stores and shows it. No value here is a
secret, and none is something that a shell would have computed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from stoker.model.finding import Source


class Verdict(StrEnum):
    """What became of a flag or variable of a note.

    TAKEN: it is a setting now. WITHHELD: its owner has to name it first. ELSEWHERE: a deployment
    says it by a key of its own. SECRET: its value is not kept. UNKNOWN: its value cannot be known
    from the text. FOREIGN: the engine's release has no such flag, or nothing reads the variable.
    OVERRIDDEN: the same command gives it again. LEFT: it stands in no command.
    """

    TAKEN = "taken"
    WITHHELD = "withheld"
    ELSEWHERE = "elsewhere"
    SECRET = "secret"
    UNKNOWN = "unknown"
    FOREIGN = "foreign"
    OVERRIDDEN = "overridden"
    LEFT = "left"


@dataclass(frozen=True, slots=True, kw_only=True)
class NotedSetting:
    """One flag or variable of a note.

    ``name`` is the engine's (a flag with its dashes), ``written`` the note's. ``values`` are empty
    for a bare flag, and for whatever may not be kept or is not known. ``renamed`` says why the two
    names differ, ``key`` is the deployment's key for it, ``variables`` those of the text whose
    values were put in.
    """

    name: str
    written: str
    kind: str
    verdict: Verdict
    values: tuple[str, ...] = ()
    reason: str = ""
    renamed: str = ""
    key: str = ""
    line: int = 0
    variables: tuple[str, ...] = ()

    @property
    def what(self) -> str:
        """The word by which its owner consents: the name without dashes."""
        return self.name.lstrip("-")


@dataclass(frozen=True, slots=True, kw_only=True)
class NotedCommand:
    """One engine command of a note.

    ``place`` says in what it stands (a code block, a service), ``shown`` is the command without
    its secrets. ``model`` is empty where the text does not say it, ``gpus`` as it was written,
    ``release`` of the engine where the image's tag names one. ``told`` are words around it that
    became no setting.
    """

    number: int
    engine: str
    title: str
    model: str
    place: str
    line: int
    shown: str
    gpus: str = ""
    image: str = ""
    release: str = ""
    told: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteImport:
    """What a note became.

    ``chosen`` is the number of the command, None while nobody has chosen among several, or where
    there is none. ``release``: the engine's, by whose flags the note was judged. ``remarks`` are
    sentences about what was not read or contradicts itself. ``recipe`` is the id under which it
    was stored, ``into`` the deployment file that it went into; both empty for neither.
    """

    SCHEMA: ClassVar[str] = "note-import/1"

    source: Source
    commands: tuple[NotedCommand, ...] = ()
    chosen: int | None = None
    engine: str = ""
    release: str = ""
    model: str = ""
    settings: tuple[NotedSetting, ...] = ()
    loose: tuple[NotedSetting, ...] = ()
    remarks: tuple[str, ...] = ()
    recipe: str = ""
    into: str = ""
