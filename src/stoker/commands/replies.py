"""A reply that somebody saved, as what it shows: symptoms in the words of the contract.

Called by `stoker diagnose --reply`. It takes what people save: the JSON of a chat or text answer,
the events of a stream, the other two interfaces, what `curl -i` printed, or the bare answer. The
judges are those of the contract; only the reading is done here. Pure, and total for any bytes.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from stoker.contract.completion import Answer, has_text, join_answer, read_answer, read_chunks
from stoker.contract.judgement import quote
from stoker.contract.left_marks import find_mark_flaw
from stoker.contract.nonsense import find_nonsense, is_nan_note
from stoker.contract.reply import find_message, parse_json
from stoker.diagnosis.inputs import LogLine, Symptom
from stoker.diagnosis.prefixes import replace_halves
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
#: More replies in one file than anybody saves; a hundred thousand take seconds to read.
_MOST_BODIES = 10_000
_MOST_PAGE_LINES = 1000
#: A page, as proxies send one in the place of a reply: its words are no model's.
_PAGE = re.compile(r"(?:<!doctype html|<html)[\s>]", re.IGNORECASE)
_HIDDEN = re.compile(r"<(script|style)\b.*?(?:</\1\s*>|\Z)", re.IGNORECASE | re.DOTALL)
_TAG = re.compile(r"<[^<>]{0,2000}>")
_HEADERS = re.compile(r"HTTP/[\d.]{1,3} \d{3}.*?\r?\n\r?\n", re.DOTALL)


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
        errors = tuple(_list_page(raw, origin))
    if not answers and not errors and raw.startswith(("{", "[")):
        # Half of a document is no model's answer, whatever stands in it.
        broken = "Error: this reply is JSON that is cut short or broken"
        errors = (LogLine(number=1, text=broken, origin=origin),)
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
    likely = (line for line in lines if line.startswith("{") and line.endswith("}"))
    objects = [parse_json(line) for line in islice(likely, _MOST_BODIES)]
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
        for text in _find_words(body).splitlines():
            number += 1
            yield LogLine(number=number, text=replace_halves(text), origin=origin)


def _find_words(body: Plain) -> str:
    try:
        return find_message(json.dumps(body))
    except RecursionError:  # It could just be read, and is too deep to be written.
        return ""


def _list_page(raw: str, origin: str) -> Iterator[LogLine]:
    """The words of a page of HTML, line by line; nothing for any other text."""
    headers = _HEADERS.match(raw)
    text = raw[headers.end() if headers else 0 :].lstrip()
    if not _PAGE.match(text):
        return
    words = html.unescape(_TAG.sub("\n", _HIDDEN.sub("\n", text)))
    told = (line.strip() for line in words.splitlines())
    for number, line in enumerate(islice(filter(None, told), _MOST_PAGE_LINES), start=1):
        yield LogLine(number=number, text=line, origin=origin)
