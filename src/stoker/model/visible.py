"""Text from processes, as it may be shown: nothing in it reaches the terminal as a command.

Called wherever a name, a value or a path that another user may have chosen is printed or put into
a document, and by the command line on all that it prints. Pure.
"""

from __future__ import annotations

import json

#: Python keeps a byte that is not UTF-8 as a lone surrogate: this plus the byte (PEP 383).
_SURROGATE_BASE = 0xDC00


def visible(text: str) -> str:
    r"""The text with all that is not printable spelled out: ``\x1b``, ``\n``, ``\u202e``.

    Line ends, terminal sequences, marks that turn the direction of writing and bytes that are not
    UTF-8 are spelled out; a blank stays a blank.
    """
    return "".join(each if each.isprintable() else _spell(each) for each in text)


def visible_lines(text: str) -> str:
    """The same for a text of several lines: line ends and tabs stay as they are."""
    return "".join(each if each in "\n\t" else visible(each) for each in text)


def escape_json(text: str) -> str:
    r"""A JSON document with all that is not printable escaped: it says the same (``\u202e``)."""
    return "".join(
        each if each == "\n" or each.isprintable() else json.dumps(each)[1:-1] for each in text
    )


def _spell(character: str) -> str:
    number = ord(character)
    if _SURROGATE_BASE + 0x80 <= number <= _SURROGATE_BASE + 0xFF:
        return f"\\x{number - _SURROGATE_BASE:02x}"
    if 0xD800 <= number <= 0xDFFF:
        return f"\\u{number:04x}"
    return character.encode("unicode_escape").decode("ascii")
