"""The text of a deployment file as a validated deployment, or all of its problems at once.

Called by every verb that reads a deployment file. It must never read the file itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import ValidationError

from stoker.errors import Problem, SpecError
from stoker.model.deployment import Deployment
from stoker.model.facts import read_path
from stoker.spec.complaints import explain_errors, explain_kinds, explain_other_file
from stoker.spec.phrases import nearest, shorten
from stoker.spec.plain import Reading, read_plain

#: Nobody mends more than this before trying again.
MAX_PROBLEMS = 50


def parse_deployment(text: str, origin: str, *, engine_kinds: Sequence[str]) -> Deployment:
    """The deployment that the text declares.

    ``origin`` names the text in errors (the file's path); ``engine_kinds`` are the engines that
    Stoker knows. Raises SpecError with every problem, in the order of the text.
    """
    reading = read_plain(text, origin)
    if other := explain_other_file(reading.tree, text):
        raise SpecError(origin, [other])
    problems = [*reading.problems, *_engine_problems(reading, engine_kinds)]
    try:
        deployment = Deployment.model_validate(reading.value)
    except ValidationError as error:
        found = error.errors(include_url=False)
        if () not in reading.broken:
            problems += explain_errors(found, reading, engine_kinds=engine_kinds)
    else:
        if not problems:
            return deployment
    raise SpecError(origin, _ordered(problems))


def _engine_problems(reading: Reading, engine_kinds: Sequence[str]) -> list[Problem]:
    kind = read_path(reading.value, "engine.kind")
    place = reading.places.get(("engine", "kind"))
    if place is None or not isinstance(kind, str) or kind in (*engine_kinds, ""):
        return []
    near = nearest(kind, engine_kinds)
    question = f"; did you mean {near}?" if near else ""
    return [
        Problem(
            message=f"unknown engine `{shorten(kind)}`{question}",
            path="engine.kind",
            line=place.value.line,
            column=place.value.column,
            hint=explain_kinds(engine_kinds),
        )
    ]


def _ordered(problems: list[Problem]) -> list[Problem]:
    ordered = sorted(problems, key=lambda problem: (problem.line, problem.column))
    if len(ordered) <= MAX_PROBLEMS:
        return ordered
    left = len(ordered) - MAX_PROBLEMS
    return [*ordered[:MAX_PROBLEMS], Problem(message=f"and at least {left} more problems")]
