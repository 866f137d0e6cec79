"""Reading what a client library made of a server's reply, as the door to it tells.

The body of such an exchange is a JSON object: ``client`` names the library and its release, and
``result`` is what it understood, or ``error`` what it raised. The check of the client uses this;
it is pure and total.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from stoker.contract.apis import Object, read_items, read_object, read_text_at
from stoker.contract.judgement import Judgement, failed, quote
from stoker.contract.reply import find_reply_flaw
from stoker.model.contract import Exchange
from stoker.model.facts import Plain, read_path

#: What the library raises for an answer that the token limit ended; the model's matter.
_LENGTH = "LengthFinishReasonError"
#: Raised for a status that is an error, whichever.
_STATUS = "APIStatusError"
_TIMEOUT = "APITimeoutError"

#: Fields that programs rely on, as they begin. What else a reply holds may be of any type.
_RELIED_ON = (
    *("id", "object", "created", "model", "usage", "choices"),
    *("choices.*.index", "choices.*.finish_reason", "choices.*.message", "choices.*.delta"),
)

_STATUS_SYMPTOMS = {401: "key_refused", 403: "key_refused", 429: "rate_limited"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientAnswer:
    """One call. ``error`` is empty where the library understood the reply."""

    call: str
    client: str = ""
    result: Object = field(default_factory=dict)
    error: Object = field(default_factory=dict)

    @property
    def kinds(self) -> Sequence[str]:
        """The class of the error and those above it."""
        above = self.error.get("kinds")
        names = [self.error.get("type"), *(above if isinstance(above, list) else ())]
        return [name for name in names if isinstance(name, str)]

    @property
    def message(self) -> str:
        """The library's own words."""
        return read_text_at(self.error, "message")

    @property
    def status(self) -> int:
        """The status that the server refused with, 0 where it did not."""
        status = self.error.get("status")
        return status if isinstance(status, int) and _STATUS in self.kinds else 0

    @property
    def was_cut(self) -> bool:
        """Whether the token limit ended the answer."""
        return _LENGTH in self.kinds or self.result.get("finish_reason") == "length"


def read_answer(exchange: Exchange) -> ClientAnswer:
    """What the library said."""
    body = read_object(exchange)
    result, error = body.get("result"), body.get("error")
    is_known = isinstance(result, dict) or isinstance(error, dict)
    return ClientAnswer(
        call=name_call(exchange),
        client=read_text_at(body, "client"),
        result=result if isinstance(result, dict) else {},
        error=error if isinstance(error, dict) else {} if is_known else {"type": "no answer"},
    )


def name_call(exchange: Exchange) -> str:
    """The call as a person reads it."""
    request = exchange.request
    return f"{request.path} as a stream" if request.stream else request.path


def find_call_flaw(exchange: Exchange) -> Judgement | None:
    """Why the library could not read the reply, None if it could or the limit cut the answer."""
    answer = read_answer(exchange)
    expected = f"a reply that the openai library reads (the call {answer.call})"
    flaw = find_reply_flaw(exchange)
    if flaw:
        return (
            failed(expected, flaw.found, flaw.symptom, call=answer.call) if _is_bad(flaw) else flaw
        )
    if not answer.error or answer.was_cut:
        return _find_type_flaw(answer) if answer.result else None
    found = _describe_error(answer)
    if _TIMEOUT in answer.kinds:
        return failed(expected, found, "timeout", call=answer.call)
    symptom = "client_cannot_read"
    if answer.status:
        symptom = _STATUS_SYMPTOMS.get(answer.status, "client_refused")
    return failed(expected, found, symptom, call=answer.call, error=answer.error.get("type"))


def _describe_error(answer: ClientAnswer) -> str:
    """What the library raised; where it says nothing, at which call."""
    kind = answer.error.get("type")
    if answer.message:
        return f"{kind}: {quote(answer.message)}"
    return f"{kind} without a message from the call {answer.call}"


def _is_bad(flaw: Judgement) -> bool:
    return flaw.verdict == "failed"


def _find_type_flaw(answer: ClientAnswer) -> Judgement | None:
    """The library takes a field of a wrong type as it is; the program breaks that uses it."""
    for row in read_items(answer.result, "flaws"):
        where = read_text_at(row, "where")
        if _is_relied_on(where):
            expected = f"fields of the type that clients expect (the call {answer.call})"
            found = f"{quote(where)}: {quote(row.get('what'))}"
            return failed(expected, found, "client_wrong_type", call=answer.call, field=where)
    return None


def _is_relied_on(where: str) -> bool:
    parts = ["*" if part.isdigit() else part for part in where.split(".")]
    return any(".".join(parts).startswith(f"{each}.") for each in _NESTED) or (
        ".".join(parts) in _RELIED_ON
    )


_NESTED = ("usage", "choices.*.message.tool_calls", "choices.*.delta.tool_calls")


def find_refusal_flaw(exchange: Exchange) -> Judgement | None:
    """Why a refusal is none that a program can tell its user, None if it is one.

    A server that answers what should be refused is merely lenient.
    """
    answer = read_answer(exchange)
    if exchange.error or not answer.error:
        return None if not exchange.error else find_call_flaw(exchange)
    expected = "a BadRequestError with the server's own words for a wrong request"
    found = f"{answer.error.get('type')}: {quote(answer.message)}"
    if not 400 <= answer.status < 500:
        symptom = "timeout" if _TIMEOUT in answer.kinds else "client_wrong_error"
        return failed(expected, found, symptom, status=answer.status)
    body = answer.error.get("body")
    if isinstance(body, dict) and any(_holds_words(body.get(name)) for name in _WORDS):
        return None
    return failed(expected, found, "client_error_unreadable", status=answer.status)


_WORDS = ("message", "detail", "error", "msg")


def _holds_words(value: Plain) -> bool:
    if isinstance(value, list):
        return any(map(_holds_words, value))
    if isinstance(value, Mapping):
        return any(_holds_words(value.get(name)) for name in _WORDS)
    return isinstance(value, str) and bool(value.strip())


def read_count(data: Plain, path: str) -> int | None:
    """A whole number at a path, None where there is none."""
    found: Plain = read_path(data, path)
    return found if isinstance(found, int) and not isinstance(found, bool) else None
