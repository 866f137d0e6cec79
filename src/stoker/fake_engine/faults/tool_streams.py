"""Broken promises of streamed calls: their pieces, and what is left beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

from stoker.fake_engine.changing import change_choices
from stoker.fake_engine.fault import Data, Fault, Moment
from stoker.fake_engine.values import Generated, say

_FULL = "full"
_CALLED = frozenset({"tools_called"})
_STREAMED = frozenset({"tools_streamed"})

Chunks = Callable[[list[Data], Moment], list[Data]]
#: A change of one piece of a call: the piece, and whether it is the first of its call.
Change = Callable[[Data, bool], object]


def _pieces(chunk: Data) -> Iterator[Data]:
    for choice in chunk.get("choices") or ():
        yield from (choice.get("delta") or {}).get("tool_calls") or ()


def _each_piece(change: Change) -> Chunks:
    def chunks(found: list[Data], moment: Moment) -> list[Data]:
        changed = deepcopy(found)
        begun: set[Any] = set()
        for chunk in changed:
            for piece in _pieces(chunk):
                place = piece.get("index")
                change(piece, place not in begun)
                begun.add(place)
        return changed

    return chunks


def _find_first(chunks: list[Data]) -> int | None:
    places = (place for place, chunk in enumerate(chunks) if any(_pieces(chunk)))
    return next(places, None)


def _before_calls(*words: str) -> Chunks:
    """Words as content before the first call."""

    def chunks(found: list[Data], moment: Moment) -> list[Data]:
        first = _find_first(found)
        if first is None:
            return found
        said = [change_choices(found[first], _saying(word)) for word in words]
        return [*found[:first], *said, *found[first:]]

    return chunks


def _saying(word: str) -> Callable[[Data], Data]:
    def change(choice: Data) -> Data:
        return {**choice, "delta": {"content": word}, "finish_reason": None}

    return change


def _set(field: str, value: Any) -> Change:
    def change(piece: Data, is_first: bool) -> None:  # noqa: FBT001
        piece[field] = value

    return change


def _move(piece: Data, is_first: bool) -> None:  # noqa: FBT001
    piece["index"] += 1


def _move_arguments(piece: Data, is_first: bool) -> None:  # noqa: FBT001
    if not is_first:
        piece["index"] += 1


def _lose_index(piece: Data, is_first: bool) -> None:  # noqa: FBT001
    del piece["index"]


def _lose_id(piece: Data, is_first: bool) -> None:  # noqa: FBT001
    piece.pop("id", None)


def _change_id(piece: Data, is_first: bool) -> None:  # noqa: FBT001
    if not is_first:
        piece["id"] = f"call_{id(piece)}"


def _repeat(field: str) -> Chunks:
    """The id or the name stands in every piece."""

    def chunks(found: list[Data], moment: Moment) -> list[Data]:
        known: dict[Any, Any] = {}

        def change(piece: Data, is_first: bool) -> None:  # noqa: FBT001
            holder = piece if field == "id" else piece["function"]
            place = piece.get("index")
            holder[field] = known.setdefault(place, holder.get(field))

        return _each_piece(change)(found, moment)

    return chunks


def _split_names(found: list[Data], moment: Moment) -> list[Data]:
    first = _find_first(found)
    if first is None:
        return found
    changed, tail = deepcopy(found), deepcopy(found[first])
    for piece in _pieces(changed[first]):
        piece["function"]["name"] = piece["function"]["name"][:4]
    for piece in _pieces(tail):
        piece["function"] = {"name": piece["function"]["name"][4:], "arguments": ""}
        piece.pop("id", None)
    return [*changed[: first + 1], tail, *changed[first + 1 :]]


def _objects(piece: Data, is_first: bool) -> None:  # noqa: FBT001
    if not is_first:
        piece["function"]["arguments"] = {"city": "Paris"}


def _lose_one(found: list[Data], moment: Moment) -> list[Data]:
    """One piece of the arguments never comes."""
    places = [place for place, chunk in enumerate(found) if any(_pieces(chunk))]
    if len(places) < 3:
        return found
    lost = places[len(places) // 2]
    return [*found[:lost], *found[lost + 1 :]]


def _lose_empty(found: list[Data], moment: Moment) -> list[Data]:
    """A call without arguments has no piece with its empty object."""
    return [
        chunk
        for chunk in found
        if not any((each.get("function") or {}).get("arguments") == "{}" for each in _pieces(chunk))
    ]


def _lose_calls(found: list[Data], moment: Moment) -> list[Data]:
    return [chunk for chunk in found if not any(_pieces(chunk))]


def _as_words(found: list[Data], moment: Moment) -> list[Data]:
    """The stream has the call as text, though the plain reply has it right."""
    first = _find_first(found)
    if first is None:
        return found
    name = next(_pieces(found[first]))["function"]["name"]
    said = f'<tool_call>\n{{"name": "{name}", "arguments": {{"city": "Paris"}}}}\n</tool_call>'
    rest = [chunk for chunk in found[first:] if not any(_pieces(chunk))]
    words = change_choices(found[first], _saying(said))
    ended = [change_choices(chunk, _end) for chunk in rest]
    return [*found[:first], words, *ended]


def _end(choice: Data) -> Data:
    reason = choice.get("finish_reason")
    return {**choice, "finish_reason": "stop" if reason == "tool_calls" else reason}


def _stop(found: list[Data], moment: Moment) -> list[Data]:
    if _find_first(found) is None:
        return found
    return [change_choices(chunk, _end) for chunk in found]


def _index_of_tool(found: list[Data], moment: Moment) -> list[Data]:
    """Pieces are numbered by the place of their tool in the request."""
    tools = moment.question.get("tools") or ()
    names = [(tool.get("function") or {}).get("name") for tool in tools]
    places: dict[Any, int] = {}

    def change(piece: Data, is_first: bool) -> None:  # noqa: FBT001
        index = piece["index"]
        name = piece["function"].get("name")
        if is_first and name in names:
            places[index] = names.index(name)
        piece["index"] = places.get(index, index)

    return _each_piece(change)(found, moment)


def _say_before(generated: Generated, moment: Moment) -> Generated:
    return say(generated, "I will look it up.") if generated.calls else generated


def _each_content(change: Callable[[str], str]) -> Chunks:
    """A change of what stands as content in the pieces of answers to requests with tools."""

    def chunks(found: list[Data], moment: Moment) -> list[Data]:
        if not moment.question.get("tools"):
            return found
        return [change_choices(chunk, change_choice) for chunk in found]

    def change_choice(choice: Data) -> Data:
        delta = choice.get("delta") or {}
        if not isinstance(delta.get("content"), str):
            return choice
        return {**choice, "delta": {**delta, "content": change(delta["content"])}}

    return chunks


def _double_content(found: list[Data], moment: Moment) -> list[Data]:
    """All that came before a call comes again with it."""
    first = _find_first(found)
    if first is None:
        return found
    texts = [
        (choice.get("delta") or {}).get("content") or ""
        for chunk in found[:first]
        for choice in chunk.get("choices") or ()
    ]
    return _before_calls("".join(texts))(found, moment)


def _leak_between(found: list[Data], moment: Moment) -> list[Data]:
    """The mark that ends the first call comes as content before the second."""
    places = [
        place
        for place, chunk in enumerate(found)
        if any(piece.get("index") == 1 for piece in _pieces(chunk))
    ]
    if not places:
        return found
    word = change_choices(found[places[0]], _saying("</tool_call>\n"))
    return [*found[: places[0]], word, *found[places[0] :]]


def _lose_second(found: list[Data], moment: Moment) -> list[Data]:
    return [chunk for chunk in found if not any(each.get("index") for each in _pieces(chunk))]


def _before(name: str, title: str, chunks: Chunks) -> Fault:
    """A fault of the text that a model says before its call."""
    return Fault(
        name=name,
        title=title,
        killed_by=frozenset({"tools_auto"}),
        level=_FULL,
        answer=_say_before,
        chunks=chunks,
    )


def _lose_content(found: list[Data], moment: Moment) -> list[Data]:
    return found if _find_first(found) is None else _each_content(lambda text: "")(found, moment)


def _fault(name: str, title: str, chunks: Chunks, killed_by: frozenset[str] = _CALLED) -> Fault:
    level = "quick" if killed_by == _CALLED else _FULL
    return Fault(name=name, title=title, killed_by=killed_by, level=level, chunks=chunks)


FAULTS = (
    _fault("stream_marks", "a stream has marks beside calls", _before_calls("<tool_call>\n")),
    _fault(
        "stream_marks_split", "a stream has marks in two pieces", _before_calls("<tool", "_call>")
    ),
    _fault("stream_calls_as_text", "a stream has calls as text", _as_words),
    _fault("stream_calls_lost", "a stream has no calls", _lose_calls),
    _fault("stream_index_wrong", "the index of calls begins at one", _each_piece(_move)),
    _fault(
        "stream_index_of_arguments",
        "arguments have another index than their call",
        _each_piece(_move_arguments),
    ),
    _fault("stream_index_missing", "pieces have no index", _each_piece(_lose_index)),
    _fault("stream_id_missing", "a streamed call has no id", _each_piece(_lose_id)),
    _fault(
        "stream_id_changes",
        "each piece has another id",
        _each_piece(_change_id),
        _CALLED | _STREAMED,
    ),
    _fault("stream_id_repeated", "each piece has the id", _repeat("id")),
    _fault("stream_name_repeated", "each piece has the name", _repeat("name"), _CALLED | _STREAMED),
    _fault("stream_name_split", "the name comes in two pieces", _split_names),
    _fault("stream_arguments_object", "streamed arguments are an object", _each_piece(_objects)),
    _fault(
        "stream_arguments_torn", "a piece of the arguments is lost", _lose_one, _CALLED | _STREAMED
    ),
    _fault(
        "stream_arguments_empty", "an empty object of arguments never comes", _lose_empty, _STREAMED
    ),
    _fault(
        "stream_index_of_tool",
        "the index of a call is the place of its tool in the request",
        _index_of_tool,
        frozenset({"tools_auto", "tools_named"}),
    ),
    _before("stream_loses_text", "a stream has no text before a call", _lose_content),
    _before("stream_doubles_text", "a stream has the text before a call twice", _double_content),
    _fault(
        "stream_mark_between_calls",
        "a stream has a mark between two calls",
        _leak_between,
        frozenset({"tools_parallel"}),
    ),
    _fault(
        "stream_second_call_lost",
        "a stream has but the first of two calls",
        _lose_second,
        frozenset({"tools_parallel"}),
    ),
    _fault(
        "stream_eats_brackets",
        "a stream has no closing bracket where tools are offered",
        _each_content(lambda text: text.replace("]", "")),
        frozenset({"tools_text"}),
    ),
    _fault("stream_finish_stop", "a streamed call ends with stop", _stop),
)
