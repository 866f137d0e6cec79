"""How the fake engine is set up, and what its model knows: frozen values, read from tables.

:mod:`stoker.fake_engine.core` runs a script. The tables lie in ``scripts/*.toml`` and are read in
the order of their names; the first rule that fits wins.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from stoker.errors import DataError

SGLANG = "sglang"
VLLM = "vllm"
LLAMACPP = "llamacpp"
MANNERS = (SGLANG, VLLM, LLAMACPP)

TOOLS = "tools"
REASONING = "reasoning"
VISION = "vision"
SPECULATION = "speculation"
STRUCTURE = "structure"
CACHE_REPORT = "cache_report"
#: What an engine with an ordinary chat model offers.
USUAL_FEATURES = frozenset({TOOLS, STRUCTURE, CACHE_REPORT})
ALL_FEATURES = USUAL_FEATURES | {REASONING, VISION, SPECULATION}

#: How many tokens share a place in the cache.
_BLOCK_TOKENS = {SGLANG: 1, VLLM: 16, LLAMACPP: 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One thing that the model knows.

    ``pattern`` is looked for in the last user message, without regard to case. ``replies`` are
    wordings of the answer; without temperature it is the first. ``{1}`` stands for the first group
    of the pattern. With ``told``, a pattern too, the answer is known only where the conversation
    says it, and ``{told}`` is its group. ``does`` names what has to be computed: ``echo``,
    ``count``, ``compute``, ``ramble`` (see :mod:`stoker.fake_engine.wit`).
    """

    pattern: re.Pattern[str]
    replies: tuple[str, ...] = ()
    told: str = ""
    does: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """What a system prompt may ask of every answer; ``place``: instead, before or after."""

    pattern: re.Pattern[str]
    place: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentRule:
    """Where the value of an argument stands in a text.

    ``key`` fits the names of the arguments that it is for. The first group of ``pattern`` is the
    value; with named groups, each match is an object of them.
    """

    key: re.Pattern[str]
    pattern: re.Pattern[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wits:
    """All that the model knows: the tables of the scripts."""

    rules: tuple[Rule, ...] = ()
    instructions: tuple[Instruction, ...] = ()
    arguments: tuple[ArgumentRule, ...] = ()
    sentences: tuple[str, ...] = ()


@cache
def load_wits() -> Wits:
    """What all tables of the package know. Raises DataError for one that cannot be used."""
    folder = files("stoker.fake_engine").joinpath("scripts")
    tables = sorted(each.name for each in folder.iterdir() if each.name.endswith(".toml"))
    found = Wits()
    for name in tables:
        found = add_wits(found, parse_wits(folder.joinpath(name).read_text("utf-8"), where=name))
    return found


def read_wits(path: Path) -> Wits:
    """A table of one's own in front of the package's. Raises DataError."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read: {error}") from None
    return add_wits(parse_wits(text, where=str(path)), load_wits())


def add_wits(first: Wits, second: Wits) -> Wits:
    """Both; where both fit, the first wins."""
    return Wits(
        rules=first.rules + second.rules,
        instructions=first.instructions + second.instructions,
        arguments=first.arguments + second.arguments,
        sentences=first.sentences + second.sentences,
    )


def parse_wits(text: str, *, where: str) -> Wits:
    """A table from its TOML form. Raises DataError with the reason."""
    try:
        data = tomllib.loads(text)
        return Wits(
            rules=tuple(_parse_rule(row) for row in data.get("rules", ())),
            instructions=tuple(
                Instruction(pattern=_compile(row["pattern"]), place=str(row["place"]))
                for row in data.get("instructions", ())
            ),
            arguments=tuple(
                ArgumentRule(key=_compile(row["key"]), pattern=re.compile(row["pattern"]))
                for row in data.get("arguments", ())
            ),
            sentences=tuple(data.get("sentences", ())),
        )
    except (tomllib.TOMLDecodeError, re.error, KeyError, TypeError) as error:
        raise DataError(f"{where} is no table of a fake model: {error!r}") from None


def _parse_rule(row: Mapping[str, Any]) -> Rule:
    replies = row.get("replies", (row["reply"],) if "reply" in row else ())
    return Rule(
        pattern=_compile(row["pattern"]),
        replies=tuple(replies),
        told=str(row.get("told", "")),
        does=str(row.get("does", "")),
    )


def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """``kv_tokens`` and ``host_tokens``: what the caches on the device and in host memory hold.

    ``block_tokens`` 0: as the engine has it.
    """

    context_tokens: int = 2048
    parallel_requests: int = 4
    kv_tokens: int = 1 << 20
    host_tokens: int = 0
    block_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """When tokens come. ``is_cancelling``: a client that goes away ends its request."""

    first_token_seconds: float = 0.0
    seconds_per_token: float = 0.0
    seconds_per_prompt_token: float = 0.0
    is_cancelling: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """How a stream is cut, by chance that ``seed`` decides; the defaults are the plainest way.

    Up to so many tokens go into a chunk, an event into so many writes; ``comment_rate`` is how
    often a comment stands before an event; ``pause_seconds`` the longest pause between writes.
    """

    seed: int = 0
    most_tokens_per_chunk: int = 1
    most_writes_per_event: int = 1
    comment_rate: float = 0.0
    pause_seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixed:
    """What the model says to everything, where it is not to think for itself; empty: it does.

    ``prompt_tokens`` 0: as many as the prompt has. ``extra`` goes into the choice that ends.
    """

    text: str | None = None
    reasoning: str = ""
    finish_reason: str = ""
    prompt_tokens: int = 0
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A fake engine before it starts. ``names``: what the model is called, the first one first.

    ``root`` is where the model lies, as the engine tells it.
    """

    names: tuple[str, ...] = ("smollm2",)
    manners: str = LLAMACPP
    limits: Limits = field(default_factory=Limits)
    features: frozenset[str] = USUAL_FEATURES
    api_key: str = ""
    timing: Timing = field(default_factory=Timing)
    delivery: Delivery = field(default_factory=Delivery)
    fixed: Fixed = field(default_factory=Fixed)
    wits: Wits = field(default_factory=load_wits)
    seed: int = 0
    root: str = "/models/smollm2.gguf"

    @property
    def name(self) -> str:
        """The model's first name."""
        return self.names[0] if self.names else ""

    @property
    def block_tokens(self) -> int:
        """How many tokens share a place in the cache."""
        return self.limits.block_tokens or _BLOCK_TOKENS[self.manners]

    def has(self, feature: str) -> bool:
        """Whether a feature is on."""
        return feature in self.features

    def saying(self, text: str, *, reasoning: str = "", **more: Any) -> Script:
        """The same, with a model that says this to everything."""
        return replace(self, fixed=Fixed(text=text, reasoning=reasoning, **more))
