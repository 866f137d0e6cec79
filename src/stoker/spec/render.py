"""Values as YAML: whole deployments, and the fragments that an edit puts into a file.

What is written here is read the same way by readers of YAML 1.1: text that one of them would
take for something else stands in quotes. It must never decide what to write, only how.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.representer import RoundTripRepresenter
from ruamel.yaml.scalarstring import DoubleQuotedScalarString

from stoker.model.deployment import Deployment
from stoker.model.facts import Plain
from stoker.spec.plain import is_ambiguous, resolve

#: Text that YAML 1.1 read as something else: https://yaml.org/type/ (bool, int, timestamp, merge).
_LOOKALIKE = re.compile(
    r"y|n|yes|no|on|off|<<|=|[-+]?[0-9][0-9_]*(:[0-9][0-9_]*)+(\.[0-9_]*)?|[0-9]{4}-[0-9].*",
    re.IGNORECASE,
)


class _Representer(RoundTripRepresenter):
    """The library's own, which would write nothing at all for a value that is null."""

    def represent_none(self, data: None) -> Any:
        return self.represent_scalar("tag:yaml.org,2002:null", "null")


_Representer.add_representer(type(None), _Representer.represent_none)

_INDICATORS = frozenset("-?:,[]{}#&*!|>'\"%@`")
#: Wider than any line: the library must not fold one.
_WIDTH = 1 << 20


def render_deployment(deployment: Deployment) -> str:
    """The deployment as the text of a file that parses to an equal one.

    Only what was set is written; what was left out stays left out.
    """
    values = deployment.model_dump(exclude_unset=True)
    for key in ("model", "draft"):
        if values.get(key):
            values[key] = _short_reference(values[key])
    return render_yaml(values)


def _short_reference(reference: Mapping[str, str | None]) -> Plain:
    return reference if reference.get("file") else reference["ref"]


def render_yaml(value: Plain) -> str:
    """JSON-shaped data as a YAML document in block style, lists of single values in brackets."""
    yaml = YAML(pure=True)
    yaml.width = _WIDTH
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.Representer = _Representer
    stream = io.StringIO()
    yaml.dump(_styled(value), stream)
    return stream.getvalue()


def render_inline(value: Plain) -> str:
    """A single value, or a list of single values, as it stands behind a colon."""
    return render_yaml({"k": value}).removeprefix("k:").strip(" \n")


def is_inline(value: Plain) -> bool:
    """Whether a value is written behind its colon: one without keys in it."""
    if isinstance(value, (list, tuple)):
        return not any(isinstance(item, (list, tuple, Mapping)) for item in value)
    return not isinstance(value, Mapping) or not value


def _styled(value: Plain) -> Any:
    if isinstance(value, Mapping):
        mapping = CommentedMap({_styled(key): _styled(inner) for key, inner in value.items()})
        if not mapping:
            mapping.fa.set_flow_style()
        return mapping
    if isinstance(value, (list, tuple)):
        sequence = CommentedSeq(_styled(item) for item in value)
        if is_inline(value):
            sequence.fa.set_flow_style()
        return sequence
    return _quoted(value) if isinstance(value, str) else value


def _quoted(text: str) -> str:
    # The library leaves `? a` bare in brackets, where it is a key; so we decide by the first
    # character, which covers every indicator of YAML.
    is_indicated = text[:1] in _INDICATORS
    needs_quotes = is_indicated or is_other_than_text(text) or not text.isprintable()
    return DoubleQuotedScalarString(text) if needs_quotes else text


def is_other_than_text(text: str) -> bool:
    """Whether this text, without quotes, is something else to some reader of YAML."""
    try:
        is_text = isinstance(resolve(text), str)
    except ValueError:
        is_text = False
    return not is_text or is_ambiguous(text) or _LOOKALIKE.fullmatch(text) is not None
