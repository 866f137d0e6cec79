"""A whole machine in memory, which keeps the contract of the Host port.

For tests of everything that works through a Host. It passes the same conformance suite as the
real one, counts what was changed, and lets a test crash it before or after any effect::

    host = MemoryHost({"/etc/passwd": "root:x:0:0::/root:/bin/sh\n"})
    host.fuse = lambda moment, effect: ...   # raise Crash there
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from stoker.errors import AccessDenied, HostError, NoSpace, NotFound
from stoker.ports import Command, CommandResult, Stat

#: Answers a command, or None when there is no such program; may raise any HostError.
Runner = Callable[[Command], CommandResult | None]
#: Called with "before" or "after", and the effect as it stands in ``MemoryHost.effects``.
Fuse = Callable[[str, str], None]

_COMMAND_FOLDERS = ("/usr/local/bin", "/usr/bin", "/bin")
_MOST_LINKS = 40


class Crash(BaseException):
    """The machine went down here: no HostError, and nothing may catch it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """What lies at one path. ``target`` is the text of a link."""

    kind: str
    content: bytes = b""
    target: str = ""
    mode: int = 0o755
    owner: str = "root"
    modified_ns: int = 0


class MemoryHost:
    """A Host without a machine.

    ``files``: path to content; parent folders come by themselves. ``commands``: a callable, or a
    mapping from argv to its result or to its standard output. ``free``: what free_bytes answers;
    a longer write raises NoSpace. ``users``: the user names there are; ``user`` is the one that
    writes.

    To be set by tests as they like: ``nodes`` (all paths), ``processes`` (pid to identity),
    ``stubborn`` (pids that cannot be ended), ``denied`` (paths that, with all below them, nobody
    may touch), ``fuse``. ``effects`` tells what was done, in order.
    """

    def __init__(
        self,
        files: Mapping[str, str | bytes] | None = None,
        commands: Mapping[tuple[str, ...], CommandResult | str] | Runner | None = None,
        *,
        free: int = 1 << 40,
        name: str = "fake",
        user: str = "root",
        users: tuple[str, ...] = ("root",),
    ) -> None:
        self.commands = commands or {}
        self.free = free
        self.user = user
        self.users = {user, *users}
        self.nodes: MutableMapping[str, Node] = {"/": Node(kind="folder")}
        self.processes: dict[int, str] = {}
        self.stubborn: set[int] = set()
        self.denied: set[str] = set()
        self.effects: list[str] = []
        self.fuse: Fuse | None = None
        self._name = name
        self._now_ns = 1_700_000_000_000_000_000
        for path, content in (files or {}).items():
            self.put(path, content)

    # What a test arranges; none of it counts as an effect.

    def put(
        self, path: str, content: str | bytes, *, mode: int = 0o644, owner: str = "root"
    ) -> None:
        """A file, with its parent folders."""
        raw = content.encode() if isinstance(content, str) else content
        self._put(path, Node(kind="file", content=raw, mode=mode, owner=owner))

    def put_folder(self, path: str, *, mode: int = 0o755, owner: str = "root") -> None:
        """A folder, with its parent folders."""
        self._put(path, Node(kind="folder", mode=mode, owner=owner))

    def put_link(self, path: str, target: str) -> None:
        """A symbolic link, with its parent folders; the target need not exist."""
        self._put(path, Node(kind="link", target=target, mode=0o777))

    def snapshot(self) -> dict[str, tuple[str, bytes, int, str]]:
        """What lies where, without times: to be compared with another moment."""
        return {
            path: (node.kind, node.content or node.target.encode(), node.mode, node.owner)
            for path, node in self.nodes.items()
        }

    # The reading half of the port.

    @property
    def name(self) -> str:
        return self._name

    def read_text(self, path: str, limit_bytes: int = 1 << 20) -> str:
        return self.read_bytes(path, 0, limit_bytes).decode("utf-8", "replace")

    def read_bytes(self, path: str, offset: int, length: int) -> bytes:
        node = self._get(path)
        if node.kind != "file":
            raise HostError(f"{path} is not a file")
        return node.content[offset : offset + length]

    def list_folder(self, path: str) -> tuple[str, ...]:
        if self._get(path).kind != "folder":
            raise NotFound(f"{path} does not exist: a part of the path is not a folder")
        folder = self._resolve(path)
        inside = (each for each in self.nodes if each != "/")
        return tuple(
            sorted(posixpath.basename(each) for each in inside if posixpath.dirname(each) == folder)
        )

    def read_link(self, path: str) -> str:
        place = self._resolve(path, follow_last=False)
        node = self.nodes.get(place)
        if node is None:
            raise NotFound(f"{path} does not exist")
        if node.kind != "link":
            raise HostError(f"could not read the link {path}: it is none")
        return node.target

    def stat(self, path: str) -> Stat | None:
        try:
            node = self._get(path)
        except NotFound:
            return None
        return Stat(
            kind=node.kind,
            size_bytes=len(node.content),
            mode=node.mode,
            owner=node.owner,
            modified_ns=node.modified_ns,
            changed_ns=node.modified_ns,
        )

    def free_bytes(self, path: str) -> int:
        self._resolve(path)
        return self.free

    def find_command(self, name: str) -> str | None:
        for folder in _COMMAND_FOLDERS:
            path = f"{folder}/{name}"
            found = self.stat(path)
            if found is not None and found.kind == "file" and found.mode & 0o111:
                return path
        known = () if callable(self.commands) else self.commands
        programs = sorted(argv[0] for argv in known if argv[0].startswith("/"))
        return next((path for path in programs if posixpath.basename(path) == name), None)

    def run(self, command: Command, poll: Callable[[], None] | None = None) -> CommandResult:
        with self._effect(f"run:{' '.join(command.argv)}"):
            result = self._answer(command)
            if poll is not None:
                poll()
        return result

    # The changing half of the port.

    def write_file(self, path: str, content: bytes, mode: int, owner: str = "") -> None:
        with self._effect(f"write:{path}"):
            place = self._resolve(path, follow_last=False)
            self._check_user(owner)
            if len(content) > self.free:
                raise NoSpace(f"there is no space left to write {path}")
            if place in self.nodes and self.nodes[place].kind not in ("file", "link"):
                raise HostError(f"could not write {path}: it is a folder or no file")
            self._make_parents(place)
            node = Node(kind="file", content=bytes(content), mode=mode, owner=owner or self.user)
            self.nodes[place] = replace(node, modified_ns=self._tick())

    def append_file(self, path: str, content: bytes, mode: int) -> None:
        with self._effect(f"append:{path}"):
            place = self._resolve(path, follow_last=False)
            if len(content) > self.free:
                raise NoSpace(f"there is no space left to write {path}")
            self._make_parents(place)
            old = self.nodes.get(place, Node(kind="file", mode=mode, owner=self.user))
            if old.kind != "file":
                raise HostError(f"could not write {path}: it is not a file")
            self.nodes[place] = replace(
                old, content=old.content + content, modified_ns=self._tick()
            )

    def remove_file(self, path: str) -> None:
        with self._effect(f"remove:{path}"):
            place = self._resolve(path, follow_last=False)
            if place in self.nodes and self.nodes[place].kind == "folder":
                raise HostError(f"could not remove {path}: it is a folder")
            self.nodes.pop(place, None)

    def make_folder(self, path: str, mode: int, owner: str = "") -> None:
        with self._effect(f"make_folder:{path}"):
            self._check_user(owner)
            place = self._resolve(path, follow_last=not owner)
            if place not in self.nodes:
                self._make_parents(place)
                folder = self._new_folder(mode)
                self.nodes[place] = replace(folder, owner=owner or folder.owner)
            elif self.nodes[place].kind != "folder":
                raise HostError(f"could not make the folder {path}: something else is there")

    def set_mode(self, path: str, mode: int) -> None:
        with self._effect(f"set_mode:{path}"):
            place = self._resolve(path, follow_last=False)
            node = self.nodes.get(place)
            if node is None:
                raise NotFound(f"{path} does not exist")
            if node.kind == "link":
                raise HostError(f"{path} is a link, so its permissions were left alone")
            self.nodes[place] = replace(node, mode=mode)

    def remove_tree(self, path: str) -> None:
        with self._effect(f"remove_tree:{path}"):
            names = [part for part in path.split("/") if part not in ("", ".")]
            if not path.startswith("/") or ".." in names or len(names) < 3:
                raise HostError(f"{path} will not be removed: it is too near to the root")
            place = self._resolve(path, follow_last=False)
            if place in self.nodes and self.nodes[place].kind != "folder":
                raise HostError(f"{path} is not a folder, so it was not removed")
            for each in self._tree(place):
                del self.nodes[each]

    def rename(self, source: str, target: str) -> None:
        with self._effect(f"rename:{source} {target}"):
            old = self._resolve(source, follow_last=False)
            new = self._resolve(target, follow_last=False)
            if old not in self.nodes:
                raise NotFound(f"{source} does not exist")
            self._check_rename(old, new)
            moved = {new + each[len(old) :]: self.nodes.pop(each) for each in self._tree(old)}
            self.nodes.update(moved)

    def end_process(self, pid: int, process: str, timeout_seconds: float) -> bool:
        with self._effect(f"end_process:{pid}"):
            if self.processes.get(pid) != process:
                return True
            if pid in self.stubborn:
                return False
            del self.processes[pid]
            return True

    # How it works.

    @contextmanager
    def _effect(self, effect: str) -> Iterator[None]:
        if self.fuse is not None:
            self.fuse("before", effect)
        yield
        self.effects.append(effect)
        if self.fuse is not None:
            self.fuse("after", effect)

    def _answer(self, command: Command) -> CommandResult:
        if callable(self.commands):
            found: CommandResult | str | None = self.commands(command)
        else:
            found = self.commands.get(command.argv)
        if found is None:
            raise NotFound(f"there is no program {command.argv[0] if command.argv else ''}")
        if isinstance(found, str):
            return CommandResult(argv=command.argv, exit_status=0, stdout=found, stderr="")
        return replace(found, argv=command.argv)

    def _check_user(self, owner: str) -> None:
        if owner and owner not in self.users and not owner.isdigit():
            raise HostError(f"there is no user {owner} on this host")

    def _put(self, path: str, node: Node) -> None:
        assert path == posixpath.normpath(path), path
        assert path.startswith("/"), path
        self._make_parents(path)
        self.nodes[path] = replace(node, modified_ns=self._tick())

    def _get(self, path: str) -> Node:
        node = self.nodes.get(self._resolve(path))
        if node is None:
            raise NotFound(f"{path} does not exist")
        return node

    def _resolve(self, path: str, *, follow_last: bool = True) -> str:
        """The path without links, dots and doubled slashes; its end may not exist."""
        if not path.startswith("/") or "\0" in path:
            raise HostError(f"{path!r} cannot be a path here: absolute ones only")
        place, rest, links = "/", [part for part in path.split("/") if part], 0
        while rest:
            part = rest.pop(0)
            place = posixpath.normpath(posixpath.join(place, part))
            self._check_access(place)
            node = self.nodes.get(place)
            if node is not None and node.kind == "link" and (rest or follow_last):
                links += 1
                if links > _MOST_LINKS:
                    raise HostError(f"could not look at {path}: too many links")
                rest = [each for each in node.target.split("/") if each] + rest
                place = "/" if node.target.startswith("/") else posixpath.dirname(place)
            elif node is not None and node.kind == "file" and rest:
                raise NotFound(f"{path} does not exist: a part of the path is not a folder")
        return place

    def _check_access(self, place: str) -> None:
        if any(place == each or place.startswith(f"{each}/") for each in self.denied):
            raise AccessDenied(f"this user may not touch {place}")

    def _check_rename(self, old: str, new: str) -> None:
        parent = self.nodes.get(posixpath.dirname(new))
        if parent is None or parent.kind != "folder":
            raise NotFound(f"{new} does not exist: its folder is missing")
        there = self.nodes.get(new)
        if there is None or old == new:
            return
        if (there.kind == "folder") != (self.nodes[old].kind == "folder"):
            raise HostError(f"could not rename to {new}: something else is there")
        if len(self._tree(new)) > 1:
            raise HostError(f"could not rename to {new}: that folder is not empty")

    def _tree(self, place: str) -> list[str]:
        return [each for each in self.nodes if each == place or each.startswith(f"{place}/")]

    def _make_parents(self, place: str) -> None:
        missing = []
        parent = posixpath.dirname(place)
        while parent not in self.nodes:
            missing.append(parent)
            parent = posixpath.dirname(parent)
        if self.nodes[parent].kind != "folder":
            raise NotFound(f"{place} does not exist: a part of the path is not a folder")
        mode = 0o700 if self.nodes[parent].mode == 0o700 else 0o755
        for folder in reversed(missing):
            self.nodes[folder] = self._new_folder(mode)

    def _new_folder(self, mode: int) -> Node:
        return Node(kind="folder", mode=mode, owner=self.user, modified_ns=self._tick())

    def _tick(self) -> int:
        self._now_ns += 1_000_000
        return self._now_ns
