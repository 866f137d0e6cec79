"""Ready means verified: wait until the engine has loaded, then try its contract.

Called as an activation of a plan, so it reads which generation is in force from the disk: in a
roll-back that is the earlier one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from stoker.apply.observe import read_secret
from stoker.apply.wait import Progress, Watched, wait_loaded
from stoker.commands.resolve import require_current
from stoker.commands.world import World
from stoker.contract.run import verify
from stoker.endpoints.limited import LimitedEndpoint
from stoker.engines.phases import read_phase
from stoker.errors import ContractFailed, SupervisorError
from stoker.knowledge.engines import load_engine_table
from stoker.model.contract import Request, Verdict, Verification
from stoker.model.generation import Generation, Start
from stoker.model.launch import ServiceState
from stoker.ports import Endpoint
from stoker.state.documents import add_start, read_starts, write_verification


def verify_service(
    world: World, name: str, lines_since_start: Callable[[str], Sequence[str]]
) -> Verification:
    """Wait for the engine, verify it, keep the result. Raises StokerError if it never passes."""
    generation = require_current(world, name)
    endpoint = connect(world, generation)
    expected = read_starts(world.host, world.folders, name).expected_seconds(generation.model)
    began = world.clock.monotonic_seconds()
    state = wait_loaded(
        _watch(world, generation, endpoint, lambda: lines_since_start(name)),
        clock=world.clock,
        reporter=world.reporter,
        timeout_seconds=generation.launch.readiness.timeout_seconds,
        expected_seconds=expected,
    )
    verification = try_contract(world, generation, endpoint, state=state, level="quick")
    if not verification.has_passed:
        raise ContractFailed(describe_failure(verification))
    start = Start(
        digest=state.digest,
        model=generation.model,
        seconds=round(world.clock.monotonic_seconds() - began, 2),
        at_seconds=world.clock.now_seconds(),
    )
    add_start(world.host, world.folders, name, start)
    return verification


def connect(world: World, generation: Generation) -> Endpoint:
    """The endpoint of a generation, with its key. Raises HostError if the key is unreadable."""
    launch = generation.launch
    key = None
    for secret in launch.secrets:
        text = read_secret(world.host, secret.path).decode("utf-8", "replace")
        key = next((line.strip() for line in text.splitlines() if line.strip()), None)
    return world.connect(launch.host, launch.port, key)


def try_contract(
    world: World,
    generation: Generation,
    endpoint: Endpoint,
    *,
    state: ServiceState,
    level: str,
    only: Sequence[str] = (),
) -> Verification:
    """Try the contract and keep the result, tied to the process that answered."""
    contract = generation.deployment.get("contract", {})
    result = verify(
        LimitedEndpoint(endpoint, world.clock, contract.get("timeout_seconds", 120)),
        name=generation.name,
        published_name=generation.launch.published_name,
        level=level,
        only=only,
        require=contract.get("require"),
        clock=world.clock,
        reporter=world.reporter,
    )
    after = world.supervisor.state(generation.name)
    if after.process != state.process:
        raise SupervisorError(
            f"{generation.name} was restarted while it was being verified",
            f"see `stoker logs {generation.name}`",
        )
    result = replace(
        result,
        process=state.process,
        digest=state.digest,
        at_seconds=world.clock.now_seconds(),
    )
    if not only:
        write_verification(world.host, world.folders, result)
    return result


def describe_failure(verification: Verification) -> str:
    """What was promised and not kept, in a few lines."""
    lines = [f"{verification.name} runs but breaks its contract:"]
    lines += [
        f"    {result.check}: expected {result.expected}; found {result.found}"
        for result in verification.results
        if result.verdict in (Verdict.FAILED, Verdict.ERROR)
    ]
    return "\n".join(lines)


def _watch(
    world: World,
    generation: Generation,
    endpoint: Endpoint,
    read_log: Callable[[], Sequence[str]],
) -> Watched:
    name, launch = generation.name, generation.launch
    table = load_engine_table(launch.engine)

    def progress(lines: Sequence[str]) -> Progress:
        phase = read_phase(lines, table)
        return Progress(title=phase.title, fraction=phase.fraction)

    def is_ready() -> bool:
        request = Request(method="GET", path=launch.readiness.path, timeout_seconds=2.0)
        return endpoint.exchange(request).status == 200

    return Watched(
        name=name,
        state=lambda: world.supervisor.state(name),
        read_log=read_log,
        progress=progress,
        is_ready=is_ready,
    )
