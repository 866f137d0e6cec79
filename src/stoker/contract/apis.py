"""What the checks of the interfaces beside chat share: whether there is one, and small readers.

Pure and total. An interface that a server does not have is no broken promise unless somebody
promised it; one that answers and is wrong is broken.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from stoker.contract.completion import DONE
from stoker.contract.judgement import Judgement, failed, quote, skipped
from stoker.contract.nonsense import find_nonsense
from stoker.contract.reply import describe_status, find_message, parse_json
from stoker.model.contract import Exchange, Feature, Subject
from stoker.model.facts import Plain, Unknown, read_path

Object = Mapping[str, Plain]

#: Whoever answers so has no such interface, whatever else is said.
_NO_SUCH = (404, 405, 501)

#: How servers say that they do not offer something, with any status that is an error.
_REFUSAL = re.compile(
    r"not (?:been )?(?:supported|implemented|enabled|available|offered)|(?:does|do) not support"
    r"|unsupported|disabled|only supports?",
    re.IGNORECASE,
)


def find_absence(subject: Subject, feature: Feature, exchange: Exchange) -> Judgement | None:
    """That the server has no such interface, as a judgement; None where it seems to have one."""
    if not is_refusal(exchange):
        return None
    path = exchange.request.path
    if subject.promises(feature):
        reason = subject.offered(feature).reason
        expected = f"a server that offers {path}" + (f" ({reason})" if reason else "")
        return failed(expected, describe_status(exchange), "api_missing", path=path)
    return skipped(f"a server that offers {path}", describe_status(exchange))


def is_refusal(exchange: Exchange) -> bool:
    """Whether the server says that it does not offer what was asked for."""
    if exchange.error or exchange.status < 400 or exchange.status in (401, 403, 429):
        return False
    return exchange.status in _NO_SUCH or bool(_REFUSAL.search(find_message(exchange.body)))


def read_object(exchange: Exchange) -> Object:
    """The reply's JSON object, an empty one where it is none."""
    body = parse_json(exchange.body)
    return body if isinstance(body, dict) else {}


def read_items(data: Plain, path: str) -> Sequence[Object]:
    """The objects of a list, what is no object left out; none where there is no list."""
    found = read_path(data, path)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def read_text_at(data: Plain, path: str) -> str:
    """The text at a path, empty where there is none."""
    found = read_path(data, path)
    return found if isinstance(found, str) else ""


def is_count(value: Plain | Unknown) -> bool:
    """Whether it is a whole number of things."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def read_events(exchange: Exchange) -> tuple[Object, ...]:
    """The events of a stream that are objects, in order; a closing [DONE] is none."""
    found = (parse_json(event) for event in exchange.events if event != DONE)
    return tuple(event for event in found if isinstance(event, dict))


def find_stream_flaw(exchange: Exchange) -> Judgement | None:
    """Why this is no stream of typed events, None if it is one. [DONE] may stand at its end."""
    events = exchange.events[:-1] if exchange.events[-1:] == (DONE,) else exchange.events
    if not events:
        found = f"a plain reply: {quote(exchange.body)}" if exchange.body else "no event at all"
        return failed("a stream of events (text/event-stream)", found, "not_streamed")
    for number, event in enumerate(events, start=1):
        data = parse_json(event)
        if not isinstance(data, dict) or not isinstance(data.get("type"), str):
            found = data.reason if isinstance(data, Unknown) else quote(data)
            expected = "events that are JSON objects with a type"
            return failed(expected, f"event {number}: {found}", "broken_event")
    return None


def find_words_flaw(text: str, *, where: str, was_cut: bool) -> Judgement | None:
    """Why nobody could read this text, None if somebody could. An empty text is no flaw here."""
    nonsense = find_nonsense(text, was_cut=was_cut)
    if nonsense is None:
        return None
    found = f"{nonsense.found}: {quote(text)}"
    return failed(f"readable text in {where}", found, str(nonsense.kind))


def join_reasons(notes: Sequence[str]) -> str:
    """Sentences that stand behind what was found."""
    return "".join(f"; {note}" for note in notes if note)
