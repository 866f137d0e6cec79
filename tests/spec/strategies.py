"""Hypothesis strategies for deployments and for the texts that people write them as.

Other tests may import ``deployments``; everything it gives is valid.
"""

from __future__ import annotations

import json
import re
import textwrap
from typing import Any, get_args

from hypothesis import strategies as st

from stoker.model.deployment import (
    Api,
    Contract,
    Deployment,
    Engine,
    Goal,
    ModelReference,
    Promise,
    Serve,
    ServiceOptions,
    Tuned,
)
from stoker.model.deployment_fields import MODEL_PATTERN, NAME_PATTERN, is_secret_name
from stoker.spec.render import is_inline, render_inline, render_yaml

ENGINE_KINDS = ("llamacpp", "sglang", "vllm")

#: Text that looks like something else to some reader of YAML, or that needs quotes.
AWKWARD = (
    "",
    " ",
    "yes",
    "No",
    "on",
    "null",
    "~",
    "true",
    "010",
    "1_000",
    "0x1F",
    "0b1",
    "1e3",
    ".5e3",
    ".inf",
    "12:30",
    "2026-11-29",
    "<<",
    "=",
    "-",
    "- a",
    "? a",
    "a: b",
    "a:",
    "a #b",
    "#a",
    "[a",
    "{a}",
    "a, b",
    "'a'",
    '"a"',
    "\\n",
    "&a",
    "*a",
    "!a",
    "|",
    ">",
    "%a",
    "@a",
    "`a`",
    "a\nb",
    "a\n",
    "\ta",
    "---",
    "...",
    "é😀",
)

characters = st.characters(exclude_categories=("C", "Zl", "Zp"), include_characters="\n\t")
texts = st.sampled_from(AWKWARD) | st.text(characters, max_size=12)
#: Blanks other than the ordinary one are no part of a key.
keys = st.sampled_from(AWKWARD) | st.text(
    st.characters(exclude_categories=("C", "Z"), include_characters=" \n\t"), max_size=12
)
finite_floats = st.floats(allow_nan=False, allow_infinity=False)
integers = st.integers(-(1 << 63), (1 << 64) - 1)
scalars = st.booleans() | integers | finite_floats | texts

setting_names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,15}", fullmatch=True).filter(
    lambda name: not is_secret_name(name)
)
environment_names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,15}", fullmatch=True).filter(
    lambda name: not is_secret_name(name)
)


def matching(pattern: str) -> st.SearchStrategy[str]:
    """Text of printable ASCII that a pattern of the model accepts."""
    printable = st.characters(min_codepoint=32, max_codepoint=126)
    return st.from_regex(pattern.removesuffix("$") + r"\Z", alphabet=printable)


def set_fields(part: type[Any], **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """A part with some of its fields set and the others left out."""
    return st.fixed_dictionaries({}, optional=fields).map(lambda values: part(**values))


references = st.builds(
    ModelReference, ref=matching(MODEL_PATTERN).filter(lambda ref: ".." not in ref)
) | st.builds(
    ModelReference,
    ref=matching(MODEL_PATTERN).filter(lambda ref: ".." not in ref),
    file=st.none()
    | st.text(characters, min_size=1, max_size=8).filter(
        lambda name: not name.startswith("/") and ".." not in name
    ),
)

tunings = st.builds(
    Tuned,
    evidence=st.text("abc123-", min_size=1, max_size=12),
    says=texts,
    settings=st.dictionaries(setting_names, scalars, max_size=2),
    env=st.dictionaries(environment_names, texts, max_size=2),
)

engines = st.builds(
    Engine,
    tuned=st.none() | tunings,
    kind=st.sampled_from(ENGINE_KINDS),
    environment=st.sampled_from(("embedded", "path:/opt/engine", "path:/opt/an engine: new")),
    settings=st.dictionaries(
        setting_names, scalars | st.lists(scalars, max_size=3) | st.none(), max_size=4
    ),
    env=st.dictionaries(
        environment_names.filter(lambda name: len(name) % 2 == 0), texts, max_size=3
    ),
    secret_env=st.dictionaries(
        environment_names.filter(lambda name: len(name) % 2),
        st.just("/etc/stoker/token"),
        max_size=2,
    ),
)

gpus = (
    st.sampled_from(("all", "none"))
    | st.integers(1, 16)
    | st.lists(st.integers(0, 15), min_size=1, max_size=4, unique=True)
    | st.lists(st.uuids().map(lambda uuid: f"GPU-{uuid}"), min_size=1, max_size=2, unique=True)
)

serves = set_fields(
    Serve,
    host=st.ip_addresses().map(str),
    port=st.integers(1, 65535),
    published_name=st.none() | matching(r"^[^\s,\x00]+$").map(lambda name: name[:200]),
    api_key_file=st.none() | st.just("/etc/stoker/api-key"),
    context_tokens=st.none() | st.integers(16, 1 << 20),
    parallel_requests=st.none() | st.integers(1, 4096),
)

contracts = set_fields(
    Contract,
    require=st.none() | st.lists(texts, min_size=1, max_size=3),
    promises=st.lists(st.sampled_from(get_args(Promise)), max_size=3, unique=True),
    apis=st.lists(st.sampled_from(get_args(Api)), max_size=3, unique=True),
    timeout_seconds=st.integers(1, 86400),
)

metrics = st.sampled_from(("ttft_p95_seconds", "output_tokens_per_second", "a metric: strange"))
goals = st.builds(Goal, metric=metrics, at_most=finite_floats) | st.builds(
    Goal, metric=metrics, at_least=finite_floats
)

services = set_fields(
    ServiceOptions,
    user=st.none() | st.just("stoker"),
    supervisor=st.sampled_from(("auto", "supervisord")),
    on_boot=st.booleans(),
    restart=st.sampled_from(("on-failure", "always", "never")),
    start_timeout_seconds=st.none() | st.integers(1, 86400),
    stall_timeout_seconds=st.none() | st.integers(1, 86400),
)

#: Text that may be written as a block below its key.
_LINES = re.compile(r"([^\s#][^\n\t]*\n)+")

#: Valid deployments of every shape.
deployments: st.SearchStrategy[Deployment] = st.fixed_dictionaries(
    {"name": matching(NAME_PATTERN), "model": references, "engine": engines},
    optional={
        "draft": st.none() | references,
        "gpus": gpus,
        "recipe": st.sampled_from(
            ("auto", "none", "auto+speculation", "vllm:org/name/default/h200/single_node_tp+a+b")
        ),
        "serve": serves,
        "contract": contracts,
        "goals": st.lists(goals, max_size=3),
        "service": services,
        "accept": st.lists(texts, max_size=3),
    },
).map(Deployment.model_validate)


@st.composite
def written(draw: st.DrawFn, value: Any, indent: int = 0) -> str:
    """A text that says a value, as a person may write it: styles, comments and blanks at will."""
    margin = " " * indent
    style = draw(st.integers(0, 7))
    if isinstance(value, str) and style == 0 and indent and _LINES.fullmatch(value):
        return "|\n" + textwrap.indent(value, margin)
    if isinstance(value, (list, dict)) and value and style == 1:
        return draw(_over_lines(value, margin + " "))
    if is_inline(value) or style == 2:
        return draw(_inline(value))
    if style == 3:
        return "\n" + textwrap.indent(textwrap.dedent(render_yaml(value)), margin)
    step = draw(st.integers(1, 4))
    lines: list[str] = []
    if isinstance(value, list):
        for item in value:
            lines += draw(_ornaments(indent, lines))
            lines.append(margin + "- " + draw(written(item, indent + 2)).lstrip("\n "))
        return "\n" + "".join(_ended(line) for line in lines)
    for key, inner in value.items():
        lines += draw(_ornaments(indent, lines))
        body = draw(written(inner, indent + step))
        lines.append(f"{margin}{draw(_keys(key))}:" + (body if body[:1] == "\n" else f" {body}"))
    lines += draw(_ornaments(indent, lines))
    return "\n" + "".join(_ended(line) for line in lines)


@st.composite
def _over_lines(draw: st.DrawFn, value: Any, margin: str) -> str:
    """Brackets with each item on a line of its own, and comments between."""
    items = [json.dumps(inner, ensure_ascii=draw(st.booleans())) for inner in value]
    if isinstance(value, dict):
        items = [f"{key}: {json.dumps(value[raw])}" for key, raw in zip(items, value, strict=True)]
    lines = []
    for item in items:
        lines += draw(st.lists(st.just(margin + "# inside"), max_size=1))
        lines.append(f"{margin}{item}{draw(st.sampled_from((',', ' ,', ', # behind')))}")
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return "\n".join((opening, *lines, margin + closing))


def _ended(line: str) -> str:
    return line if line.endswith("\n") else line + "\n"


def _keys(key: str) -> st.SearchStrategy[str]:
    return st.sampled_from((render_inline(key), json.dumps(key, ensure_ascii=False)))


@st.composite
def _inline(draw: st.DrawFn, value: Any) -> str:
    if isinstance(value, str) and draw(st.booleans()):
        return render_inline(value)
    is_json = not is_inline(value) or draw(st.booleans())
    text = json.dumps(value, ensure_ascii=False) if is_json else render_inline(value)
    return text + draw(st.sampled_from(("", "", " # behind", "   ")))


@st.composite
def _ornaments(draw: st.DrawFn, indent: int, above: list[str]) -> list[str]:
    """Blank lines and comments on lines of their own, mostly at the margin of what follows."""
    # Behind a text block, a comment that is indented more would be a part of it.
    margins = (indent, indent, 0) if "|\n" in "".join(above) else (indent, indent, 0, indent + 3)
    lines = []
    for _ in range(draw(st.integers(0, 2))):
        text = draw(st.sampled_from(("", "# about it", "#key: value", "# 'quoted, [odd")))
        lines.append(" " * draw(st.sampled_from(margins)) + text if text else "")
    return lines
