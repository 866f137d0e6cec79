"""Text from processes, as it may be shown: nothing in it reaches the terminal as a command.

Called wherever a name, a value or a path that another user may have chosen is printed or put into
a document. Pure.
"""

from __future__ import annotations

#: Python keeps a byte that is not UTF-8 as a lone surrogate: this plus the byte (PEP 383).
_SURROGATE_BASE = 0xDC00


def visible(text: str) -> str:
    r"""The text with all that is not printable spelled out: ``\x1b``, ``\n``, ``\u202e``.

    Line ends, terminal sequences, marks that turn the direction of writing and bytes that are not
    UTF-8 are spelled out; a blank stays a blank.
    """
    return "".join(each if each.isprintable() else _spell(each) for each in text)


def _spell(character: str) -> str:
    number = ord(character)
    if _SURROGATE_BASE + 0x80 <= number <= _SURROGATE_BASE + 0xFF:
        return f"\\x{number - _SURROGATE_BASE:02x}"
    if 0xD800 <= number <= 0xDFFF:
        return f"\\u{number:04x}"
    return character.encode("unicode_escape").decode("ascii")
