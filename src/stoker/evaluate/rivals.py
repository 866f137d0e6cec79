"""Other tools, installed beside Stoker to be asked the same.

Called by the reports that compare. Each tool has a virtual environment of its own in a folder that
git ignores, at one pinned version, so nothing of it comes near Stoker's own. A tool that cannot be
installed is a sentence in the report and no reason to end it.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from stoker.errors import HostError
from stoker.hosts.local import LocalHost
from stoker.ports import Command

_FOLDER = Path(".cache/rivals")
_INSTALL_SECONDS = 240.0
_CHECK_SECONDS = 45.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """What is installed. ``check``: words for its interpreter that succeed where it is whole."""

    name: str
    version: str
    check: tuple[str, ...]


def install(package: Package) -> tuple[str, str]:
    """The interpreter that has the package, or why there is none."""
    # Commands run in the root folder.
    folder = (_FOLDER / f"{package.name}-{package.version}").absolute()
    python = str(folder / "bin" / "python")
    steps = (
        (sys.executable, "-m", "venv", str(folder)),
        (python, "-m", "pip", "install", "--quiet", f"{package.name}=={package.version}"),
    )
    check = Command(argv=(python, *package.check), timeout_seconds=_CHECK_SECONDS, env={})
    host = LocalHost()
    try:
        if Path(python).exists() and not host.run(check).exit_status:
            return python, ""
        sys.stderr.write(f"  installing {package.name} {package.version} into {folder}\n")
        for argv in steps:
            ran = host.run(Command(argv=argv, timeout_seconds=_INSTALL_SECONDS, env=os.environ))
            if ran.exit_status:
                return "", f"{package.name}: not run ({last_line(ran.stderr)})"
    except HostError as error:
        return "", f"{package.name}: not run ({error.summary})"
    return python, ""


def last_line(text: str) -> str:
    """The last thing that a program said, as a reason."""
    return (text.strip().splitlines() or ["no reason was given"])[-1][:200]
