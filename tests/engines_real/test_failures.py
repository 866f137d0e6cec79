"""Faults that are provoked on real engines are diagnosed right, from what the engine just wrote.

The recordings of the same starts are diagnosed in every run, see tests/diagnosis/test_recorded.py;
there stands what each fault is. SGLang and vLLM take half a minute for each, so that only some are
provoked where STOKER_FAULTS is not set to ``all``.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stoker.diagnosis.diagnose import diagnose
from stoker.diagnosis.inputs import Inputs
from stoker.diagnosis.lines import read_lines
from stoker.model.diagnosis import Gravity
from tests.diagnosis.test_recorded import CASES, first_told
from tests.engines_real import faults_llamacpp, faults_python
from tests.engines_real.faults import FAULTS, make_bench, neutral, provoke

#: The modules that say which faults there are.
_SOURCES = (faults_llamacpp, faults_python)
#: Of SGLang and vLLM: those that the system makes, not a word of the command line.
_ALWAYS = (
    "port-in-use",
    "tensor-parallel",
    "truncated-shard",
    "no-disk",
    "clock-skew",
    "killed-child",
    "control-group-memory",
)
_PROVOKED = {case.file: case for case in CASES if case.file in FAULTS}


def list_faults() -> list[str]:
    if os.environ.get("STOKER_FAULTS") == "all":
        return list(FAULTS)
    return [name for name in FAULTS if name.startswith("llamacpp-") or name.endswith(_ALWAYS)]


@pytest.mark.parametrize("name", list_faults())
def test_a_provoked_failure_is_diagnosed(name: str, engines: Path, tmp_path: Path) -> None:
    case = _PROVOKED[name]
    if case.package and not (engines / case.package / ".built").is_file():
        pytest.skip(f"{case.package} is not built; `make test-engines` builds it")
    bench = make_bench(engines, tmp_path)
    found = provoke(name, bench)
    told = diagnose(
        Inputs(
            engine=case.engine,
            release=case.release,
            lines=read_lines(["\n".join(neutral(found.lines, bench)).encode()], "log"),
            kernel=read_lines(["\n".join(found.kernel).encode()], "kernel"),
        )
    )
    causes = first_told(told, case)
    assert causes, "\n".join(found.lines[-40:])
    first = causes[0]
    assert first.kind in (case.kind, *case.accepted), "\n".join(found.lines[-40:])
    assert first.gravity is Gravity.ERROR


def test_every_fault_is_recorded() -> None:
    assert sorted(_PROVOKED) == sorted(FAULTS)
    assert all(source.__doc__ for source in _SOURCES)
