"""What a run that failed left behind, as the inputs of a diagnosis.

Called by :mod:`stoker.commands.repair` and for bundles. Its folder holds the plan, the engine's log
since the start, and what the trial of the contract found; all were written before the roll-back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from stoker.apply.journal import read_run_plan
from stoker.commands.log_marks import START_BYTES
from stoker.commands.world import World
from stoker.diagnosis.inputs import Inputs, LogLine, Symptom
from stoker.diagnosis.lines import read_log
from stoker.errors import HostError, StateError
from stoker.knowledge.templates import read_leaf
from stoker.model.contract import Verdict, Verification
from stoker.model.diagnosis import Evidence
from stoker.model.facts import Plain
from stoker.model.finding import Finding, Status
from stoker.model.layout import engine_log_path, failed_verification_path
from stoker.state.documents import read_document

_BROKEN = (Verdict.FAILED, Verdict.ERROR)
_LOG, _CONTRACT = "the log of the start", "the contract"


def read_failed_run(
    world: World, run: str, *, engine: str, name: str, tree: Mapping[str, Plain], said: str
) -> Inputs:
    """The inputs. ``tree`` is what is known of the deployment, ``said`` the error's own words.

    The words stand in for a log that there is not. What cannot be read is left out.
    """
    content = _read_log(world, run)
    log = read_log([content], _LOG)
    verification = read_failed_verification(world, run)
    release = read_leaf(tree, "stack.version")
    return Inputs(
        name=name,
        engine=engine,
        release=release if isinstance(release, str) else "",
        lines=log.lines if content else _lines_of(said),
        kernel=log.kernel,
        symptoms=tuple(list_symptoms(verification)) if verification else (),
        tree=tree,
        findings=_read_findings(world, run),
        read=(log.read,),
    )


def read_failed_verification(world: World, run: str) -> Verification | None:
    """What a run's trial of the contract found, None where it did not come to one."""
    try:
        path = failed_verification_path(world.folders, run)
        return read_document(world.host, path, Verification)
    except (HostError, StateError):
        return None


def list_symptoms(verification: Verification) -> Iterator[Symptom]:
    """The symptoms of the broken promises, each once, in the order in which they were tried."""
    seen: set[str] = set()
    for result in verification.results:
        if result.verdict in _BROKEN and result.symptom and result.symptom not in seen:
            seen.add(result.symptom)
            text = f"{result.check}: expected {result.expected}; found {result.found}"
            yield Symptom(
                symptom=result.symptom,
                evidence=Evidence(origin=_CONTRACT, line_number=0, text=text),
            )


def _read_log(world: World, run: str) -> bytes:
    try:
        return world.host.read_bytes(engine_log_path(world.folders, run), 0, START_BYTES)
    except HostError:
        return b""


def _lines_of(said: str) -> tuple[LogLine, ...]:
    return tuple(
        LogLine(number=number, text=text, origin="the failed start")
        for number, text in enumerate(said.splitlines(), 1)
    )


def _read_findings(world: World, run: str) -> tuple[Finding, ...]:
    try:
        plan = read_run_plan(world.host, world.folders, run)
    except (HostError, StateError):
        return ()
    return tuple(each for each in plan.findings if each.status is Status.FIRED)
