"""The cases of this folder, read; and short ways to what a test asks."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from stoker.model.finding import Source
from stoker.model.note import NotedSetting, NoteImport, Verdict
from stoker.recipes.notes.read import Wish, import_note

CASES = Path(__file__).parent / "cases"
SOURCE = Source(kind="documented", where="a note", date="2026-11-30")


def case(name: str) -> str:
    """The text of a case."""
    return (CASES / name).read_text(encoding="utf-8")


def read(
    name: str, number: int | None = None, *, consent: str = "", take: str = "", release: str = ""
) -> NoteImport:
    """A case as it is imported; words of consent with blanks between."""
    return read_text(
        case(name), name=name, number=number, consent=consent, take=take, release=release
    )


def read_text(
    text: str,
    *,
    name: str = "note.md",
    number: int | None = None,
    engine: str | None = None,
    consent: str = "",
    take: str = "",
    release: str = "",
) -> NoteImport:
    """Any text as it is imported."""
    wish = Wish(
        number=number,
        engine=engine,
        release=release,
        consents=frozenset(consent.split()),
        takes=frozenset(take.split()),
    )
    return import_note(text, name=name, source=SOURCE, wish=wish)


def with_verdict(settings: Iterable[NotedSetting], verdict: Verdict) -> dict[str, str]:
    """The settings that have it: their values by name."""
    return {each.name: " ".join(each.values) for each in settings if each.verdict is verdict}


def find(imported: NoteImport, name: str) -> NotedSetting:
    """The last setting of this name."""
    return [each for each in (*imported.settings, *imported.loose) if each.name == name][-1]
