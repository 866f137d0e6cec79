"""What a model's chat template and vocabulary show of its calls and thoughts.

Used by the model probe. Known markers are searched for as text; a template is a program and is
never run, since it may come from anybody.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

#: The longest in use has some 60 KB; a file that claims more is cut there.
MOST_TEMPLATE_BYTES = 1 << 20
MOST_CONFIG_BYTES = 16 << 20  # it may list every word that was added to the vocabulary
_MOST_TEMPLATES = 16
_WORD = re.compile(r"\w+")

Value = dict[str, Any]


@cache
def load_markers() -> Mapping[str, Sequence[str]]:
    """``tool``, ``reasoning`` and ``variables``: what is searched for."""
    text = files("stoker.probes").joinpath("template_markers.toml").read_text(encoding="utf-8")
    markers: dict[str, list[str]] = tomllib.loads(text)["markers"]
    return markers


def describe_template(templates: Sequence[str]) -> Value | None:
    """What all templates of a model emit together; None for a model without any.

    ``tool_markers``, ``reasoning_markers`` and ``variables`` in the order of the data file;
    ``length`` in characters and ``sha256`` of the first, the default one.
    """
    if not templates:
        return None
    joined = "\n".join(template[:MOST_TEMPLATE_BYTES] for template in templates)
    words = set(_WORD.findall(joined))
    markers = load_markers()
    return {
        "length": len(templates[0]),
        "sha256": hashlib.sha256(templates[0].encode("utf-8", "surrogatepass")).hexdigest(),
        "tool_markers": [marker for marker in markers["tool"] if marker in joined],
        "reasoning_markers": [marker for marker in markers["reasoning"] if marker in joined],
        "variables": [name for name in markers["variables"] if name in words],
    }


def find_templates(config: Mapping[str, Any], *, files_of_own: Sequence[str]) -> list[str]:
    """The texts of all chat templates, the default one first.

    ``files_of_own`` are texts of files that hold nothing else; engines prefer those.
    """
    found = [text for text in files_of_own if text.strip()]
    return [*found, *_templates_of(config.get("chat_template"))][:_MOST_TEMPLATES]


def _templates_of(value: object) -> Iterator[str]:
    """A template, or a list of named ones."""
    if isinstance(value, str) and value.strip():
        yield value
    rows = value if isinstance(value, list) else []
    named = [row for row in rows[:_MOST_TEMPLATES] if isinstance(row, dict)]
    for row in sorted(named, key=lambda row: row.get("name") != "default"):
        yield from _templates_of(
            row.get("template") if isinstance(row.get("template"), str) else ""
        )


def find_token_markers(config: Mapping[str, Any]) -> list[str]:
    """The markers that are words of the vocabulary of their own (added tokens)."""
    added = config.get("added_tokens_decoder")
    rows = added.values() if isinstance(added, dict) else ()
    words = {row.get("content") for row in rows if isinstance(row, dict)} - {None}
    markers = load_markers()
    return [marker for part in ("tool", "reasoning") for marker in markers[part] if marker in words]
