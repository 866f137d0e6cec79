"""`stoker recipes sync`: reads a public collection of recipes and keeps what it says.

A folder is read where it lies; a repository is cloned by git, shallow, into the state folder, and
the clone is removed again. Nothing of a collection is run, and all of it is bounded.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from stoker.apply.lock import hold_lock
from stoker.commands.folders import absolute_path
from stoker.commands.world import World
from stoker.errors import HostError, NotFound, UsageError
from stoker.model.addresses import bare_address, hide_addresses
from stoker.model.event import Event, EventKind
from stoker.model.layout import recipes_folder
from stoker.model.recipe import RecipeCollection, RecipeComplaint, RecipeEntry, RecipeFile
from stoker.ports import Command, Host
from stoker.recipes import sglang, vllm
from stoker.recipes.collection import Format, Provenance, refused
from stoker.state.recipes import put_in_force, remove_leftovers, write_recipes

FORMATS = (vllm.FORMAT, sglang.FORMAT)

#: The two collections have 250 files of at most 80 KiB.
MAX_FILES = 4000
MAX_DEPTH = 8
MAX_FILE_BYTES = 2 << 20
MAX_KEPT_BYTES = 512 << 20
MAX_COMPLAINTS = 500
CLONE_SECONDS = 300.0

_REPOSITORY = re.compile(r"^(?:(?:https|ssh|file)://[^\s-]\S*|[\w.-]+@[\w.-]+:\S+)$")
_COMMIT = re.compile(r"^[0-9a-f]{40}(?:[0-9a-f]{24})?$")
_GIVEN_COMMIT = re.compile(r"^[0-9A-Za-z][\w.-]{0,80}$")
_SUFFIXES = (".yaml", ".yml")
#: What git gets of the environment: where its own files and the way out are.
_ENVIRONMENT = (
    *("PATH", "HOME", "USER", "SSH_AUTH_SOCK", "SSL_CERT_FILE", "SSL_CERT_DIR"),
    *("https_proxy", "HTTPS_PROXY", "http_proxy", "no_proxy", "NO_PROXY", "all_proxy"),
)
UNKNOWN_COMMIT = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """A collection in a folder: its format, and which of its files are read."""

    format: Format
    root: str
    shared: tuple[str, ...]
    entries: tuple[str, ...]


def sync_recipes(
    world: World, source: str, *, commit: str | None = None
) -> tuple[RecipeCollection, ...]:
    """Read a folder or a repository, and put what it says in the place of an older reading.

    ``commit`` is what the owner says that a folder without git is. Raises UsageError where there
    is no collection, HostError where something cannot be read or written, LockHeld.
    """
    if commit is not None and not _GIVEN_COMMIT.match(commit):
        raise UsageError(f"{commit!r} cannot be the name of a commit")
    world.open_state()
    folder = recipes_folder(world.folders)
    world.host.make_folder(folder, 0o700)
    now = datetime.fromtimestamp(world.clock.now_seconds(), UTC)
    with hold_lock(
        posixpath.join(folder, "lock"), verb="recipes sync", now_text=f"{now:%Y-%m-%d %H:%M:%S} UTC"
    ):
        remove_leftovers(world.host, world.folders)
        if _REPOSITORY.match(source):
            with _clone(world, source) as path:
                return _sync_folder(world, path, repository=source, commit=commit)
        path = absolute_path(source)
        return _sync_folder(world, path, repository=path, commit=commit)


def _sync_folder(
    world: World, path: str, *, repository: str, commit: str | None
) -> tuple[RecipeCollection, ...]:
    found = find_collections(world.host, path)
    if not found:
        raise UsageError(
            f"there is no collection of recipes in {bare_address(repository)}",
            "give the folder or the address of vLLM's recipes or of SGLang's cookbook",
        )
    if len(found) > 1 and commit is not None:
        raise UsageError("--commit is of one collection, and there are several", "name one folder")
    made = []
    for each in found:
        own = read_commit(world.host, each.root) or read_commit(world.host, path)
        provenance = Provenance(
            repository=_address_of(world.host, each.root, repository, path),
            commit=own or commit or UNKNOWN_COMMIT,
        )
        made.append(_read_collection(world, each, provenance))
    return tuple(made)


def find_collections(host: Host, path: str) -> tuple[_Found, ...]:
    """The collections in a folder itself, or in the folders right below it."""
    stat = host.stat(path)
    if stat is None or stat.kind != "folder":
        raise UsageError(f"{path} is no folder")
    found = list(_recognise(host, path))
    if not found:
        for name in host.list_folder(path):
            below = posixpath.join(path, name)
            if not name.startswith(".") and _is_folder(host, below):
                found += _recognise(host, below)
    return tuple(found)


def _recognise(host: Host, root: str) -> Iterator[_Found]:
    paths = list(_walk(host, root, "", 0))
    if len(paths) > MAX_FILES:
        raise UsageError(f"{root} holds more than {MAX_FILES} files of YAML")
    for form in FORMATS:
        shared, entries = form.choose(paths)
        if entries:
            yield _Found(format=form, root=root, shared=shared, entries=entries)


def _walk(host: Host, root: str, below: str, depth: int) -> Iterator[str]:
    """The YAML files of a folder, as paths below it; hidden ones are left out."""
    for name in host.list_folder(posixpath.join(root, below) if below else root):
        path = posixpath.join(below, name)
        if name.startswith("."):
            continue
        if name.endswith(_SUFFIXES):
            yield path
        elif depth < MAX_DEPTH and _is_folder(host, posixpath.join(root, path)):
            yield from _walk(host, root, path, depth + 1)


def _is_folder(host: Host, path: str) -> bool:
    with suppress(HostError):
        stat = host.stat(path)
        return stat is not None and stat.kind == "folder"
    return False


def _read_collection(world: World, found: _Found, provenance: Provenance) -> RecipeCollection:
    """Read all files of a collection, keep what they became, and put it in force."""
    now = world.clock.now_seconds()
    form, total = found.format, len(found.entries)
    folder = f"{form.name}-{int(now)}-{_digest(provenance.commit + found.root)[:8]}"
    shared = {path: _read_text(world.host, found.root, path) for path in found.shared}
    entries: list[RecipeEntry] = []
    complaints: list[RecipeComplaint] = []
    kept = 0
    for count, path in enumerate(found.entries):
        _tell(world, f"{form.name}: {path}", count / total)
        made = _read_entry(world.host, found, path, shared=shared, provenance=provenance)
        complaints += made.complaints
        if made.recipes:
            document = f"{count:04d}-{_digest(path)[:12]}.json"
            kept += write_recipes(world.host, world.folders, made, folder=folder, document=document)
            entries.append(_entry(made, document))
        if kept > MAX_KEPT_BYTES:
            raise UsageError(f"{found.root} becomes more than {MAX_KEPT_BYTES} bytes of recipes")
    collection = RecipeCollection(
        name=form.name,
        engine=form.engine,
        repository=provenance.repository,
        commit=provenance.commit,
        read_at_seconds=now,
        folder=folder,
        entries=tuple(entries),
        complaints=tuple(complaints[:MAX_COMPLAINTS]),
    )
    put_in_force(world.host, world.folders, collection)
    _tell(world, f"{form.name}: {sum(each.recipe_count for each in entries)} recipes", 1.0)
    return collection


def read_files(host: Host, found: _Found, provenance: Provenance) -> Iterator[RecipeFile]:
    """What all files of a collection become, one after the other; nothing is kept."""
    shared = {path: _read_text(host, found.root, path) for path in found.shared}
    for path in found.entries:
        yield _read_entry(host, found, path, shared=shared, provenance=provenance)


def _read_entry(
    host: Host, found: _Found, path: str, *, shared: Mapping[str, str], provenance: Provenance
) -> RecipeFile:
    try:
        content = _read_text(host, found.root, path)
    except HostError as error:
        return refused(path, "", error.summary)
    if len(content) >= MAX_FILE_BYTES:
        return refused(path, "", f"it has {MAX_FILE_BYTES} characters or more")
    return found.format.read(path, content, shared, provenance)


def _read_text(host: Host, root: str, path: str) -> str:
    full = posixpath.join(root, path)
    stat = host.stat(full)
    if stat is None or stat.kind != "file":
        raise NotFound(f"{full} is no file")
    return host.read_text(full, MAX_FILE_BYTES)


def _entry(made: RecipeFile, document: str) -> RecipeEntry:
    models = dict.fromkeys(model for recipe in made.recipes for model in recipe.models)
    return RecipeEntry(
        file=made.file,
        document=document,
        models=tuple(models),
        task=made.recipes[0].task,
        recipe_count=len(made.recipes),
    )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _tell(world: World, text: str, fraction: float) -> None:
    world.reporter.emit(
        Event(
            kind=EventKind.PROGRESS,
            subject="recipes",
            text=text,
            fraction=fraction,
            at_seconds=world.clock.now_seconds(),
        )
    )


def read_commit(host: Host, path: str) -> str:
    """The commit of a folder that git made, read from git's own files; empty where there is none.

    No program is started in a folder of strangers.
    """
    git = posixpath.join(path, ".git")
    with suppress(HostError):
        head = host.read_text(posixpath.join(git, "HEAD"), 4096).strip()
        if _COMMIT.match(head):
            return head
        name = head.removeprefix("ref: ")
        if not re.fullmatch(r"refs/[\w./-]{1,200}", name) or ".." in name:
            return ""
        with suppress(NotFound):
            told = host.read_text(posixpath.join(git, name), 4096).strip()
            return told if _COMMIT.match(told) else ""
        for line in host.read_text(posixpath.join(git, "packed-refs"), 4 << 20).splitlines():
            told, _, packed = line.partition(" ")
            if packed == name and _COMMIT.match(told):
                return told
    return ""


_URL = re.compile(r"^\s*url\s*=\s*(\S+)\s*$")


def _address_of(host: Host, root: str, told: str, path: str) -> str:
    """Where a collection comes from: what git says of a folder, else what the owner gave."""
    if not told.startswith("/"):
        return bare_address(told)
    if root != path:
        return root
    with suppress(HostError):
        for line in host.read_text(posixpath.join(root, ".git/config"), 1 << 16).splitlines():
            if found := _URL.match(line):
                return bare_address(found[1])
    return told


@contextmanager
def _clone(world: World, url: str) -> Iterator[str]:
    """A shallow clone of a repository, gone after the block. Raises UsageError or HostError."""
    git = world.host.find_command("git")
    if git is None:
        raise UsageError("git is not here, and a repository is cloned by it", "install git")
    path = posixpath.join(recipes_folder(world.folders), "clone")
    env = {name: world.env[name] for name in _ENVIRONMENT if name in world.env}
    command = Command(
        argv=(git, *_safe_options(), "clone", *_clone_options(), "--", url, path),
        timeout_seconds=CLONE_SECONDS,
        env={**env, "GIT_TERMINAL_PROMPT": "0", "GIT_LFS_SKIP_SMUDGE": "1", "LC_ALL": "C.UTF-8"},
        umask=0o077,
    )
    shown = bare_address(url)
    _tell(world, f"cloning {shown}", 0.0)
    try:
        result = world.host.run(command)
        if result.exit_status != 0:
            last = (result.stderr.strip().splitlines() or ["it says nothing"])[-1]
            told = hide_addresses(last.replace(url, shown))[:300]
            ending = "took too long" if result.timed_out else f"failed: {told}"
            raise HostError(f"git clone of {shown} {ending}")
        yield path
    finally:
        with suppress(HostError):
            if world.host.stat(path) is not None:
                world.host.remove_tree(path)


def _safe_options() -> tuple[str, ...]:
    """No hook, no program of the repository's choice, no protocol but these three."""
    told = (
        "protocol.allow=never",
        "protocol.https.allow=always",
        "protocol.ssh.allow=always",
        "protocol.file.allow=always",
        "core.hooksPath=/dev/null",
        "core.fsmonitor=false",
        "core.symlinks=false",
        "submodule.recurse=false",
        "advice.detachedHead=false",
    )
    return tuple(word for each in told for word in ("-c", each))


def _clone_options() -> tuple[str, ...]:
    return (
        *("--depth=1", "--single-branch", "--no-tags", "--no-recurse-submodules"),
        *("--template=", "--quiet"),
    )
