"""What an engine that runs answers when it is asked about itself.

Shared by the verbs that show it and by the contract, whose subject is made from it. Asks only what
any client may ask; what is no answer counts as none.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from stoker.engines.resolved import read_answer
from stoker.model.contract import Request
from stoker.model.engine_table import EngineTable
from stoker.model.facts import Plain
from stoker.model.resolved import ResolvedValue
from stoker.ports import Endpoint

ANSWER_SECONDS = 5.0


def ask_documents(endpoint: Endpoint, paths: Iterable[str]) -> dict[str, Plain]:
    """The JSON at each path; paths without an answer of status 200, or with no JSON, are left out.

    Once nobody takes a connection the rest is not asked.
    """
    found: dict[str, Plain] = {}
    for path in dict.fromkeys(paths):
        request = Request(method="GET", path=path, timeout_seconds=ANSWER_SECONDS)
        reply = endpoint.exchange(request)
        if reply.error_kind == "refused":
            break
        if reply.status == 200 and not reply.error:
            document = parse_plain(reply.body)
            found |= {} if document is None else {path: document}
    return found


def read_documents(
    documents: Mapping[str, Plain], table: EngineTable
) -> Mapping[str, Mapping[str, ResolvedValue]]:
    """What each answer tells, by our names."""
    return {path: read_answer(each, path, table) for path, each in documents.items()}


def parse_plain(text: str) -> Plain:
    """JSON-shaped data; None where the text is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
