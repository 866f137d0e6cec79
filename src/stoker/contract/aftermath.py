"""Whether a server still answers after it was asked something wrong or heavy.

A part of procedures: one small question, asked anew. The words of the answer are not judged.
"""

from __future__ import annotations

from dataclasses import replace

from stoker.contract.completion import ask, find_shape_flaw
from stoker.contract.judgement import Judgement, failed
from stoker.contract.procedure import Steps, ask_one
from stoker.contract.reply import find_reply_flaw, parse_json
from stoker.model.contract import Subject, Verdict


def find_aftermath(subject: Subject, asked: str) -> Steps[Judgement | None]:
    """Why a small question is not answered after ``asked`` (``broken JSON``), None if it is."""
    request = replace(ask(subject.published_name, max_tokens=4), is_new=True)
    exchange = yield from ask_one(request)
    flaw = find_reply_flaw(exchange) or find_shape_flaw(
        parse_json(exchange.body), "chat.completion"
    )
    if flaw is None or flaw.verdict is not Verdict.FAILED or exchange.status in (401, 403, 429):
        return flaw
    expected = f"an answer to a small question after {asked}"
    return failed(expected, flaw.found, "dead_afterwards", after=asked)
