"""A machine in memory on which servers run that Stoker did not start."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from stoker.commands.world import World
from stoker.model.contract import Exchange, Request
from tests.laws.worlds import Machine

ENGINE = "/opt/llama/llama-server"
MODEL = "/models/a.gguf"
HEAD = "  sl  local_address rem_address   st tx_queue rx_queue\n"


class Names:
    """What a server answers under /v1/models; nothing where it gives no name."""

    def __init__(self, name: str | None, raw: str = "") -> None:
        self.url = "http://127.0.0.1:1"
        self._name = name
        self._raw = raw

    def exchange(self, request: Request) -> Exchange:
        if self._raw:
            return Exchange(request=request, status=200, body=self._raw)
        if self._name is None:
            return Exchange(request=request, error="refused")
        body = json.dumps({"data": [{"id": self._name}]})
        return Exchange(request=request, status=200, body=body)


class Box(Machine):
    """The machine of the laws with a process table.

    ``published`` is what any server answers under /v1/models, ``raw`` its whole answer if that is
    something else, ``asked`` whom it was asked of.
    """

    def __init__(self) -> None:
        super().__init__()
        self.published: str | None = None
        self.raw = ""
        self.asked: list[tuple[str, int, str | None]] = []
        self._sockets: list[str] = []
        self.host.users |= {"ann", "eve"}
        self.host.put("/etc/passwd", "root:x:0:0::/:\nann:x:1000:1000::/:\neve:x:1001:1001::/:\n")
        self.host.put("/proc/cpuinfo", "processor\t: 0\ncore id\t: 0\n\n")
        self.host.put("/proc/net/tcp", HEAD)
        self.host.put_link("/proc/self/ns/mnt", "mnt:[1]")
        self.host.put_folder("/home/ann")
        self.host.put(ENGINE, "ELF", mode=0o755)
        self.host.put(MODEL, "GGUF")

    def world(self) -> World:
        def connect(host: str, port: int, key: str | None) -> Names:
            self.asked.append((host, port, key))
            return Names(self.published, self.raw)

        supervisors = {"fake": self.supervisor, "supervisord": self.supervisor}
        return replace(super().world(), connect=connect, supervisors=supervisors)

    def run(
        self,
        pid: int,
        argv: Sequence[str | bytes],
        env: Mapping[str, str] | None = None,
        *,
        uid: int = 0,
        parent: int = 1,
        group: int | None = None,
        exe: str = ENGINE,
        cwd: str = "/home/ann",
        cgroup: str = "0::/\n",
        mounts: str = "mnt:[1]",
    ) -> None:
        """Start a process."""
        words = [word.encode() if isinstance(word, str) else word for word in argv]
        pairs = [f"{name}={value}" for name, value in (env or {}).items()]
        rest = " ".join(["0"] * 12)
        stat = (
            f"{pid} (server) S {parent} {group or pid} {group or pid} 0 -1 0 {rest} {pid}00 0 0\n"
        )
        folder = f"/proc/{pid}"
        owner = {0: "root", 1000: "ann", 1001: "eve"}.get(uid, str(uid))
        self.host.put_folder(folder, owner=owner)
        self.host.put(f"{folder}/stat", stat)
        self.host.put(f"{folder}/status", f"Uid:\t{uid}\t{uid}\t{uid}\t{uid}\n")
        self.host.put(f"{folder}/cmdline", b"".join(word + b"\0" for word in words))
        self.host.put(f"{folder}/environ", "".join(f"{pair}\0" for pair in pairs))
        self.host.put(f"{folder}/cgroup", cgroup)
        for name, target in (("cwd", cwd), ("exe", exe), ("root", "/"), ("ns/mnt", mounts)):
            self.host.put_link(f"{folder}/{name}", target)

    def listen(self, pid: int, port: int, *, address: str = "0100007F", uid: int = 0) -> None:
        """Let a process listen; a socket of nobody's for pid 0."""
        inode = 9000 + len(self._sockets)
        self._sockets.append(
            f"   {len(self._sockets)}: {address}:{port:04X} 00000000:0000 0A 00000000:00000000 "
            f"00:00000000 00000000  {uid}        0 {inode} 1 0000 100 0 0 10 0\n"
        )
        self.host.put("/proc/net/tcp", HEAD + "".join(self._sockets))
        if pid:
            self.host.put_link(f"/proc/{pid}/fd/{inode}", f"socket:[{inode}]")

    def serve(
        self, *flags: str | bytes, env: Mapping[str, str] | None = None, pid: int = 500
    ) -> None:
        """A llama-server of root's with these flags that listens on port 8080."""
        self.run(pid, [ENGINE, "-m", MODEL, *flags], env)
        self.listen(pid, 8080)
