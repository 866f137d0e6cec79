"""Who can reach the server, with which key, and who holds its port."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import TypeAlias

from stoker.knowledge.derived.case import Case
from stoker.model.facts import Plain, Unknown

_READABLE_BY_OTHERS = 0o077
_LAST_PORT = 65535

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address


def derive_port(case: Case) -> dict[str, Plain]:
    """``holder``: the foreign listener on our port or None; ``next_free``: a port that is free."""
    listeners = case.facts.read("listeners.listeners")
    if isinstance(listeners, Unknown):
        return {"holder": listeners, "next_free": listeners}
    host, port = case.launch.host, case.launch.port
    taken = [each for each in listeners if _overlap(str(each["address"]), host)]
    ports = {each["port"] for each in taken}
    free = (number for number in range(port + 1, _LAST_PORT + 1) if number not in ports)
    holders = [each for each in taken if each["port"] == port]
    return {
        "holder": _foreign(holders, case.own_pids),
        "next_free": next(free, None) or Unknown(reason="no higher port is free"),
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


def _foreign(
    holders: list[Mapping[str, Plain]], own_pids: frozenset[int]
) -> Plain | Unknown | None:
    foreign = [each for each in holders if each.get("pid") not in own_pids]
    if not foreign:
        return None
    nameless = all(each.get("pid") is None for each in foreign)
    if nameless and own_pids:
        return Unknown(reason="a process that this user may not look at; it may be our own service")
    first = next((each for each in foreign if each.get("pid") is not None), foreign[0])
    return {**first, "title": _title(first)}


def _title(holder: Mapping[str, Plain]) -> str:
    if holder.get("pid") is None:
        return "a process of another user"
    owner = f" of {holder['user']}" if holder.get("user") else ""
    return f"{holder.get('command') or 'a program'} (process {holder['pid']}{owner})"


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
