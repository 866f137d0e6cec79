"""What a deployment leaves behind that nobody will ask for again, removed once it is down.

An activation of `stoker down`, after the service is gone: logs, results of checks, old
generations. Weights, environments and the journals of runs stay.
"""

from __future__ import annotations

from stoker.commands.world import World
from stoker.model.layout import deployment_folder, supervisor_folder
from stoker.model.plan import Folders
from stoker.state.documents import list_deployments


def leftovers(folders: Folders, name: str, log_path: str) -> tuple[str, str, str]:
    """The deployment's folder, its service's folder and its log."""
    return deployment_folder(folders, name), f"{folders.services}/{name}", log_path


def forget_deployment(world: World, name: str) -> None:
    """Remove them; nothing happens for those that are not there. Raises HostError."""
    documents, service, log_path = leftovers(world.folders, name, world.supervisor.log_path(name))
    folders = [documents, service]
    if not list_deployments(world.host, world.folders):
        folders.append(supervisor_folder(world.folders))  # its daemon went with the last one
    for folder in folders:
        if world.host.stat(folder) is not None:
            world.host.remove_tree(folder)
    folder, _, file = log_path.rpartition("/")
    if world.host.stat(folder) is None:
        return
    for entry in world.host.list_folder(folder):
        # The supervisor numbers rotated logs: name.log, name.log.1, ...
        if entry == file or (entry.startswith(file + ".") and entry[len(file) + 1 :].isdigit()):
            world.host.remove_file(f"{folder}/{entry}")
