"""Who can reach the server, with which key, and who holds its port."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import TypeAlias

from stoker.knowledge.derived.case import Case
from stoker.model.facts import Plain, Unknown

_READABLE_BY_OTHERS = 0o077
_LAST_PORT = 65535
#: The listeners probe tells no more of a command, wherever that cuts it.
_CUT_CHARACTERS = 80
_SHOWN_WORDS = 3

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address


def derive_port(case: Case) -> dict[str, Plain]:
    """``holder``: the listener on our port that is not ours, with its ``title`` and what to do
    about it (``remedy``), or None; ``next_free``: a port that is free. ``holders``: all of them.

    A service of ours runs as the user that Stoker is, or Stoker is root; so a process that cannot
    be seen is none of ours.
    """
    listeners = case.facts.read("listeners.listeners")
    if isinstance(listeners, Unknown):
        return {"holder": listeners, "holders": listeners, "next_free": listeners}
    host, port = case.launch.host, case.launch.port
    taken = [each for each in listeners if _overlap(str(each["address"]), host)]
    ports = {each["port"] for each in taken}
    free = (number for number in range(port + 1, _LAST_PORT + 1) if number not in ports)
    next_free = next(free, None)
    foreign = _foreign([each for each in taken if each["port"] == port], case)
    holders = [_describe(each, case.services, next_free=next_free) for each in foreign]
    return {
        "holder": next(iter(holders), None),
        "holders": holders,
        "next_free": next_free or Unknown(reason="no higher port is free"),
    }


def derive_listening(case: Case) -> dict[str, Plain]:
    """``is_open``: whether other machines can connect."""
    address = ipaddress.ip_address(case.launch.host)
    return {"is_open": not address.is_loopback}


def derive_key_file(case: Case) -> Plain | Unknown:
    """The declared API key's file; None where none is declared."""
    if case.deployment.serve.api_key_file is None:
        return None
    if case.key_file is None:
        return Unknown(reason="nobody looked at the file")
    known = dict(case.key_file)
    mode = known.get("mode")
    is_readable = (
        bool(mode & _READABLE_BY_OTHERS)
        if isinstance(mode, int)
        else Unknown(reason="its permissions are not known")
    )
    return {**known, "is_readable_by_others": is_readable}


def _foreign(holders: list[Mapping[str, Plain]], case: Case) -> list[Mapping[str, Plain]]:
    """The listeners that are neither ours nor about to be ended, those with a name first."""
    ours = case.own_pids | case.ending
    foreign = [each for each in holders if each.get("pid") not in ours]
    return sorted(foreign, key=lambda each: each.get("pid") is None)


def _describe(
    holder: Mapping[str, Plain], services: Mapping[int, str], *, next_free: int | None
) -> dict[str, Plain]:
    deployment = services.get(holder.get("pid") or 0)
    end = f"`stoker stop {deployment}`" if deployment else _say_end(holder.get("pid"))
    free = f" ({next_free} is free)" if next_free else ""
    return {
        **holder,
        "deployment": deployment,
        "title": f"your deployment {deployment}" if deployment else _title(holder),
        "remedy": f"{end}, or choose another serve.port{free}",
    }


def _say_end(pid: int | None) -> str:
    return f"stop that program (--end-holders {pid} does)" if pid else "stop that program"


def _title(holder: Mapping[str, Plain]) -> str:
    user = holder.get("user")
    if holder.get("pid") is None:
        owner = f"user {user}" if user else "another user"
        return f"a process of {owner} that this user may not look at"
    program = shorten_command(str(holder.get("command") or "")) or "a program"
    return f"{program} (process {holder['pid']}{f' of {user}' if user else ''})"


def shorten_command(command: str) -> str:
    """A command as the listeners probe tells it, in the few words that a person needs.

    It begins with the kernel's name of the process; the words of the command line follow, of which
    only what comes after the last slash is shown, and what runs the program (an interpreter) is
    left out.
    """
    name, *words = command.split() or [""]
    if len(command) >= _CUT_CHARACTERS:
        words = words[:-1]  # its end, which would be shown, is what was cut off
    bare = [word.rstrip("/").rpartition("/")[2] or word for word in words]
    begins = [n for n, word in enumerate(bare) if _is_same_program(name, word)]
    told = bare[begins[0] :] if begins else [name, *bare]
    return " ".join(told[:_SHOWN_WORDS])


def _is_same_program(name: str, word: str) -> bool:
    """The kernel keeps the first letters of a name only, and interpreters add their version."""
    one, other = name.lower(), word.lower()
    return bool(one and other) and (one.startswith(other) or other.startswith(one))


def _overlap(one: str, other: str) -> bool:
    """Whether two programs cannot listen on one port of these two addresses."""
    left, right = _parse(one), _parse(other)
    if left is None or right is None:
        return False
    if left == right:
        return True
    # An IPv6 wildcard takes the port of IPv4 as well; the one of IPv4 only takes its own family.
    wildcards = [address for address in (left, right) if address.is_unspecified]
    return any(address.version == 6 or left.version == right.version for address in wildcards)


def _parse(text: str) -> Address | None:
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address
