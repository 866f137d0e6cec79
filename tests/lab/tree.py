"""The folder tree of a small Debian with systemd in it, built once and kept under ``.cache``.

Called by the lab's fixtures. Containers put an overlay on it, so nothing ever changes it. It needs
root and the Debian packages ``mmdebstrap`` and ``systemd-container``; packages come from wherever
this machine's own apt takes them.
"""

from __future__ import annotations

import fcntl
import hashlib
import platform
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: That of this machine: the tests' interpreter finds the libraries there that it was built for.
SUITE = platform.freedesktop_os_release().get("VERSION_CODENAME", "bookworm")
#: Python for its libraries; the last two for services of a user.
PACKAGES = ("systemd", "systemd-sysv", "dbus", "python3", "libpam-systemd", "dbus-user-session")
#: Tests change this machine's services only where this file is.
MARK = "/etc/stoker-lab"
#: A user whose services run without a login.
USER, USER_ID = "keeper", 1000

_SOURCES = ("/etc/apt/sources.list.d/debian.sources", "/etc/apt/sources.list")
#: What would wake up by itself or wait for a network that is not there.
_MASKED = (
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "console-getty.service",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "fstrim.timer",
    "getty.target",
    "systemd-networkd-wait-online.service",
)
_LEFT_OUT = ("/usr/share/man/*", "/usr/share/doc/*", "/usr/share/locale/*")
_BUILD_SECONDS = 600


def build_tree(folder: Path) -> Path:
    """The tree of this recipe below ``folder``; other sessions wait while one builds it."""
    folder.mkdir(parents=True, exist_ok=True)
    recipe = repr(
        (SUITE, PACKAGES, MARK, USER, USER_ID, _MASKED, _LEFT_OUT, _finish.__code__.co_code)
    )
    tree = folder / f"tree-{hashlib.sha256(recipe.encode()).hexdigest()[:12]}"
    with _locked(folder / "lock"):
        if not tree.exists():
            for older in folder.glob("tree-*"):
                shutil.rmtree(older)
            unfinished = folder / "tree-unfinished"
            _fill(unfinished)
            _finish(unfinished)
            unfinished.rename(tree)
    return tree


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _fill(tree: Path) -> None:
    sources = next((path for path in _SOURCES if Path(path).exists()), None)
    command = [
        *("mmdebstrap", "--quiet", "--variant=minbase", f"--include={','.join(PACKAGES)}"),
        *("--aptopt=Acquire::Languages none", "--dpkgopt=force-unsafe-io"),
        *(f"--dpkgopt=path-exclude={pattern}" for pattern in _LEFT_OUT),
        *(SUITE, str(tree)),
        *([sources] if sources else []),
    ]
    _run(command, seconds=_BUILD_SECONDS)


def _finish(tree: Path) -> None:
    # mmdebstrap copies these from the machine; a host name here would win over the container's.
    for name in ("hostname", "resolv.conf"):
        (tree / "etc" / name).unlink(missing_ok=True)
    (tree / "var/log/journal").mkdir(exist_ok=True)
    (tree / MARK.lstrip("/")).touch()
    # The interpreter of the tests may lie below here, and other users' services run it.
    (tree / "root").chmod(0o711)
    _run(["systemctl", f"--root={tree}", "--quiet", "mask", *_MASKED])
    _run(["useradd", "--root", str(tree), "--create-home", "--uid", str(USER_ID), USER])
    linger = tree / "var/lib/systemd/linger"
    linger.mkdir(parents=True, exist_ok=True)
    (linger / USER).touch()


def _run(command: list[str], *, seconds: float = 60) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds)
    assert done.returncode == 0, (
        f"{' '.join(command[:2])}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    )
