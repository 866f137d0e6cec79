"""Secrets in notes: told by their names and their looks, never kept and never shown.

Called by everything in :mod:`stoker.recipes.notes` that puts text of a note into a value.
"""

from __future__ import annotations

import re

from stoker.knowledge.variables import load_variables
from stoker.recipes.notes.text import show

HIDDEN = "***"
_LOGIN = re.compile(r"://[^/\s:@]{1,200}:[^/\s@]{1,200}@")
_JSON_PAIR = re.compile(r"[\"']([\w-]{1,80})[\"']\s*:\s*[\"']([^\"']+)[\"']")
_EQUAL_PAIR = re.compile(r"([A-Za-z_][\w-]{0,80})=([^\s,'\"]+)")
_PAIR = re.compile(r"([A-Za-z_][\w-]{0,80})(=|:\s|\s+)([^\s'\"]+)")


def is_secret(name: str, value: str) -> bool:
    """Whether the value of a flag (without dashes) or variable must not be kept.

    Its name tells, or its looks, or a name within it (``{"api_key": ...}``), or a login in an
    address.
    """
    known = load_variables()
    inner = (*_JSON_PAIR.findall(value), *_EQUAL_PAIR.findall(value))
    return (
        known.is_secret(name, value or HIDDEN)
        or _LOGIN.search(value) is not None
        or any(known.is_secret(each, text) for each, text in inner)
    )


def hide_secrets(text: str) -> str:
    """The text for a person: marks as they were written, and no secret in it."""
    shown = _LOGIN.sub(f"://{HIDDEN}@", show(text))
    shown = _JSON_PAIR.sub(_hide_json_pair, _PAIR.sub(_hide_pair, shown))
    for row in load_variables().secrets.pattern:
        shown = re.sub(row.pattern, HIDDEN, shown)
    return shown


def _hide_json_pair(found: re.Match[str]) -> str:
    name, value = found.groups()
    hides = load_variables().is_secret(name, value)
    return found[0].replace(value, HIDDEN) if hides else found[0]


def _hide_pair(found: re.Match[str]) -> str:
    name, sign, value = found.groups()
    hides = (
        value != HIDDEN and not value.startswith("-") and load_variables().is_secret(name, value)
    )
    return f"{name}{sign}{HIDDEN}" if hides else found[0]
