"""Promise: what is no request at all is refused with an error that clients can read.

Proxies cut bodies and scripts forget to encode them. Such a body must not be a server error, must
not end the connection, and must not harm the server. The answer is to be HTTP 4xx.
"""

from __future__ import annotations

import json

from stoker.contract.aftermath import find_aftermath
from stoker.contract.errors import find_refusal_flaw
from stoker.contract.judgement import Judgement, passed, quote
from stoker.contract.procedure import Steps, ask_one, judge_of, plan_of
from stoker.contract.reply import find_message
from stoker.model.contract import Request, Subject
from stoker.ports import Check

_PATH = "/v1/chat/completions"

#: The last one is JSON, but no request: an engine may be known to trip over it.
_LIST = "a JSON array"


def _bodies(model: str) -> dict[str, str]:
    return {
        "broken JSON": f'{{"model": {json.dumps(model)}, "messages": [{{"role": "user", ',
        "an empty body": "",
        "words that are no JSON": "What is 2+2?",
        _LIST: "[1, 2]",
    }


def _try(subject: Subject) -> Steps[Judgement]:
    messages: list[str] = []
    notes: list[str] = []
    for name, body in _bodies(subject.published_name).items():
        exchange = yield from ask_one(Request(method="POST", path=_PATH, text=body))
        flaw = find_refusal_flaw(exchange, name)
        if flaw and flaw.symptom == "server_error" and name in subject.manners.stumbles_on:
            notes.append(f"; {name} is a server error ({exchange.status}), as is known of it")
        elif flaw:
            return flaw
        else:
            messages.append(find_message(exchange.body))
    flaw = yield from find_aftermath(subject, "malformed requests")
    told = f"{len(messages)} refusals, the first: {quote(messages[0] if messages else '')}"
    return flaw or passed("malformed requests to be refused readably", told + "".join(notes))


CHECK = Check(
    id="errors_malformed",
    title="Malformed requests are refused readably",
    level="full",
    plan=plan_of(_try),
    judge=judge_of(_try),
)
