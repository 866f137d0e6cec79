"""Which Python distributions lie in the engine's environment, read from the disk alone.

The environment is found from the engine's executable: an interpreter, or a script whose first
line names one. Nothing of it is run, so a broken environment can be looked at too. Called where a
deployment is observed; what the names mean is for :mod:`stoker.knowledge`.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

from stoker.errors import HostError
from stoker.model.addresses import bare_address
from stoker.model.facts import Target
from stoker.ports import Probe, ReadableHost
from stoker.probes.reading import list_if_any, read_if_any, read_link_if_any

_PYTHON = re.compile(r"(python|pypy)3?(\.\d+)?t?")
_NUMBERED = re.compile(r"python(3\.\d+)t?")
#: The second line of a launcher whose interpreter's path is too long for a first line (distlib).
_LONG_LAUNCHER = re.compile(r"^'''exec' \"?([^\"'\n]+?)\"? \"\$0\"", re.MULTILINE)
#: Printable ASCII alone: a name and a version are shown.
_DISTRIBUTION = re.compile(r"([A-Za-z0-9][!-,.-~]*)-([!-,.-~]+?)(?:-py3[.\d]*)?\.(?:dist|egg)-info")
_CUDA = re.compile(r"^cuda\b[^=]*=\s*(?:['\"]([\d.]+)['\"]|None)", re.MULTILINE)
_LOCAL_CUDA = re.compile(r"\+(?:.*\.)?cu(\d+)(\d)\b")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_HEAD_BYTES = 4096
_MOST_LINKS = 10
_MOST_DISTRIBUTIONS = 5000
_MOST_FOLDERS = 12
#: How far above an editable install's folder its repository may begin.
_MOST_PARENTS = 4
_SCHEME = "file"


def read(host: ReadableHost, target: Target) -> Mapping[str, str]:
    """The names of all distributions in the folders that the engine's interpreter imports from."""
    if not target.command:
        raise HostError("no engine command is known yet")
    program = target.command[0]
    if host.stat(program) is None:
        return {"state": "missing"}
    interpreter = find_interpreter(host, program)
    if interpreter is None:
        return {"state": "no-python", "program": program}
    prefix, folders = _find_folders(host, interpreter)
    listed = [_list_distributions(host, folder) for folder in folders]
    found = [each for each in listed if each["names"]]
    return {
        "state": "read",
        "interpreter": interpreter,
        "prefix": prefix,
        "folders": json.dumps(found),
        "origins": json.dumps(_read_origins(host, found)),
        "torch": _read_torch(host, found),
    }


def find_interpreter(host: ReadableHost, program: str) -> str | None:
    """The Python that runs a program; None for a program that needs none.

    Raises HostError for a script of another kind, behind which there may be one.
    """
    if _PYTHON.fullmatch(posixpath.basename(program)):
        return program
    head = host.read_bytes(program, 0, _HEAD_BYTES).decode("utf-8", "replace")
    if not head.startswith("#!"):
        return None
    if long := _LONG_LAUNCHER.search(head):
        return long[1]
    words = head[2:].split("\n", 1)[0].split()
    if words and posixpath.basename(words[0]) == "env":
        named = next((word for word in words[1:] if not word.startswith("-")), "")
        words = [host.find_command(named) or named]
    if words and words[0].startswith("/") and _PYTHON.fullmatch(posixpath.basename(words[0])):
        return words[0]
    raise HostError(f"{program} is a script of another kind, so its Python is not known")


def _find_folders(host: ReadableHost, interpreter: str) -> tuple[str, list[str]]:
    """The environment's own folder, and those that its packages are imported from, in order."""
    folder = posixpath.dirname(interpreter)
    for place in (folder, posixpath.dirname(folder)):
        settings = read_if_any(host, f"{place}/pyvenv.cfg")
        if settings is not None:
            return place, list(_venv_folders(host, place, _parse_settings(settings)))
    real = follow_links(host, interpreter)
    prefix = posixpath.dirname(posixpath.dirname(real))
    numbered = _NUMBERED.fullmatch(posixpath.basename(real))
    return prefix, list(_prefix_folders(host, prefix, numbered[1] if numbered else ""))


def _venv_folders(host: ReadableHost, prefix: str, settings: Mapping[str, str]) -> Iterator[str]:
    told = settings.get("version") or settings.get("version_info") or ""
    version = ".".join(told.split(".")[:2])
    yield from _prefix_folders(host, prefix, version)
    home = settings.get("home", "")
    if settings.get("include-system-site-packages", "").lower() == "true" and home:
        yield from _prefix_folders(host, posixpath.dirname(home), version)


def _parse_settings(text: str) -> dict[str, str]:
    pairs = (line.partition("=") for line in text.splitlines())
    return {name.strip().lower(): value.strip() for name, _, value in pairs}


def _prefix_folders(host: ReadableHost, prefix: str, version: str) -> Iterator[str]:
    """``site-packages`` and Debian's ``dist-packages`` of a prefix; what is local comes first."""
    local = [f"{prefix}/local"] if prefix == "/usr" else []
    for library in (f"{root}/{name}" for root in (*local, prefix) for name in ("lib", "lib64")):
        if library.endswith("64") and read_link_if_any(host, library) is not None:
            continue  # it leads to the other one
        for name in list_if_any(host, library):
            if name == "python3" or _is_version(name, version):
                yield f"{library}/{name}/site-packages"
                yield f"{library}/{name}/dist-packages"


def _is_version(name: str, version: str) -> bool:
    numbered = _NUMBERED.fullmatch(name)
    return numbered is not None and (not version or numbered[1] == version)


def follow_links(host: ReadableHost, path: str) -> str:
    """Where a path leads by links of its last part, of which so many are followed at most."""
    for _ in range(_MOST_LINKS):
        link = read_link_if_any(host, path)
        if link is None:
            break
        path = posixpath.normpath(posixpath.join(posixpath.dirname(path), link))
    return path


def _list_distributions(host: ReadableHost, folder: str) -> dict[str, Any]:
    names = [name for name in list_if_any(host, folder) if _DISTRIBUTION.fullmatch(name)]
    if len(names) > _MOST_DISTRIBUTIONS:
        raise HostError(f"{folder} holds more than {_MOST_DISTRIBUTIONS} distributions")
    return {"path": folder, "names": names}


def _read_origins(host: ReadableHost, listed: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """For what came from elsewhere than an index: the record of it, and the commit it stands on."""
    origins: dict[str, Any] = {}
    for folder in listed[:_MOST_FOLDERS]:
        for name in folder["names"]:
            record = read_if_any(host, f"{folder['path']}/{name}/direct_url.json")
            if record is not None and name not in origins:
                origins[name] = {"record": record, "head": _read_head(host, record)}
    return origins


def _read_head(host: ReadableHost, record: str) -> str:
    """What the repository of an editable install has checked out; empty where that is not told."""
    url, is_editable = _parse_record(record)[:2]
    if not is_editable or urlsplit(url).scheme != _SCHEME:
        return ""
    folder = unquote(urlsplit(url).path)
    for _ in range(_MOST_PARENTS):
        head = read_if_any(host, f"{folder}/.git/HEAD")
        if head is not None:
            branch = head.strip().removeprefix("ref: ")
            return (read_if_any(host, f"{folder}/.git/{branch}") or head).strip()[:_HEAD_BYTES]
        folder = posixpath.dirname(folder)
    return ""


def _parse_record(record: str) -> tuple[str, bool, str]:
    """The address, whether it is editable, and the commit of a ``direct_url.json`` (PEP 610)."""
    try:
        data = json.loads(record)
    except (ValueError, RecursionError):
        return "", False, ""
    if not isinstance(data, dict):
        return "", False, ""
    version, folder = data.get("vcs_info"), data.get("dir_info")
    commit = version.get("commit_id") if isinstance(version, dict) else ""
    is_editable = isinstance(folder, dict) and folder.get("editable") is True
    return str(data.get("url") or ""), is_editable, str(commit or "")


def _read_torch(host: ReadableHost, listed: Sequence[Mapping[str, Any]]) -> str:
    """What PyTorch says of its build, where its version alone does not tell the CUDA release."""
    for folder in listed:
        if any(name.startswith("torch-") for name in folder["names"]):
            return read_if_any(host, f"{folder['path']}/torch/version.py") or ""
    return ""


def parse(raw: Mapping[str, str]) -> dict[str, Any]:
    """``state``: missing, no-python (the ``program`` needs none) or read.

    ``packages``: version by normalised name (PEP 503), of the first folder that has it;
    ``doubled``: versions of a name that one folder has twice, which is then not in ``packages``.
    ``origins``: for what came from elsewhere than an index its ``url``, ``commit`` (None where it
    is not told) and ``is_editable``. ``torch_cuda``: PyTorch's CUDA release, None for a build
    without, left out where it is not told.
    """
    if raw["state"] != "read":
        return {key: raw[key] for key in ("state", "program") if key in raw}
    packages: dict[str, str] = {}
    doubled: dict[str, list[str]] = {}
    for folder in json.loads(raw["folders"]):
        own: dict[str, list[str]] = {}
        for name in folder["names"]:
            if match := _DISTRIBUTION.fullmatch(name):
                own.setdefault(normalise(match[1]), []).append(match[2].replace("_", "-"))
        for name, versions in own.items():
            if name in packages or name in doubled:
                continue
            if len(versions) == 1:
                packages[name] = versions[0]
            else:
                doubled[name] = sorted(versions)
    return {
        "state": "read",
        "interpreter": raw["interpreter"],
        "prefix": raw["prefix"],
        "folders": [folder["path"] for folder in json.loads(raw["folders"])],
        "packages": dict(sorted(packages.items())),
        "doubled": doubled,
        "origins": _parse_origins(json.loads(raw["origins"])),
        **_parse_cuda(packages.get("torch"), raw["torch"]),
    }


def normalise(name: str) -> str:
    """A distribution's name as PEP 503 compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _parse_origins(origins: Mapping[str, Any]) -> dict[str, Any]:
    parsed = {}
    for folder, told in origins.items():
        match = _DISTRIBUTION.fullmatch(folder)
        url, is_editable, commit = _parse_record(told["record"])
        commits = (each for each in (commit, told["head"]) if _COMMIT.fullmatch(each))
        name = normalise(match[1] if match else folder)
        url = bare_address(url)  # facts are shown and passed on
        parsed[name] = {"url": url, "commit": next(commits, None), "is_editable": is_editable}
    return parsed


def _parse_cuda(version: str | None, text: str) -> dict[str, str | None]:
    """The CUDA release, from what PyTorch says of itself, else from its version (``+cu130``)."""
    if found := _CUDA.search(text):
        return {"torch_cuda": found[1]}
    if local := _LOCAL_CUDA.search(version or ""):
        return {"torch_cuda": f"{local[1]}.{local[2]}"}
    return {"torch_cuda": None} if version is None or version.endswith("+cpu") else {}


PROBE = Probe(
    id="engine_packages",
    source="the *.dist-info folders of the engine's environment",
    read=read,
    parse=parse,
)
