"""Short phrases about values and names, for sentences that a person reads.

Called by the modules that say what is wrong with a deployment file. It must never show more than
the beginning of a value.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from stoker.model.deployment_fields import is_secret_name
from stoker.model.facts import Plain

_MAX_SHOWN = 40


def describe(value: Plain) -> str:
    """What a value is: ``the text "80a"``, ``the number 3``, ``a list``."""
    if value is None:
        return "an empty value"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return f"the number {value}"
    if isinstance(value, str):
        return f'the text "{shorten(value)}"' if value else "an empty text"
    return "a list" if isinstance(value, (list, tuple)) else "a group of keys"


def may_be_secret(path: Iterable[str | int]) -> bool:
    """Whether a value at this path may be a secret, also where the file that holds it is meant."""
    names = (part.removesuffix("_file").removesuffix("-file") for part in map(str, path))
    return any(is_secret_name(name) for name in names)


def shorten(text: str) -> str:
    """The first line of a text, and no more of it than fits into a sentence."""
    lines = text.splitlines() or [""]
    first = lines[0]
    is_whole = len(lines) == 1 and len(first) <= _MAX_SHOWN
    return first if is_whole else first[: _MAX_SHOWN - 1] + "…"


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name that is spelt most like this one, empty when none is near."""
    by_letters = {_letters(candidate): candidate for candidate in known}
    found = difflib.get_close_matches(_letters(name), by_letters, n=1, cutoff=0.7)
    return by_letters[found[0]] if found else ""


def _letters(name: str) -> str:
    """A name without what people mix up: case, dashes, underscores, dots, blanks."""
    return "".join(character for character in name.lower() if character.isalnum())


def join_names(names: Sequence[str], last: str = "and") -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} {last} {names[-1]}"
