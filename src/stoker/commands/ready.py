"""Ready means verified: wait until the engine has loaded, then try its contract.

Called as an activation of a plan, so it reads which generation is in force from the disk: in a
roll-back that is the earlier one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from stoker.apply.observe import first_line, read_secret
from stoker.apply.wait import Progress, Watched, wait_loaded, wait_ready
from stoker.commands.assemble import require_current
from stoker.commands.guarding import find_key, is_verified_by, read_guard
from stoker.commands.remedies import with_remedies
from stoker.commands.subject import promised_subject
from stoker.commands.trial import redact_results
from stoker.commands.world import World
from stoker.contract.run import Selection, verify
from stoker.contract.selection import QUICK, discover_checks
from stoker.endpoints.limited import LimitedEndpoint
from stoker.engines.phases import find_error, read_phase
from stoker.errors import ContractFailed, SupervisorError
from stoker.knowledge.engines import load_engine_table
from stoker.model.contract import (
    CONTRACT_TIMEOUT_SECONDS,
    CheckResult,
    Request,
    Verdict,
    Verification,
)
from stoker.model.generation import Generation
from stoker.model.launch import ServiceState
from stoker.ports import Endpoint
from stoker.state.documents import read_starts, write_verification

#: The guard tries the contract at the same time, again after ten seconds where it was too early.
READY_SECONDS = 180.0
#: How long a server is left alone before what may settle is tried again.
SETTLE_SECONDS = 5.0
_BROKEN = (Verdict.FAILED, Verdict.ERROR)


def verify_service(
    world: World, name: str, lines_since_start: Callable[[str], Sequence[str]]
) -> Verification:
    """Wait for the engine, verify it, keep the result. Raises StokerError if it never passes.

    The contract is tried here although the guard tries it as well: what is kept must not rest on
    a file that the service may write. Ready it is when both say so.
    """
    generation = require_current(world, name)
    endpoint = connect(world, generation)
    expected = read_starts(world.host, world.folders, name).expected_seconds(generation.model)
    watched = _watch(world, generation, endpoint, lambda: lines_since_start(name))
    state = wait_loaded(
        watched, clock=world.clock, reporter=world.reporter, expected_seconds=expected
    )
    verification = try_contract(world, generation, endpoint, state=state)
    if not verification.has_passed:
        raise ContractFailed(describe_failure(verification))
    wait_ready(watched, state.process, clock=world.clock, timeout_seconds=READY_SECONDS)
    return verification


def connect(world: World, generation: Generation) -> Endpoint:
    """The endpoint of a generation, with its key. Raises HostError if the key is unreadable."""
    launch = generation.launch
    return world.connect(launch.host, launch.port, read_own_key(world, generation))


def read_own_key(world: World, generation: Generation) -> str | None:
    """The key of a generation's server, None for one without. Raises HostError."""
    secret = find_key(generation.launch)
    return first_line(read_secret(world.host, secret.path)) or None if secret else None


def try_contract(
    world: World, generation: Generation, endpoint: Endpoint, *, state: ServiceState
) -> Verification:
    """Try the quick contract and keep the result, tied to the process that answered.

    What fails and may only say that the server is still warming up is tried once more.
    """
    contract = generation.deployment.get("contract", {})
    limited = LimitedEndpoint(
        endpoint, world.clock, contract.get("timeout_seconds", CONTRACT_TIMEOUT_SECONDS)
    )
    subject = promised_subject(generation)

    def attempt(only: Sequence[str] = ()) -> Verification:
        selection = Selection(level=QUICK, only=only, require=contract.get("require"))
        return verify(
            limited,
            name=generation.name,
            subject=subject,
            selection=selection,
            clock=world.clock,
            reporter=world.reporter,
        )

    result = attempt()
    if unsettled := find_unsettled(result):
        world.clock.sleep(SETTLE_SECONDS)
        result = _with_results(result, attempt(unsettled).results)
    return keep_result(world, generation, with_remedies(result, subject), state=state)


def find_unsettled(result: Verification) -> tuple[str, ...]:
    """The checks that failed and may pass once the server has settled; none where others failed."""
    broken = [each.check for each in result.results if each.verdict in _BROKEN]
    settling = {check.id for check in discover_checks() if check.is_settling}
    return tuple(broken) if settling.issuperset(broken) else ()


def _with_results(result: Verification, again: Sequence[CheckResult]) -> Verification:
    newer = {each.check: each for each in again}
    return replace(
        result,
        results=tuple(newer.get(each.check, each) for each in result.results),
        notes=(
            *result.notes,
            *(
                _describe_settling(each, newer[each.check])
                for each in result.results
                if each.check in newer
            ),
        ),
    )


def _describe_settling(first: CheckResult, second: CheckResult) -> str:
    """What the first try found: whoever asked then had to wait, whatever the second one says."""
    return (
        f"{first.check} {first.verdict} at first: expected {first.expected}; found {first.found}; "
        f"tried again, it {second.verdict}: found {second.found}"
    )


def keep_result(
    world: World, generation: Generation, result: Verification, *, state: ServiceState
) -> Verification:
    """The result, tied to the process that answered, and kept in the state folder.

    What has the looks of a secret is taken out first. Raises SupervisorError where another
    process answers by now.
    """
    after = world.supervisor.state(generation.name)
    if after.process != state.process:
        raise SupervisorError(
            f"{generation.name} was restarted while it was being verified",
            f"see `stoker logs {generation.name}`",
        )
    result = replace(
        redact_results(result),
        process=state.process,
        digest=state.digest,
        at_seconds=world.clock.now_seconds(),
    )
    write_verification(world.host, world.folders, result)
    return result


def describe_failure(verification: Verification) -> str:
    """What was promised and not kept, in a few lines."""
    lines = [f"{verification.name} runs but breaks its contract:"]
    lines += [
        f"    {result.check}: expected {result.expected}; found {result.found}"
        + "".join(f"\n        mend: {remedy.text}" for remedy in result.remedies[:1])
        for result in verification.results
        if result.verdict in _BROKEN
    ]
    return "\n".join(lines)


def _watch(
    world: World,
    generation: Generation,
    endpoint: Endpoint,
    read_log: Callable[[], Sequence[str]],
) -> Watched:
    name, launch = generation.name, generation.launch

    def progress(state: ServiceState) -> Progress:
        guard = read_guard(world, state)
        if guard is None:
            return Progress(title="starting")
        if guard.phase == "failed":
            return Progress(title=guard.text, has_failed=True)
        if guard.percent is None:
            return Progress(title=guard.text)
        # Whoever shows a fraction says it in figures himself.
        title = guard.text.replace(f" {guard.percent} %", "", 1)
        return Progress(title=title, fraction=guard.percent / 100)

    def is_loaded() -> bool:
        request = Request(method="GET", path=launch.readiness.path, timeout_seconds=2.0)
        return endpoint.exchange(request).status == 200

    def explain(lines: Sequence[str]) -> str:
        phase = read_phase(lines, load_engine_table(launch.engine))
        return phase.title if phase.phase == "failed" else ""

    return Watched(
        name=name,
        state=lambda: world.supervisor.state(name),
        read_log=read_log,
        progress=progress,
        is_loaded=is_loaded,
        is_verified=lambda state: is_verified_by(read_guard(world, state)),
        explain=explain,
        find_error=lambda lines: find_error(lines, load_engine_table(launch.engine)),
    )
