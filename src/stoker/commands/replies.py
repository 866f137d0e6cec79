"""A reply that somebody saved, as what it shows: symptoms in the words of the contract.

Called by `stoker diagnose --reply`. It takes what people save: the JSON of a chat or text answer,
the events of a stream, the other two interfaces, what `curl -i` printed, or the bare answer. The
judges are those of the contract; only the reading is done here. Pure, and total for any bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from stoker.contract.completion import Answer, has_text, join_answer, read_answer, read_chunks
from stoker.contract.judgement import quote
from stoker.contract.left_marks import find_mark_flaw
from stoker.contract.nonsense import find_nonsense, is_nan_note
from stoker.contract.reply import find_message, parse_json
from stoker.diagnosis.inputs import LogLine, Symptom
from stoker.model.contract import Subject
from stoker.model.diagnosis import Evidence
from stoker.model.facts import Plain, Unknown, read_path

#: An answer of more is read from its beginning.
LIMIT_BYTES = 4 << 20
_EVENT = re.compile(r"^data:[ \t]?(?P<data>.*)$", re.MULTILINE)
#: Where other interfaces have the text: OpenAI's text completions, Anthropic's messages, OpenAI's
#: responses, llama.cpp's own, Ollama's.
_TEXT_PATHS = (
    "choices.0.text",
    "content.0.text",
    "output.0.content.0.text",
    "output.1.content.0.text",
    "content",
    "message.content",
    "response",
)
_CUT_REASONS = ("length", "max_tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadReply:
    """What a reply shows. ``lines``: the words of an error, to be looked at like those of a log."""

    symptoms: tuple[Symptom, ...] = ()
    lines: tuple[LogLine, ...] = ()
    text: str = ""


def read_reply(content: bytes, origin: str) -> ReadReply:
    """The symptoms of a saved reply, the gravest first."""
    raw = content[:LIMIT_BYTES].decode("utf-8", "replace").strip("\ufeff\r\n\t ")
    bodies = list(_list_bodies(raw))
    found_answers = (_read_body(body) for body in bodies if not isinstance(body, Unknown))
    answers = [answer for answer in found_answers if answer is not None]
    if events := [found["data"] for found in _EVENT.finditer(raw)]:
        chunks = [each for each in read_chunks(events) if not isinstance(each, Unknown)]
        answers.append(join_answer(chunks))
    errors = tuple(_list_errors(bodies, origin))
    if not answers and not errors:
        answers.append(Answer(content=raw))
    found: dict[str, Symptom] = {}
    for answer in answers:
        for symptom, why in _judge(answer):
            evidence = Evidence(origin=origin, line_number=0, text=f"{why}: {quote(answer.text)}")
            found.setdefault(symptom, Symptom(symptom=symptom, evidence=evidence))
    text = next((answer.text for answer in answers if answer.text), "")
    return ReadReply(symptoms=tuple(found.values()), lines=errors, text=text)


def _list_bodies(raw: str) -> Iterator[Plain | Unknown]:
    """The JSON in a text: all of it, each line that is some, or what stands behind headers."""
    whole = parse_json(raw)
    if not isinstance(whole, Unknown):
        yield whole
        return
    lines = [line.strip() for line in raw.splitlines()]
    objects = [parse_json(line) for line in lines if line.startswith("{") and line.endswith("}")]
    if any(isinstance(each, dict) for each in objects):
        yield from objects
        return
    begin, end = raw.find("{"), raw.rfind("}")
    if 0 <= begin < end and "data:" not in raw[:begin]:
        yield parse_json(raw[begin : end + 1])


def _read_body(body: Plain) -> Answer | None:
    if isinstance(body, str):
        return Answer(content=body)
    if not isinstance(body, dict):
        return None
    answer = read_answer(body)
    if answer.content is not None or answer.reasoning is not None:
        return answer
    for path in _TEXT_PATHS:
        text = read_path(body, path)
        if isinstance(text, str):
            reason = read_path(body, "stop_reason")
            return Answer(
                content=text,
                finish_reason=answer.finish_reason or (reason if isinstance(reason, str) else None),
                stop_note=answer.stop_note,
            )
    return answer if "choices" in body else None


def _judge(answer: Answer) -> Iterator[tuple[str, str]]:
    """The symptoms of one answer, each with why, in half a sentence."""
    if is_nan_note(answer.stop_note):
        yield "nan", f"the engine says why the text ended: {quote(answer.stop_note)}"
    for text in (answer.content, answer.reasoning):
        if not isinstance(text, str):
            continue
        nonsense = find_nonsense(text, was_cut=answer.finish_reason in _CUT_REASONS)
        if nonsense is not None:
            yield nonsense.kind.value, nonsense.found
    flaw = find_mark_flaw(Subject(published_name=""), answer)
    if flaw is not None and flaw.symptom:
        yield flaw.symptom, flaw.found
    if not has_text(answer.content) and answer.finish_reason == "stop":
        symptom = "empty_answer" if has_text(answer.reasoning) else "no_text"
        yield symptom, "an answer without a word of content"


def _list_errors(bodies: Sequence[Plain | Unknown], origin: str) -> Iterator[LogLine]:
    number = 0
    for body in bodies:
        if not isinstance(body, dict) or "choices" in body:
            continue
        if not any(key in body for key in ("error", "detail", "message")) or "role" in body:
            continue
        for text in find_message(json.dumps(body)).splitlines():
            number += 1
            yield LogLine(number=number, text=text, origin=origin)
