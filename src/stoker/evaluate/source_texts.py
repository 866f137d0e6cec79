"""Texts that a program could write, seen in its syntax tree and filled in with a figure.

Called by :mod:`stoker.evaluate.log_formats` and by ``scripts/list_failures.py``. Pure.
"""

from __future__ import annotations

import ast
import re

#: Stands for whatever a release fills in: it is a word, a whole number and a fraction at once.
FIGURE = "12"
_PLACEHOLDER = re.compile(r"%(?:\(\w+\))?[-+ #0]*\d*(?:\.\d+)?[sdrfgiex]|\{[^{}]*\}")


def fill_text(text: str) -> str:
    """A text of the old kinds (``%s``, ``{}``) with its places filled in."""
    return _PLACEHOLDER.sub(FIGURE, text)


def fill_joined(node: ast.JoinedStr) -> str:
    """An f-string with its places filled in."""
    return "".join(_piece(value) for value in node.values)


def _piece(value: ast.expr) -> str:
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        return value.value
    return FIGURE
