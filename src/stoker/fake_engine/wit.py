"""What the scripted model answers: rules over the conversation, and a little arithmetic.

Pure. Chance decides among wordings; without it (no temperature) the first is taken.
:mod:`stoker.fake_engine.model` makes tokens of it and knows of tools, shapes and limits.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from random import Random

from stoker.fake_engine.pictures import read_picture
from stoker.fake_engine.script import Rule, Wits
from stoker.fake_engine.values import Turn

_WORDS = {"one": 1, "ten": 10, "twenty": 20}
_MOST_COUNTED = 2000
#: What is asked stands at either end of a long text. Rules look no further than so many characters,
#: or some of them would take the square of a text's length.
_END_CHARACTERS = 2000
_JUST = re.compile(r"\b(?:just|only|nothing else|one word|single word|exactly)\b", re.IGNORECASE)
_NUMBER_WORDINGS = ("{left} {sign} {right} = {value}.", "The answer is {value}.", "It is {value}.")
_LARGER = ("larger", "bigger", "greater")
_SIGNS = {
    "plus": "+",
    "minus": "-",
    "times": "*",
    "x": "*",
    "\u00d7": "*",
    "multiplied by": "*",
    "divided by": "/",
}
_RAMBLE_SENTENCES = 24
_TOOL_WORDINGS = ("The tool says: {text}", "According to the tool: {text}")
_IGNORANT = "I do not know much about that, but I can tell you this. {sentence}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mind:
    """What the model knows, and the chance that decides among wordings."""

    wits: Wits
    chance: Random | None = None


def answer(turns: Sequence[Turn], mind: Mind) -> str:
    """What the model says to the conversation, as it was asked to say it."""
    system = "\n".join(turn.text for turn in turns if turn.role in ("system", "developer"))
    orders = [
        (instruction.place, match.group("text"))
        for instruction in mind.wits.instructions
        if (match := instruction.pattern.search(system))
    ]
    instead = next((text for place, text in orders if place == "instead"), "")
    # "End every answer with the word X" has the words of "answer with the word X" in it.
    if instead and len(orders) == 1:
        return instead
    text = _answer_plainly(turns, mind)
    before = "".join(f"{word} " for place, word in orders if place == "before")
    after = "".join(f" {word}" for place, word in orders if place == "after")
    return f"{before}{text}{after}"


def _answer_plainly(turns: Sequence[Turn], mind: Mind) -> str:
    last = turns[-1] if turns else Turn(role="user")
    if last.role == "tool":
        results = [turn.text for turn in turns if turn.role == "tool"]
        return _choose(_TOOL_WORDINGS, mind.chance).format(text=_plain(results))
    asked = next((turn for turn in reversed(turns) if turn.role == "user"), last)
    if asked.images:
        return _see(asked.images)
    for rule in mind.wits.rules:
        if (found := _apply(rule, asked.text, turns, mind)) is not None:
            return found
    return _IGNORANT.format(sentence=next(ramble(mind)))


def _plain(results: Sequence[str]) -> str:
    """The results of tools in words: the values of JSON, everything else as it is."""
    return "; ".join(_read_aloud(result) for result in results)


def _read_aloud(result: str) -> str:
    try:
        data = json.loads(result)
    except ValueError:
        return result
    if not isinstance(data, dict):
        return result
    parts = [
        f"{key} is {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for key, value in data.items()
    ]
    return ", ".join(parts) + "."


def _see(images: Sequence[str]) -> str:
    pictures = [read_picture(url) for url in images]
    names = [picture.colour_name if picture else "something" for picture in pictures]
    return f"The picture is {names[0]}." if len(names) == 1 else f"I see {', '.join(names)}."


def _apply(rule: Rule, text: str, turns: Sequence[Turn], mind: Mind) -> str | None:
    match = _find(rule.pattern, text)
    if match is None:
        return None
    groups = {name: value or "" for name, value in match.groupdict().items()}
    if rule.does:
        return _DOINGS[rule.does](groups, text, mind)
    if rule.told:
        told = _recall(rule.told, groups, turns)
        if told is None:
            return None
        groups["told"] = told
    numbered = {str(place): value or "" for place, value in enumerate(match.groups(), 1)}
    wording = _choose(rule.replies, None if _JUST.search(text) else mind.chance)
    return re.sub(r"\{(\w+)\}", lambda name: {**numbered, **groups}.get(name[1], name[0]), wording)


def _find(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    """Where a rule fits; it may reach to the end of a long text, but must begin near an end."""
    if len(text) <= 2 * _END_CHARACTERS:
        return pattern.search(text)
    # What begins there may end later: the whole of it is matched again.
    begin = pattern.search(text, 0, _END_CHARACTERS)
    whole = pattern.match(text, begin.start()) if begin else None
    return whole or pattern.search(text, len(text) - _END_CHARACTERS)


def _recall(told: str, groups: dict[str, str], turns: Sequence[Turn]) -> str | None:
    """What the conversation said last, None where it did not."""
    pattern = re.sub(r"\{(\w+)\}", lambda name: re.escape(groups[name[1]]), told)
    said = [turn.text for turn in turns if turn.role != "assistant"]
    found = re.findall(pattern, "\n".join(said), re.IGNORECASE)
    return found[-1] if found else None


def _choose(wordings: Sequence[str], chance: Random | None) -> str:
    return chance.choice(wordings) if chance else wordings[0]


def _echo(groups: dict[str, str], text: str, mind: Mind) -> str:
    wanted = groups.get("text") or groups.get("single") or ""
    bare = wanted.strip()
    quoted = re.fullmatch(r'"(.+)"|\'(.+)\'', bare, re.DOTALL)
    return (quoted[1] or quoted[2]) if quoted else bare


def _count(groups: dict[str, str], text: str, mind: Mind) -> str:
    first, last = _number(groups.get("first") or "1"), _number(groups["last"])
    numbers = [str(each) for each in range(first, min(last, first + _MOST_COUNTED) + 1)]
    if re.search(r"\bcomma", text, re.IGNORECASE):
        return ", ".join(numbers)
    return ("\n" if re.search(r"\blines?\b", text, re.IGNORECASE) else " ").join(numbers)


def _number(word: str) -> int:
    return _WORDS.get(word.lower()) or int(word)


def _compute(groups: dict[str, str], text: str, mind: Mind) -> str:
    left, right = float(groups["left"]), float(groups["right"])
    sign = groups["sign"].lower()
    if sign in (*_LARGER, "smaller"):
        is_left = (left >= right) == (sign in _LARGER)
        return groups["left"] if is_left else groups["right"]
    sign = _SIGNS.get(sign, sign)
    value = _result(left, sign, right)
    if _JUST.search(text):
        return value
    wording = _choose(_NUMBER_WORDINGS, mind.chance)
    return wording.format(left=groups["left"], sign=sign, right=groups["right"], value=value)


def _result(left: float, sign: str, right: float) -> str:
    if sign == "/" and not right:
        return "undefined"
    value = {"+": left + right, "-": left - right, "*": left * right}.get(sign)
    value = left / right if value is None else value
    return f"{value:.10g}" if value.is_integer() and abs(value) < 1e10 else f"{round(value, 6):g}"


def _ramble_for_long(groups: dict[str, str], text: str, mind: Mind) -> str:
    sentences = ramble(mind)
    return " ".join(next(sentences) for _ in range(_RAMBLE_SENTENCES))


_DOINGS = {
    "echo": _echo,
    "count": _count,
    "compute": _compute,
    "ramble": _ramble_for_long,
}


def ramble(mind: Mind) -> Iterator[str]:
    """Sentences without end, in another order each time round where there is temperature."""
    sentences = list(mind.wits.sentences) or ["There is nothing to say."]
    while mind.chance is not None:
        mind.chance.shuffle(sentences)
        yield from sentences
    yield from cycle(sentences)
