"""Which TCP ports are taken, and by whom as far as this user may see."""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Iterator, Mapping
from itertools import takewhile
from typing import NamedTuple

from stoker.model.facts import Target
from stoker.model.visible import visible
from stoker.ports import Probe, ReadableHost
from stoker.probes.reading import list_if_any, read_if_any, read_link_if_any

_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
#: Listening sockets stand first in the tables, so what is cut off is of no interest.
_TABLE_BYTES = 4 << 20
_LISTENING = "0A"  # TCP_LISTEN in the kernel's tcp_states.h
_SOCKET = re.compile(r"socket:\[(\d+)\]")
_COMMAND_WORDS = 4
_COMMAND_CHARACTERS = 80


class Socket(NamedTuple):
    """One listening socket, as the kernel's tables have it."""

    address: str
    port: int
    user_id: str
    inode: str


def read(host: ReadableHost, target: Target) -> Mapping[str, str]:
    """The kernel's tables, the processes behind the listening sockets, and names of users."""
    tables = {path: _read_table(host, path) for path in _TABLES}
    inodes = {socket.inode for text in tables.values() for socket in parse_table(text)}
    return {
        **tables,
        "owners": json.dumps(_find_owners(host, inodes), sort_keys=True),
        "passwd": read_if_any(host, "/etc/passwd") or "",
    }


def _read_table(host: ReadableHost, path: str) -> str:
    if path == _TABLES[0]:
        return host.read_text(path, _TABLE_BYTES)
    return read_if_any(host, path) or ""  # a kernel without IPv6 has no such file


def _find_owners(host: ReadableHost, inodes: set[str]) -> dict[str, tuple[int, str]]:
    """Process and command of each socket; the first process that has it, for children share it."""
    owners: dict[str, tuple[int, str]] = {}
    missing = set(inodes)
    for pid in sorted(int(name) for name in list_if_any(host, "/proc") if name.isdigit()):
        if not missing:
            break
        found = missing.intersection(_sockets_of(host, pid))
        missing -= found
        owners.update(dict.fromkeys(found, (pid, _read_command(host, pid) if found else "")))
    return owners


def _sockets_of(host: ReadableHost, pid: int) -> Iterator[str]:
    folder = f"/proc/{pid}/fd"
    for name in list_if_any(host, folder):
        match = _SOCKET.fullmatch(read_link_if_any(host, f"{folder}/{name}") or "")
        if match:
            yield match[1]


def _read_command(host: ReadableHost, pid: int) -> str:
    name = (read_if_any(host, f"/proc/{pid}/comm") or "").strip()
    # A process that renames itself leaves one text with blanks instead of words.
    words = (read_if_any(host, f"/proc/{pid}/cmdline") or "").replace("\0", " ").split()
    return visible(shorten_command(name, words))


def shorten_command(name: str, words: list[str]) -> str:
    """The kernel's name of a process and the first words of its command line.

    Options and whatever follows them are left out, for there stand keys and passwords; only the
    module that an interpreter runs (``-m``) is told.
    """
    harmless = takewhile(_is_harmless, words[:_COMMAND_WORDS])
    return " ".join([name, *harmless])[:_COMMAND_CHARACTERS].strip()


def _is_harmless(word: str) -> bool:
    is_option = word.startswith("-") and word != "-m"
    return not (is_option or "=" in word or "://" in word or "@" in word)


def parse(raw: Mapping[str, str]) -> dict[str, list[dict[str, str | int | None]]]:
    """The listening sockets by port; ``pid`` and ``command`` are None where we may not look."""
    owners: dict[str, tuple[int, str]] = json.loads(raw["owners"])
    users = parse_users(raw["passwd"])
    sockets = sorted({socket for path in _TABLES for socket in parse_table(raw[path])}, key=_order)
    rows = ((socket, *owners.get(socket.inode, (None, None))) for socket in sockets)
    return {
        "listeners": [
            {
                "address": socket.address,
                "port": socket.port,
                "pid": pid,
                "command": command,
                "user": users.get(socket.user_id, socket.user_id),
            }
            for socket, pid, command in rows
        ]
    }


def _order(socket: Socket) -> tuple[int, str, int]:
    return socket.port, socket.address, int(socket.inode)


def parse_table(text: str) -> Iterator[Socket]:
    """The listening sockets of /proc/net/tcp or tcp6. Raises ValueError for other text."""
    for line in text.splitlines()[1:]:
        fields = line.split()
        if len(fields) < 10 or fields[3] != _LISTENING:
            continue
        address, _, port = fields[1].partition(":")
        yield Socket(parse_address(address), int(port, 16), fields[7], str(int(fields[9])))


def parse_address(text: str) -> str:
    """A numeric address from the kernel's hexadecimal words of 32 bits in host byte order."""
    raw = bytes.fromhex(text)
    if len(raw) not in (4, 16):
        raise ValueError(f"{text} is no address")
    words = (raw[start : start + 4][::-1] for start in range(0, len(raw), 4))
    return str(ipaddress.ip_address(b"".join(words)))


def parse_users(passwd: str) -> dict[str, str]:
    """User names by user number, from the text of /etc/passwd."""
    rows = (line.split(":") for line in passwd.splitlines())
    return {row[2]: row[0] for row in rows if len(row) > 2}


PROBE = Probe(id="listeners", source="/proc/net/tcp, /proc/net/tcp6, /proc", read=read, parse=parse)
