"""The deployment of a running server, tried against the engine's adapter until both agree.

Called by `stoker adopt`. It reads the machine and writes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pydantic import ValidationError

from stoker import __version__
from stoker.commands.compared import reader, side_of_launch
from stoker.commands.processes import Candidate
from stoker.commands.resolve import OF_A_DEPLOYMENT, find_place
from stoker.commands.world import World
from stoker.engines import build_launch
from stoker.errors import Blocked
from stoker.knowledge.servers import load_servers
from stoker.knowledge.variables import load_variables
from stoker.model.comparison import Comparison, Side
from stoker.model.deployment import Deployment
from stoker.model.engine_table import EngineTable
from stoker.model.facts import Facts, Target, Unknown
from stoker.model.launch import SecretFile
from stoker.model.process import RunningProcess
from stoker.model.visible import visible
from stoker.planning.adoption import Circumstances, Draft, draft_deployment
from stoker.planning.compare import compare_sides
from stoker.planning.lifting import explain_additions, leave_out_additions, lift, lost_flags
from stoker.planning.sides import Reading, ReadText, Start, build_side
from stoker.probes.observe import observe

#: What an adapter may go by. No other probe is asked: some start programs.
_ASKED = frozenset({"cpu", "gpus", "memory", "model", "draft"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A server as it runs: its process, its command line read, and the engine's table."""

    candidate: Candidate
    process: RunningProcess
    start: Start
    reading: Reading
    table: EngineTable


def read_as(world: World, process: RunningProcess) -> ReadText:
    """Reads a file of secrets only if it is the process's user's own.

    Root may read what that user may not, and a command line may name anything; whatever is read
    here ends in a file for the service, which runs as that user.
    """
    read = reader(world.host)

    def read_own(path: str) -> str | None:
        stat = world.host.stat(path) if process.user != world.me else None
        is_own = process.user == world.me or (stat is not None and stat.owner == process.user)
        return read(path) if is_own else None

    return read_own


def settle(world: World, taken: Taken, circumstances: Circumstances) -> tuple[Draft, Comparison]:
    """The deployment in its final words, and how it still differs from what runs."""
    variables = load_variables()
    read = read_as(world, taken.process)
    draft = draft_deployment(
        taken.start,
        taken.reading,
        taken.table,
        circumstances=circumstances,
        variables=variables,
        read_text=read,
    )
    draft = replace(draft, obstacles=(*draft.obstacles, *_check_key_file(draft, read)))
    _refuse(taken, draft.obstacles)
    facts = _observe(world, taken.table, draft)
    running = build_side(taken.start, taken.table, variables, read)

    def start_of(trial: Draft) -> Side | None:
        return _side_of_draft(world, taken.table, facts, trial, read_text=read)

    def compare(trial: Draft) -> Comparison:
        side = start_of(trial)
        if side is None:
            raise _unwritable(taken, trial)
        return compare_sides(running, side, catalogue=taken.table.catalogue, variables=variables)

    draft = lift(draft, taken.table, start_of, has_equal_gpus=_has_equal_gpus(facts))
    reasons = {row.id: row.reason for row in load_servers().addition}
    welcome = frozenset(reasons)
    draft = leave_out_additions(draft, compare(draft), taken.table, welcome=welcome)
    comparison = compare(draft)
    _refuse(taken, lost_flags(comparison, taken.table, welcome=welcome))
    return draft, explain_additions(comparison, taken.table, reasons)


def _check_key_file(draft: Draft, read: ReadText) -> Sequence[str]:
    path = draft.values.get("serve.api_key_file")
    texts = {secret.path for secret in draft.secrets}
    if not isinstance(path, str) or path in texts or read(path) is not None:
        return ()
    return (f"the file with its API keys, {visible(path)}, cannot be read as its user's own",)


def _observe(world: World, table: EngineTable, draft: Draft) -> Facts:
    deployment = _validated(draft)
    place = find_place(world, deployment, table) if deployment else None
    target = Target(
        model_path=place.model_path if place else None,
        draft_path=place.draft_path if place else None,
    )
    return observe(
        world.host,
        target,
        stoker_version=__version__,
        now_seconds=world.clock.now_seconds(),
        only=_ASKED if place else _ASKED - OF_A_DEPLOYMENT,
    )


def _side_of_draft(
    world: World, table: EngineTable, facts: Facts, draft: Draft, *, read_text: ReadText
) -> Side | None:
    """What would be started; the files of its secrets are not written yet."""
    deployment = _validated(draft)
    if deployment is None:
        return None
    texts = {secret.path: secret.text for secret in draft.secrets}
    launch = build_launch(deployment, facts, table, find_place(world, deployment, table))
    secrets = tuple(
        SecretFile(source_path=path, path=path, variable=name)
        for name, path in deployment.engine.secret_env.items()
    )
    compared = side_of_launch(
        world,
        replace(launch, secrets=(*launch.secrets, *secrets)),
        title=deployment.name,
        user=deployment.service.user or world.me,
        read_text=lambda path: texts[path] if path in texts else read_text(path),
    )
    return build_side(compared.start, table, load_variables(), compared.read_text)


def _validated(draft: Draft) -> Deployment | None:
    try:
        return Deployment.model_validate(draft.as_deployment())
    except ValidationError:
        return None


def _has_equal_gpus(facts: Facts) -> bool:
    """Whether the order in which GPUs are numbered makes no difference."""
    gpus = facts.read("gpus.gpus")
    return not isinstance(gpus, Unknown) and len({str(gpu.get("name")) for gpu in gpus}) == 1


def _refuse(taken: Taken, obstacles: Sequence[str]) -> None:
    if not obstacles:
        return
    raise Blocked(
        f"process {taken.process.pid} cannot be taken over: a deployment would be another server",
        obstacles,
        "nothing was written; start it without these, then take it over, or write a deployment "
        "with `stoker init`",
    )


def _unwritable(taken: Taken, draft: Draft) -> Blocked:
    """The deployment that was drafted breaks a rule of the format that nobody thought of."""
    try:
        Deployment.model_validate(draft.as_deployment())
        reasons = ["no launch could be made of it"]
    except ValidationError as error:
        reasons = [
            f"{'.'.join(map(str, each['loc']))}: {visible(each['msg'])}"
            for each in error.errors(include_url=False, include_input=False)
        ]
    return Blocked(
        f"process {taken.process.pid} cannot be written as a deployment",
        reasons,
        "nothing was written; write a deployment with `stoker init`",
    )
