"""Which flags are on their way out, and what replaces them, as far as the source says so.

The source says so in one of four ways: the name of the action, ``deprecated=True``, an argument
``new_flag`` of the action, or the help text. Nothing is concluded from likeness.
"""

from __future__ import annotations

import re

from scripts.read_flags.values import Argument, Class

#: A help text, or a paragraph of it, that begins by saying so.
_SAYS = re.compile(r"(?:\A|\n\n)\W*(?:note:\s*)?(?:deprecated|removed)\b", re.IGNORECASE)
_WORD = r"`?(--[\w.-]+(?:=[\w.-]+)?|[a-z_]+|[A-Z][A-Z0-9_]+=\w+)`?"
#: ``use X to do something else`` names no replacement.
_USE = re.compile(rf"\b[Uu]se {_WORD}(?! to\b)(?=[\s.,)])")
_ALIAS = re.compile(rf"\b[Aa]lias for {_WORD}")


def read_deprecation(argument: Argument, flags: frozenset[str]) -> str | None:
    """What replaces a deprecated flag; empty where the source names nothing, None if it is not.

    ``flags`` are all flags of the release: a help text may name the field of one.
    """
    action = argument.options.get("action")
    help_text = argument.options.get("help")
    text = help_text if isinstance(help_text, str) else ""
    is_old = (
        (isinstance(action, Class) and "Deprecated" in action.name)
        or argument.options.get("deprecated") is True
        or _SAYS.search(text) is not None
        or any(f"{name} is deprecated" in text for name in argument.names)
    )
    if not is_old:
        return None
    new = argument.options.get("new_flag")
    return new if isinstance(new, str) else _find_replacement(text, flags)


def _find_replacement(text: str, flags: frozenset[str]) -> str:
    for pattern in (_USE, _ALIAS):
        for found in pattern.finditer(text):
            word = found[1].rstrip(".")
            named = f"--{word.replace('_', '-')}" if re.fullmatch("[a-z_]+", word) else word
            if named.startswith("--") and named.partition("=")[0].partition(".")[0] not in flags:
                continue
            return named
    return ""
