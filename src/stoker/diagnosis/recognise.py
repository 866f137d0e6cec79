"""Which engine wrote a log, by the words in its lines.

Called by the commands where nobody says it. Pure. The words are those of knowledge, and whatever
texts the rows of one engine's table look for and no other's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from ahocorasick_rs import AhoCorasick

from stoker.diagnosis.inputs import LogLine
from stoker.diagnosis.needles import list_literals
from stoker.knowledge.datafiles import read_toml
from stoker.knowledge.engines import engine_kinds, load_engine_table
from stoker.knowledge.structure import structure

_WHERE = "recognition.toml"
#: A shorter text of a pattern may stand in anybody's log.
_LEAST_WORD = 12
#: The prefixes of its processes say it too, and were taken off the lines.
_RANKS: Mapping[str, tuple[str, ...]] = {"vllm": ("EngineCore", "Worker_", "VllmWorker")}


def recognise_engine(lines: Sequence[LogLine]) -> str:
    """The engine whose words stand in these lines; empty where none has more than the others."""
    words, automaton = _load_words()
    seen: dict[int, None] = {}
    for line in lines:
        found = automaton.find_matches_as_indexes(line.text, overlapping=True)
        seen.update((index, None) for index, _, _ in found)
    ranks = {line.rank for line in lines}
    told = Counter(words[index] for index in seen)
    told.update(
        kind
        for kind, beginnings in _RANKS.items()
        if any(rank.startswith(beginnings) for rank in ranks)
    )
    ordered = told.most_common(2)
    if not ordered or (len(ordered) == 2 and ordered[0][1] == ordered[1][1]):
        return ""
    return ordered[0][0]


@cache
def _load_words() -> tuple[tuple[str, ...], AhoCorasick]:
    """The engine of each word, and an automaton of the words. Raises DataError."""
    rows = structure(
        dict[str, tuple[str, ...]], read_toml(_WHERE).get("words"), where=f"{_WHERE}: words"
    )
    owners: dict[str, set[str]] = {}
    for kind in engine_kinds():
        for word in (*rows.get(kind, ()), *_list_table_words(kind)):
            owners.setdefault(word, set()).add(kind)
    alone = {word: next(iter(kinds)) for word, kinds in owners.items() if len(kinds) == 1}
    return tuple(alone.values()), AhoCorasick(list(alone))


def _list_table_words(kind: str) -> Iterator[str]:
    log = load_engine_table(kind).log
    patterns = [
        *(row.pattern for row in log.phases),
        *(row.pattern for row in log.resolved),
        *(row.pattern for row in log.arguments),
    ]
    for pattern in patterns:
        yield from (word for word in list_literals(pattern) if len(word) >= _LEAST_WORD)
