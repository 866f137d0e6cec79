"""`stoker up`: apply, and without a file the embedded example."""

from __future__ import annotations

from stoker.commands.apply import Applied, apply_file, apply_text
from stoker.commands.world import World
from stoker.errors import UsageError
from stoker.spec import edit_deployment, load_embedded_example

EMBEDDED_ORIGIN = "the embedded example"


def up_deployment(world: World, file: str | None, *, port: int | None) -> Applied:
    """Apply ``file``, or the embedded example on ``port``. Raises like apply."""
    if file is None:
        text = load_embedded_example()
        if port is not None:
            text = edit_deployment(text, {"serve.port": port})
        return apply_text(world, text, EMBEDDED_ORIGIN)
    if port is not None:
        raise UsageError("--port is for the embedded example alone", f"set serve.port in {file}")
    return apply_file(world, file)
