"""What the fake offers to tests beyond the contract: effects, fuses, denials, a full disk."""

from __future__ import annotations

import pytest

from stoker.errors import AccessDenied, NoSpace
from stoker.ports import Command, CommandResult
from tests.fakes.host import Crash, MemoryHost

RESTART = Command(argv=("/bin/restart",), timeout_seconds=5, env={})


def change_much(host: MemoryHost) -> None:
    host.make_folder("/srv/a/b", 0o755)
    host.write_file("/srv/a/b/file", b"content", 0o644)
    host.append_file("/srv/a/b/log", b"line", 0o644)
    host.set_mode("/srv/a/b/log", 0o600)
    host.rename("/srv/a/b/log", "/srv/a/b/old-log")
    host.remove_file("/srv/a/b/file")
    host.run(RESTART)
    host.end_process(7, "7:1", 1)
    host.remove_tree("/srv/a/b")


EFFECTS = [
    "make_folder:/srv/a/b",
    "write:/srv/a/b/file",
    "append:/srv/a/b/log",
    "set_mode:/srv/a/b/log",
    "rename:/srv/a/b/log /srv/a/b/old-log",
    "remove:/srv/a/b/file",
    "run:/bin/restart",
    "end_process:7",
    "remove_tree:/srv/a/b",
]


def make_host() -> MemoryHost:
    host = MemoryHost(commands={RESTART.argv: "restarted"})
    host.processes[7] = "7:1"
    return host


def test_counts_its_effects_in_order() -> None:
    host = make_host()
    change_much(host)
    assert host.effects == EFFECTS


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("effect", EFFECTS)
def test_a_fuse_crashes_it_at_any_instant(moment: str, effect: str) -> None:
    host, whole = make_host(), make_host()
    change_much(whole)

    def burn(now: str, what: str) -> None:
        if (now, what) == (moment, effect):
            raise Crash

    host.fuse = burn
    with pytest.raises(Crash):
        change_much(host)
    done = EFFECTS.index(effect) + (moment == "after")
    assert host.effects == EFFECTS[:done]
    if done == len(EFFECTS):
        assert host.snapshot() == whole.snapshot()


def test_what_fails_is_no_effect() -> None:
    host = MemoryHost({"/srv/a": "old"}, free=3)
    host.denied.add("/etc")
    with pytest.raises(NoSpace):
        host.write_file("/srv/a", b"more", 0o644)
    with pytest.raises(AccessDenied):
        host.write_file("/etc/b", b"", 0o644)
    assert host.effects == []
    assert host.read_text("/srv/a") == "old"


def test_a_stubborn_process_stays() -> None:
    host = make_host()
    host.stubborn.add(7)
    assert not host.end_process(7, "7:1", 1)
    assert host.processes == {7: "7:1"}


def test_commands_may_be_computed() -> None:
    host = MemoryHost(
        commands=lambda command: CommandResult(
            argv=(), exit_status=1, stdout="", stderr=command.argv[0]
        )
    )
    assert host.run(RESTART) == CommandResult(
        argv=RESTART.argv, exit_status=1, stdout="", stderr="/bin/restart"
    )
