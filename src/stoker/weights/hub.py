"""Models of the hub: which commit and files a reference means, and fetching them.

Called by :mod:`stoker.weights.plan`. What lies in the cache whole is used without a network, and a
branch stays where it was until something of it must be fetched. The hub's own client does the
transfers, in a child process; the token is in that child's environment and nowhere else.
"""

from __future__ import annotations

import json
import posixpath
import re
import shlex
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass

from stoker.errors import HostError, PreparationFailed, UsageError
from stoker.model.facts import Plain
from stoker.model.plan import Preparation
from stoker.model.units import format_bytes
from stoker.ports import Command, CommandResult, Host, ReadableHost
from stoker.preparing.failures import FULL_DISK_HINT, last_line, naming_failure, require_space
from stoker.preparing.growth import watch_growth
from stoker.preparing.tools import Tools, select_variables
from stoker.preparing.turn import clear_leftover, hold_turn, open_workplace, run_held
from stoker.weights import hub_reader
from stoker.weights.local import check_model
from stoker.weights.reference import (
    HubCache,
    HubModel,
    check_inside,
    choose_model_file,
    expand_shards,
    repository_folder,
    snapshot_folder,
)

_RECORD_SCHEMA = "snapshot/1"
_UNKNOWN_SIZE = -1
#: Where the client keeps locks of its own; whatever lies elsewhere in a cache, it takes for damage.
_IGNORED_FOLDER = ".locks"
_COMMIT = re.compile(r"[0-9a-f]{40}")
_LIST_TIMEOUT_SECONDS = 120.0
#: The last resort only: a fetch is ended when no byte came for :data:`PATIENCE_SECONDS`.
_FETCH_TIMEOUT_SECONDS = 7 * 24 * 3600.0
PATIENCE_SECONDS = 120.0

_NETWORK_HINT = (
    "see whether the hub can be reached (HTTPS_PROXY and HF_ENDPOINT are heeded); without a "
    "network, copy the model here and name it as path:/..."
)
_TOKEN_HINT = (
    "put a token of an account that has access into HF_TOKEN, or its file in HF_TOKEN_PATH"
)

#: The hub's client, as the extra ``hub`` of this package asks for it. It is named by itself: an
#: index may know another package by ours.
HUB_CLIENT = "huggingface_hub>=2.4"

#: What the hub's client meets (:data:`stoker.weights.hub_reader.PROBLEMS`), in words.
_PROBLEMS = {
    "no-client": (
        "models of the hub need the package huggingface_hub, which is not installed",
        f"install it with `{{python}} -m pip install '{HUB_CLIENT}'`",
    ),
    "gated": (
        "{repository} is gated: its owner gives access to people one by one",
        f"ask for access on its page, then {_TOKEN_HINT}",
    ),
    "not-found": (
        "the hub shows no repository {repository}",
        f"see the spelling; if it is private, {_TOKEN_HINT}",
    ),
    "no-revision": (
        "{repository} has no revision {revision}",
        "see its branches, tags and commits on the hub",
    ),
    "no-file": ("{repository} lacks a file at {revision}", "plan again: it may have changed"),
    "not-cached": ("{repository} is not whole in the cache", _NETWORK_HINT),
    "offline": (
        "{repository} is not whole in the cache, and HF_HUB_OFFLINE forbids the network",
        "unset HF_HUB_OFFLINE, or name a local copy as path:/...",
    ),
    "failing": (
        "the hub itself failed at {repository} (status {status})",
        "run the command again in a while",
    ),
    "refused": ("the hub refused {repository} (status {status})", _TOKEN_HINT),
    "unreachable": ("the hub could not be reached for {repository}", _NETWORK_HINT),
    "no-space": ("the disk became full while {repository} was fetched", FULL_DISK_HINT),
}


_QUIET_CLIENT = {
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_UPDATE_CHECK": "1",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The files that a reference means, at one commit.

    ``file`` is the model file in it, None where the whole folder is the model. ``files`` maps the
    names of all files that are needed to their sizes, -1 where only the name is known.
    """

    commit: str
    file: str | None
    files: Mapping[str, int]


def snapshot_path(model: HubModel, snapshot: Snapshot, cache: HubCache) -> str:
    """The path that an engine gets."""
    folder = snapshot_folder(model, cache, snapshot.commit)
    return posixpath.join(folder, snapshot.file) if snapshot.file else folder


def find_snapshot(
    model: HubModel, file: str | None, *, cache: HubCache, host: ReadableHost
) -> Snapshot | None:
    """The snapshot that lies whole in the cache, found without a network, or None."""
    commit = _read_commit(model, cache, host)
    if commit is None:
        return None
    if file is not None:
        names = dict.fromkeys(expand_shards(check_inside(file)), _UNKNOWN_SIZE)
        snapshot = Snapshot(commit=commit, file=next(iter(names)), files=names)
    else:
        recorded = _read_record(model, commit, cache=cache, host=host)
        if recorded is None:
            return None
        snapshot = recorded
    return None if missing_files(model, snapshot, cache=cache, host=host) else snapshot


def list_snapshot(
    model: HubModel,
    file: str | None,
    *,
    cache: HubCache,
    host: ReadableHost,
    env: Mapping[str, str],
    python: str,
) -> Snapshot:
    """The snapshot as the hub has it now. Writes nothing.

    Raises PreparationFailed when the hub does not answer, UsageError when ``file`` is not there or
    the repository holds several models and no file is named.
    """
    command = Command(
        argv=(*_reader(python), "list", model.repository, model.revision, "--cache", cache.path),
        timeout_seconds=_LIST_TIMEOUT_SECONDS,
        env=_reader_variables(env, home=cache.path),
    )
    with naming_failure(f"asking the hub for {model.repository}"):
        answer = _read_answer(host.run(command), model, python)
    sizes = {str(name): int(size) for name, size in answer["files"]}
    return _choose_files(model, file, commit=str(answer["commit"]), sizes=sizes)


def missing_files(
    model: HubModel, snapshot: Snapshot, *, cache: HubCache, host: ReadableHost
) -> dict[str, int]:
    """The files of a snapshot that are not in the cache yet, with their sizes."""
    folder = snapshot_folder(model, cache, snapshot.commit)
    return {
        name: size
        for name, size in snapshot.files.items()
        if not _is_there(posixpath.join(folder, name), size, host)
    }


def plan_hub(
    model: HubModel,
    snapshot: Snapshot,
    host: ReadableHost,
    *,
    cache: HubCache,
    details: Mapping[str, Plain],
) -> Preparation | None:
    """The preparation that completes the snapshot, or None when it is whole.

    ``details`` are taken over; the snapshot joins them.
    """
    missing = missing_files(model, snapshot, cache=cache, host=host)
    if not missing:
        return None
    size_bytes = sum(missing.values())
    file = f" {snapshot.file}" if snapshot.file else ""
    return Preparation(
        kind="model",
        target=snapshot_path(model, snapshot, cache),
        summary=f"{model.repository}{file} at {snapshot.commit[:12]} "
        f"({format_bytes(size_bytes)} download)",
        size_bytes=size_bytes,
        details={
            **details,
            "commit": snapshot.commit,
            "chosen": snapshot.file,
            "files": dict(snapshot.files),
        },
    )


def fetch_hub(
    model: HubModel,
    snapshot: Snapshot,
    tools: Tools,
    *,
    cache: HubCache,
    python: str,
    patience_seconds: float = PATIENCE_SECONDS,
) -> None:
    """Complete the snapshot, or raise PreparationFailed; files that are whole are kept.

    ``python`` is an interpreter that has the hub's client. Safe to call again after any
    interruption, and by two processes at once.
    """
    repository = repository_folder(model, cache)
    aside = posixpath.join(cache.path, _IGNORED_FOLDER)
    with hold_turn(repository, tools, folder=aside), ExitStack() as undo:
        missing = missing_files(model, snapshot, cache=cache, host=tools.host)
        if not missing:
            return
        workplace = posixpath.join(aside, f".{posixpath.basename(repository)}.fetching")
        clear_leftover(workplace, workplace=workplace, tools=tools)
        undo.callback(_tidy, repository, workplace, host=tools.host, is_shared=cache.is_shared)
        with naming_failure(f"fetching {model.repository}"):
            require_space(tools.host, cache.path, sum(missing.values()))
            _note(model, snapshot, cache=cache, host=tools.host)
            open_workplace(workplace, tools)
            poll = watch_growth(
                tools,
                snapshot_path(model, snapshot, cache),
                title=model.repository,
                folders=(posixpath.join(repository, "blobs"),),
                expected_bytes=sum(missing.values()),
                patience_seconds=patience_seconds,
            )
            result = run_held(
                tools,
                (*_reader(python), *_fetch_arguments(model, snapshot, cache)),
                workplace=workplace,
                env=_reader_variables(tools.environ, home=workplace),
                timeout_seconds=_FETCH_TIMEOUT_SECONDS,
                poll=poll,
            )
            _read_answer(result, model, python)
            _check(model, snapshot, cache=cache, host=tools.host)


def _note(model: HubModel, snapshot: Snapshot, *, cache: HubCache, host: Host) -> None:
    """Note what finds the snapshot again without a network, once its files are there."""
    if snapshot.file is None:
        record = json.dumps({"schema": _RECORD_SCHEMA, "files": dict(snapshot.files)}, indent=2)
        host.write_file(_record_path(model, snapshot.commit, cache), record.encode(), 0o644)
    if model.revision != snapshot.commit:
        # As the client does it: where a branch stood when it was fetched.
        host.write_file(_branch_path(model, cache), snapshot.commit.encode(), 0o644)


def _check(model: HubModel, snapshot: Snapshot, *, cache: HubCache, host: ReadableHost) -> None:
    missing = missing_files(model, snapshot, cache=cache, host=host)
    if missing:
        raise PreparationFailed(
            f"the hub's client did not bring {', '.join(missing)} of {model.repository}"
        )
    reason = check_model(snapshot_path(model, snapshot, cache), host)
    if reason:
        raise PreparationFailed(f"{model.repository}: {reason}")


def _tidy(repository: str, workplace: str, *, host: Host, is_shared: bool) -> None:
    """Remove what transfers leave when they are killed: the client never continues them.

    In a cache that is shared with other programs, it might be their transfer that goes on.
    """
    blobs = posixpath.join(repository, "blobs")
    with suppress(HostError):
        host.remove_tree(workplace)
        unfinished = [] if is_shared else host.list_folder(blobs)
        for name in unfinished:
            if name.endswith(".incomplete"):
                host.remove_file(posixpath.join(blobs, name))


def _choose_files(
    model: HubModel, file: str | None, *, commit: str, sizes: Mapping[str, int]
) -> Snapshot:
    """The files that are needed of those that the repository has at a commit."""
    chosen = file or choose_model_file(tuple(sizes), model.repository)
    if chosen is None:
        return Snapshot(commit=commit, file=None, files=sizes)
    names = expand_shards(check_inside(chosen))
    absent = [name for name in names if name not in sizes]
    if absent:
        has = ", ".join(name for name in sizes if name.endswith(".gguf")) or ", ".join(sizes)
        raise UsageError(f"{model.repository} has no file {absent[0]}", f"it has: {has}")
    return Snapshot(commit=commit, file=names[0], files={name: sizes[name] for name in names})


def _is_there(path: str, size_bytes: int, host: ReadableHost) -> bool:
    try:
        found = host.stat(path)
    except HostError:
        return False
    return found is not None and size_bytes in (_UNKNOWN_SIZE, found.size_bytes)


def _read_commit(model: HubModel, cache: HubCache, host: ReadableHost) -> str | None:
    """The commit that a revision is, or that a branch was when it was fetched."""
    if _COMMIT.fullmatch(model.revision):
        return model.revision
    try:
        commit = host.read_text(_branch_path(model, cache)).strip()
    except HostError:
        return None
    return commit if _COMMIT.fullmatch(commit) else None


def _read_record(
    model: HubModel, commit: str, *, cache: HubCache, host: ReadableHost
) -> Snapshot | None:
    """What a fetch of the whole repository noted: the client's cache alone cannot tell."""
    try:
        files = json.loads(host.read_text(_record_path(model, commit, cache)))["files"]
        return _choose_files(model, None, commit=commit, sizes=files)
    except (HostError, ValueError, LookupError, TypeError, AttributeError):
        return None


def _record_path(model: HubModel, commit: str, cache: HubCache) -> str:
    return posixpath.join(repository_folder(model, cache), ".stoker", f"{commit}.json")


def _branch_path(model: HubModel, cache: HubCache) -> str:
    return posixpath.join(repository_folder(model, cache), "refs", model.revision)


def _reader(python: str) -> tuple[str, ...]:
    """The child's program. Not isolated: the client may lie in the person's own packages."""
    return (python, "-P", hub_reader.__file__)


def _fetch_arguments(model: HubModel, snapshot: Snapshot, cache: HubCache) -> tuple[str, ...]:
    named = snapshot.files if snapshot.file else ()
    files = [word for name in named for word in ("--file", name)]
    return ("fetch", model.repository, snapshot.commit, "--cache", cache.path, *files)


def _reader_variables(env: Mapping[str, str], *, home: str) -> dict[str, str]:
    """The child's environment: the network's and the hub's variables, a token among them.

    Without HF_HOME, the client keeps its own small files in ``home``.
    """
    chosen = {"HF_HOME": home} | select_variables(env, prefix="HF_") | _QUIET_CLIENT
    chosen.pop("HF_DEBUG", None)  # it prints every request, with its token
    return chosen


def _read_answer(result: CommandResult, model: HubModel, python: str) -> dict[str, Plain]:
    """What the child answered. Raises PreparationFailed when that is a problem, or no answer."""
    try:
        answer = json.loads(result.stdout)
    except ValueError:
        why = "it took too long" if result.timed_out else last_line(result.stderr)
        raise PreparationFailed(
            f"the hub's client failed at {model.repository}: {why}", _NETWORK_HINT
        ) from None
    if "problem" not in answer:
        return dict(answer)
    raise _explain(answer, model, python)


def _explain(answer: Mapping[str, Plain], model: HubModel, python: str) -> PreparationFailed:
    known = _PROBLEMS.get(answer["problem"])
    if known is None:
        said = last_line(answer["detail"])
        return PreparationFailed(f"the hub's client failed at {model.repository}: {said}")
    summary = known[0].format(
        repository=model.repository, revision=model.revision, status=answer.get("status")
    )
    return PreparationFailed(summary, known[1].format(python=shlex.quote(python)))
