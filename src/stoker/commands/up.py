"""`stoker up`: apply, and without a file the embedded example."""

from __future__ import annotations

from collections.abc import Sequence

from stoker.commands.apply import Applied, apply_file, apply_text
from stoker.commands.world import World
from stoker.errors import UsageError
from stoker.knowledge.engines import engine_kinds
from stoker.spec import edit_deployment, load_embedded_example, parse_deployment
from stoker.state.documents import read_current
from stoker.state.folder import check_state_folder

EMBEDDED_ORIGIN = "the embedded example"


def up_deployment(
    world: World, file: str | None, *, port: int | None, end_holders: Sequence[int] = ()
) -> Applied:
    """Apply ``file``, or the embedded example on ``port``. Raises like apply.

    Without a port the example stays where it is: a second `up` changes nothing.
    """
    if file is None:
        text = load_embedded_example()
        port = port if port is not None else _port_in_force(world, text)
        if port is not None:
            text = edit_deployment(text, {"serve.port": port})
        return apply_text(world, text, EMBEDDED_ORIGIN, end_holders=end_holders)
    if port is not None:
        raise UsageError("--port is for the embedded example alone", f"set serve.port in {file}")
    return apply_file(world, file, end_holders=end_holders)


def _port_in_force(world: World, text: str) -> int | None:
    name = parse_deployment(text, EMBEDDED_ORIGIN, engine_kinds=engine_kinds()).name
    if not check_state_folder(world.host, world.folders, me=world.me):
        return None
    current = read_current(world.host, world.folders, name)
    return current.launch.port if current else None
