"""Which supervisor keeps a deployment running.

A host may have several; a deployment has one, chosen when it is first applied. Commands switch
the world to it before they look at the service.
"""

from __future__ import annotations

from dataclasses import replace

from stoker.commands.world import World
from stoker.errors import SupervisorError, UsageError
from stoker.model.deployment import Deployment
from stoker.state.documents import read_current

#: It is there wherever Stoker is.
DEFAULT_KIND = "supervisord"
#: It is there where it is the machine's process 1, and starts services with the machine.
SYSTEM_KIND = "systemd"


def choose_kind(world: World) -> str:
    """What `auto` means for a new deployment: systemd where services outlive a logout and a boot.

    Root has that wherever systemd is process 1; should it not answer, the plan says so. Other
    users have it where a manager of their own runs without a login, and answers.
    """
    supervisor = world.supervisors.get(SYSTEM_KIND)
    if supervisor is None or not supervisor.properties.starts_on_boot:
        return DEFAULT_KIND
    if world.is_root:
        return SYSTEM_KIND
    try:
        supervisor.check_usable()
    except SupervisorError:
        return DEFAULT_KIND
    return SYSTEM_KIND


def using(world: World, kind: str) -> World:
    """The same world with this supervisor. Raises UsageError for one that it does not have."""
    supervisor = world.supervisors.get(kind)
    if supervisor is None:
        raise UsageError(
            f"there is no supervisor {kind} on this machine",
            f"there are: {', '.join(sorted(world.supervisors))}",
        )
    return replace(world, supervisor=supervisor)


def using_supervisor_of(world: World, name: str) -> World:
    """The world with the supervisor of a deployment that is in force."""
    current = read_current(world.host, world.folders, name)
    return world if current is None else using(world, current.service.supervisor)


def using_wanted(world: World, deployment: Deployment) -> World:
    """The world with the supervisor that a deployment file asks for.

    `auto` stays with the one that the deployment has. Raises UsageError when the file asks for
    another than that: two managers must never run one service.
    """
    current = read_current(world.host, world.folders, deployment.name)
    wanted = deployment.service.supervisor
    has = current.service.supervisor if current else None
    if wanted == "auto":
        return using(world, has or choose_kind(world))
    if has not in (None, wanted):
        raise UsageError(
            f"{deployment.name} runs under {has}, and the file asks for {wanted}",
            f"take it down first: `stoker down {deployment.name}`, then apply again",
        )
    return using(world, wanted)
