"""How much of what engines say about themselves is read: ``python -m stoker.evaluate.logs``.

Prints a table with one row for each log below the folder (by default the logs of STOKER_CORPUS):
how far the start came, how many values were read, and how many of those agree with the answers of
the same server, where they were kept beside the log. Called by hand; reads files and nothing else.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from stoker.engines.resolved import answer_paths, read_answer, read_resolved
from stoker.knowledge.engines import engine_kinds, load_engine_table
from stoker.model.engine_table import EngineTable
from stoker.model.facts import Plain
from stoker.model.resolved import Resolved, ResolvedValue
from stoker.report.table import render_table

#: What every engine that listens should have told, in its log or in an answer.
WANTED = ("context_tokens", "kv_tokens", "kv_bytes", "weight_bytes", "max_running_requests")
#: Where a log and an answer may differ by rounding: a log has two decimals.
_TOLERANCE, _ROUNDING = 0.02, 0.0051
_ANSWERS_SUFFIX = ".api.json"
_FOLDER_VARIABLE = "STOKER_CORPUS"


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """One log: its engine, how it was read, and how it agrees with the server's own answers.

    ``missing`` are wanted values that a server which listens did not tell; ``wrong`` those that
    an answer contradicts.
    """

    name: str
    resolved: Resolved
    agreed: int = 0
    wrong: tuple[str, ...] = ()

    @property
    def missing(self) -> tuple[str, ...]:
        """Only of a start that came so far."""
        is_up = self.resolved.phase == "listening"
        return tuple(name for name in WANTED if is_up and name not in self.resolved.values)


def score_logs(folder: Path) -> tuple[Score, ...]:
    """Every log below a folder, by path; those that no engine wrote are left out."""
    found = []
    for path in sorted(folder.rglob("*.log")):
        lines = path.read_text("utf-8", "replace").splitlines()
        resolved = recognise(lines)
        if resolved is not None:
            agreed, wrong = _compare(resolved, path)
            name = path.relative_to(folder).as_posix()
            found.append(Score(name=name, resolved=resolved, agreed=agreed, wrong=wrong))
    return tuple(found)


def recognise(lines: Sequence[str]) -> Resolved | None:
    """The log as the engine reads it whose lines it has most of; None where none has any."""
    read = [read_resolved(lines, load_engine_table(kind)) for kind in engine_kinds()]
    best = max(read, key=lambda each: (len(each.values), each.phase == "failed"))
    return best if best.values or best.phase == "failed" else None


def render_scores(scores: Sequence[Score]) -> str:
    """The table, and a line with the sums below it."""
    rows = [
        (
            score.name,
            score.resolved.engine,
            score.resolved.phase,
            str(len(score.resolved.values)),
            str(score.agreed),
            " ".join(score.wrong) or "-",
            " ".join(score.missing) or "-",
        )
        for score in scores
    ]
    head = ("LOG", "ENGINE", "PHASE", "VALUES", "AGREE", "DISAGREE", "MISSING")
    agreed, wrong = sum(s.agreed for s in scores), sum(len(s.wrong) for s in scores)
    values = sum(len(score.resolved.values) for score in scores)
    total = f"{len(scores)} logs, {values} values; {agreed} of {agreed + wrong} agree with answers"
    return f"{render_table(head, rows)}{total}\n"


def _compare(resolved: Resolved, path: Path) -> tuple[int, tuple[str, ...]]:
    table = load_engine_table(resolved.engine)
    agreed, wrong = 0, []
    for name, told in _answers(path, table):
        read = resolved.values.get(name)
        if read is None:
            continue
        if _agree(read, told):
            agreed += 1
        else:
            wrong.append(f"{name}:{read.value}!={told.value}")
    return agreed, tuple(wrong)


def _answers(path: Path, table: EngineTable) -> Iterator[tuple[str, ResolvedValue]]:
    """What the answers beside a log tell: a file with the text of each by its path."""
    beside = path.with_name(path.name.removesuffix(".log") + _ANSWERS_SUFFIX)
    if not beside.is_file():
        return
    texts: Mapping[str, Plain] = json.loads(beside.read_text("utf-8"))
    for place in answer_paths(table):
        if isinstance(text := texts.get(place), str):
            yield from read_answer(json.loads(text), place, table).items()


def _agree(read: ResolvedValue, told: ResolvedValue) -> bool:
    if isinstance(read.value, (int, float)) and isinstance(told.value, (int, float)):
        return abs(read.value - told.value) <= max(_TOLERANCE * abs(told.value), _ROUNDING)
    return read.value == told.value


def main() -> None:
    """Print the table of the folder that the command line names."""
    default = os.environ.get(_FOLDER_VARIABLE, "")
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else Path(default or "/nowhere") / "logs")
    if not folder.is_dir():
        sys.exit(f"there is no folder {folder}; name one, or set {_FOLDER_VARIABLE}")
    sys.stdout.write(render_scores(score_logs(folder)))


if __name__ == "__main__":
    main()
