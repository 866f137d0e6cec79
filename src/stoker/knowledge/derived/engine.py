"""The engine's program: how it is called, and how a person is told that it is not there.

Called by :mod:`stoker.knowledge.derive`. Pure; whether it is there is the engine probe's to say.
"""

from __future__ import annotations

import posixpath

from stoker.knowledge.derived.case import Case
from stoker.model.facts import Plain

_ON_PATH = "system"


def derive_engine(case: Case) -> dict[str, Plain]:
    """``command``: the program; ``absence``: the sentence for one that is not there; ``has_own``:
    whether Stoker can install a build of this engine by itself."""
    command = case.launch.argv[0]
    is_on_path = case.deployment.engine.environment == _ON_PATH
    absence = (
        f"the command {posixpath.basename(command)} is not on the PATH"
        if is_on_path
        else f"there is no engine at {command}"
    )
    return {"command": command, "absence": absence, "has_own": case.table.embedded is not None}
