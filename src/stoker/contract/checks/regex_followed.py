"""Promise: an answer that must match a regular expression matches it whole.

The OpenAI interface has no field for it; an engine that offers it has one of its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import reduce

from stoker.contract.judgement import Judgement, failed, passed, quote, skipped
from stoker.contract.procedure import Steps, judge_of, plan_of
from stoker.contract.structured import Formed, answer_formed, ask_formed, find_silence
from stoker.model.contract import Feature, Subject
from stoker.model.facts import Plain
from stoker.ports import Check

#: No model would say this by itself. Every engine's dialect has all that stands in it.
_PATTERN = r"[a-f]{3}-[0-9]{4}"
_TEXT = "Write a part number: three letters from a to f, a dash and four digits."
_MAX_TOKENS = 32
_EXPECTED = f"an answer that matches {_PATTERN} whole"


def _try(subject: Subject) -> Steps[Judgement]:
    path = subject.manners.regex_path
    if not path:
        found = f"no field for it is known of {subject.manners.title}"
        return skipped("a server that offers regular expressions", found)
    request = ask_formed(subject, _TEXT, _nest(path), max_tokens=_MAX_TOKENS)
    formed = yield from answer_formed(subject, request, Feature.REGEX)
    if isinstance(formed, Judgement):
        return formed
    return find_silence(formed) or _judge(formed, path)


def _nest(path: str) -> Mapping[str, Plain]:
    """The field of a body that a dotted path names."""
    *outer, last = path.split(".")
    innermost: dict[str, Plain] = {last: _PATTERN}
    return reduce(lambda inner, name: {name: inner}, reversed(outer), innermost)


def _judge(formed: Formed, path: str) -> Judgement:
    if re.fullmatch(_PATTERN, formed.content):
        return passed(_EXPECTED, quote(formed.content))
    if formed.was_cut and _is_beginning(formed.content):
        return passed(_EXPECTED, f"its beginning, up to the token limit: {quote(formed.content)}")
    return failed(_EXPECTED, f"{quote(formed.content)} with the field {path}", "regex_ignored")


def _is_beginning(content: str) -> bool:
    """Whether some rest would make it match."""
    return re.fullmatch(_PATTERN, content + "aaa-0000"[len(content) :]) is not None


CHECK = Check(
    id="regex_followed",
    title="An answer follows a regular expression",
    level="full",
    plan=plan_of(_try),
    judge=judge_of(_try),
    needs=(Feature.REGEX,),
)
