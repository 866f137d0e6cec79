"""What a deployment is judged by: everything that rules may ask about, and their findings.

Called where a plan is made. It looks at processes and at the owner's key file, and writes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stoker.commands.drifting import find_drift
from stoker.commands.resolve import Resolved
from stoker.commands.world import World
from stoker.errors import HostError
from stoker.knowledge.derive import build_tree
from stoker.knowledge.rules import evaluate_rules, load_rules
from stoker.model.deployment import Deployment
from stoker.model.facts import Plain
from stoker.model.finding import Finding
from stoker.model.launch import ServiceState
from stoker.state.documents import list_deployments, read_current
from stoker.supervisors.processes import find_descendants, read_processes

#: Longer than any key; a larger file is something else.
KEY_LIMIT_CHARACTERS = 4096


def judge(tree: Mapping[str, Plain], deployment: Deployment) -> tuple[Finding, ...]:
    """The findings at the plan stage; ``tree`` is that of :func:`knowledge_tree`."""
    return evaluate_rules(load_rules(), tree, stage="plan", accept=frozenset(deployment.accept))


def knowledge_tree(
    world: World, resolved: Resolved, *, ending: frozenset[int] = frozenset()
) -> dict[str, Plain]:
    """Everything that rules may ask about; ``ending`` are processes that will be gone by then."""
    name = resolved.deployment.name
    return build_tree(
        deployment=resolved.deployment,
        facts=resolved.facts,
        launch=resolved.launch,
        table=resolved.table,
        preparations=resolved.preparations,
        own_pids=pids_of_service(world, name),
        services=_pids_of_others(world, name),
        key_file=_key_file_facts(world, resolved.deployment),
        supervisor=world.supervisor.properties,
        user=resolved.user or world.me,
        me=world.me,
        folders=world.folders,
        ending=ending,
        drift=find_drift(world, name),
    )


def pids_of_service(world: World, name: str) -> frozenset[int]:
    """The processes of a deployment's own service, with what was left over of it."""
    service, orphans = world.supervisor.state(name), world.supervisor.find_orphans(name)
    return _pids_of(world, (service, *orphans))


def _pids_of_others(world: World, name: str) -> dict[int, str]:
    """The processes of this Stoker's other deployments, by pid."""
    pids: dict[int, str] = {}
    for other in list_deployments(world.host, world.folders):
        current = read_current(world.host, world.folders, other) if other != name else None
        supervisor = world.supervisors.get(current.service.supervisor) if current else None
        if supervisor is not None:
            pids |= dict.fromkeys(_pids_of(world, (supervisor.state(other),)), other)
    return pids


def _pids_of(world: World, services: Sequence[ServiceState]) -> frozenset[int]:
    """The processes of these services: the guard, the engine that it started, and its children."""
    leaders = {service.pid for service in services} - {0}
    try:
        processes = read_processes(world.host)
    except HostError:
        return frozenset(leaders)
    families = (find_descendants(processes, pid) for pid in leaders)
    return frozenset(leaders).union(*families)


def _key_file_facts(world: World, deployment: Deployment) -> dict[str, Plain] | None:
    path = deployment.serve.api_key_file
    if path is None:
        return None
    try:
        stat = world.host.stat(path)
        if stat is None or stat.kind != "file":
            return {"exists": False}
        text = world.host.read_text(path, 1 << 16)
    except HostError as error:
        return {"exists": False, "reason": error.summary}
    lines = [line for line in text.splitlines() if line.strip()]
    return {
        "exists": True,
        "mode": stat.mode,
        "is_empty": not lines,
        "line_count": len(lines),
        "flaw": key_flaw(text),
    }


def key_flaw(text: str) -> str:
    """Why a key cannot be used as it stands, empty if it can.

    Engines take the bytes of a line for the key, and HTTP carries visible ASCII alone.
    """
    if len(text) > KEY_LIMIT_CHARACTERS:
        return f"it is longer than {KEY_LIMIT_CHARACTERS} characters"
    if "\r" in text:
        return "its lines end in CR LF, and the CR would be part of the key"
    for line in filter(None, text.split("\n")):
        if line != line.strip():
            return "there are blanks around the key"
        if not all(33 <= ord(character) <= 126 for character in line):
            return "it holds characters that are not visible ASCII (a byte order mark, perhaps)"
    return ""
