"""Nasty deployment files, each with the problems that it shall be told, in its own words.

``cases/NAME.yaml`` is the file, ``cases/NAME.problems`` what the person reads. After a change of
wording, write the expectations anew with ``python -m tests.spec.test_cases`` and read the
difference: it is what a person will see.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.errors import Problem, SpecError
from stoker.spec import parse_deployment

from .strategies import ENGINE_KINDS

CASES = sorted((Path(__file__).parent / "cases").glob("*.yaml"))

#: What only a programmer would say.
JARGON = ("Input should", "pydantic", "dict", "NoneType", "<block", "Traceback", "0x")


def problems_of(path: Path) -> tuple[Problem, ...]:
    try:
        deployment = parse_deployment(
            path.read_bytes().decode(), path.name, engine_kinds=ENGINE_KINDS
        )
    except SpecError as error:
        return error.problems
    pytest.fail(f"{path.name} has no problem: {deployment}")


def shown(problems: tuple[Problem, ...]) -> str:
    lines = []
    for problem in problems:
        place = f"{problem.line}:{problem.column}"
        path = f" {problem.path}:" if problem.path else ""
        lines.append(f"{place}{path} {problem.message}")
        lines += [f"    {problem.hint}"] if problem.hint else []
    return "\n".join(lines) + "\n"


def expectation(path: Path) -> Path:
    return path.with_suffix(".problems")


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_the_file_is_told_its_problems(path: Path) -> None:
    assert shown(problems_of(path)) == expectation(path).read_text()


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_the_words_are_for_people(path: Path) -> None:
    for problem in problems_of(path):
        words = f"{problem.message} {problem.hint}"
        own = path.read_bytes().decode()
        assert [word for word in JARGON if word in words and word not in own] == []
        assert problem.message
        assert all(len(line) < 300 for line in words.splitlines())
        assert words.isprintable()


def test_there_are_as_many_expectations_as_files() -> None:
    folder = Path(__file__).parent / "cases"
    assert sorted(folder.glob("*.problems")) == [expectation(path) for path in CASES]
    assert len(CASES) > 100


if __name__ == "__main__":
    for case in CASES:
        expectation(case).write_text(shown(problems_of(case)))
