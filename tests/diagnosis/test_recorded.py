"""Logs of real engines: those that failed are diagnosed right, and the healthy ones as healthy.

Recorded by ``python -m tests.engines_real.record_failures``, and on a lent GPU. What each failure
means stands in ``cases.toml`` beside it, written by whoever made the fault. The healthy ones of
STOKER_CORPUS, which are not part of the project, are read too where it is set.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from stoker.diagnosis.diagnose import diagnose
from stoker.diagnosis.inputs import Inputs
from stoker.diagnosis.lines import read_lines
from stoker.knowledge.causes import load_causes
from stoker.model.diagnosis import Cause, Certainty, Diagnosis, Gravity
from stoker.model.facts import Plain
from tests.conftest import PROJECT

RECORDED = Path(__file__).parent / "recorded"
FAILURES, HEALTHY = RECORDED / "failures", RECORDED / "healthy"
ENGINE_LOGS = PROJECT / "tests" / "recorded" / "engine_logs"
CORPUS = Path(os.environ.get("STOKER_CORPUS") or "/nowhere")

#: What an engine says that is ready.
_READY = re.compile("fired up and ready|Application startup complete|listening on http")
_ENGINES = ("sglang", "vllm", "llamacpp")
#: The least number of healthy logs that are looked at, without those of STOKER_CORPUS.
_LEAST_HEALTHY = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One recorded failure. ``kind`` is what must be found first; ``accepted`` would do too.

    ``is_silent``: no line tells why, as of a process that was ended by force; that it ended is
    then all that can be told, and may be told as a consequence of what nobody wrote down.
    """

    file: str
    engine: str
    release: str
    kind: str
    accepted: tuple[str, ...] = ()
    is_silent: bool = False
    tree: Mapping[str, Plain] = field(default_factory=dict)

    @property
    def package(self) -> str:
        """The environment of the engine beside the project; empty for the embedded one."""
        return "" if self.engine == "llamacpp" else f"{self.engine}-{self.release}"


def load_cases() -> tuple[Case, ...]:
    rows = tomllib.loads((FAILURES / "cases.toml").read_text("utf-8"))["case"]
    return tuple(Case(**{**row, "accepted": tuple(row.get("accepted", ()))}) for row in rows)


CASES = load_cases()


def find_ready(folder: Path) -> tuple[Path, ...]:
    """The logs of a folder whose engine became ready."""
    found = sorted(folder.rglob("*.log"))
    return tuple(path for path in found if _READY.search(path.read_text("utf-8", "replace")))


def diagnose_file(path: Path, engine: str, release: str = "", tree: Any = None) -> Diagnosis:
    kernel = path.with_suffix(".kernel")
    return diagnose(
        Inputs(
            engine=engine,
            release=release,
            lines=read_lines([path.read_bytes()], path.name),
            kernel=read_lines([kernel.read_bytes()], "kernel") if kernel.is_file() else (),
            tree=tree or {},
        )
    )


def name_engine(path: Path) -> str:
    return next((engine for engine in _ENGINES if engine in str(path)), "")


def first_told(found: Diagnosis, case: Case) -> tuple[Cause, ...]:
    """The causes; of a silent failure the consequences, too."""
    return (*found.causes, *found.consequences) if case.is_silent else found.causes


# --- failures ---


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.file)
def test_a_real_failure_is_diagnosed(case: Case) -> None:
    found = diagnose_file(FAILURES / f"{case.file}.log", case.engine, case.release, case.tree)
    told = first_told(found, case)
    assert told, f"{found.unknown}: {found.unexplained}"
    first = told[0]
    assert first.kind in (case.kind, *case.accepted), [each.kind for each in told]
    assert first.gravity is Gravity.ERROR
    assert first.evidence
    assert first.repairs, f"nothing mends {first.kind}"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.file)
def test_a_real_failure_is_diagnosed_without_knowing_the_engine(case: Case) -> None:
    found = diagnose_file(FAILURES / f"{case.file}.log", "")
    wrong = [
        each.kind
        for each in found.causes[:1]
        if each.certainty is Certainty.CERTAIN and each.kind not in (case.kind, *case.accepted)
    ]
    assert not wrong


def test_every_recording_is_a_case() -> None:
    files = sorted(path.stem for path in FAILURES.glob("*.log"))
    assert files == sorted(case.file for case in CASES)
    known = load_causes()
    assert not [case.file for case in CASES if {case.kind, *case.accepted} - set(known)]


# --- healthy starts ---

HEALTHY_LOGS = (*sorted(HEALTHY.glob("*.log")), *find_ready(ENGINE_LOGS))


@pytest.mark.parametrize("path", HEALTHY_LOGS, ids=lambda path: path.stem)
def test_a_healthy_start_shows_no_error(path: Path) -> None:
    assert_no_error(diagnose_file(path, name_engine(path)))
    assert_no_error(diagnose_file(path, ""))


def test_enough_healthy_starts_are_looked_at() -> None:
    assert len(HEALTHY_LOGS) >= _LEAST_HEALTHY
    assert sum(path.stat().st_size for path in HEALTHY.iterdir()) <= 300_000


@pytest.mark.skipif(not (CORPUS / "logs").is_dir(), reason="STOKER_CORPUS names no logs")
@pytest.mark.parametrize("path", find_ready(CORPUS / "logs"), ids=lambda path: path.stem)
def test_a_healthy_start_of_the_corpus_shows_no_error(path: Path) -> None:
    assert_no_error(diagnose_file(path, name_engine(path)))


def assert_no_error(found: Diagnosis) -> None:
    errors = [
        (each.kind, [f"{line.line_number}: {line.text[:160]}" for line in each.evidence])
        for each in (*found.causes, *found.consequences)
        if each.gravity is Gravity.ERROR
    ]
    assert not errors


# --- healthy starts in the words of the engines, with the figures of the capacity corpus ---

FORMATS: Mapping[str, Sequence[str]] = tomllib.loads((RECORDED / "formats.toml").read_text("utf-8"))


def read_figures() -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for path in sorted((CORPUS / "capacity").glob("*.yaml")):
        case = YAML(typ="safe").load(path)
        if case["engine"] in FORMATS and (case["logged"].get("kv_tokens") or 0) > 0:
            yield str(case["id"]), case["engine"], case["logged"]


@pytest.mark.skipif(not (CORPUS / "capacity").is_dir(), reason="STOKER_CORPUS names no cases")
@pytest.mark.parametrize(
    ("engine", "figures"), [pytest.param(*rest, id=name) for name, *rest in read_figures()]
)
def test_a_healthy_start_with_recorded_figures_shows_no_error(
    engine: str, figures: Mapping[str, Any]
) -> None:
    lines = [
        line.format(**figures)
        for line in FORMATS[engine]
        if all(figures.get(name) is not None for name in re.findall(r"{(\w+)", line))
    ]
    assert len(lines) > 1
    text = "\n".join(lines).encode()
    assert_no_error(diagnose(Inputs(engine=engine, lines=read_lines([text], "log"))))
