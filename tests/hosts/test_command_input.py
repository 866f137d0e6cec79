"""What a command of the real machine reads: nothing, or what only it may see."""

from __future__ import annotations

import pytest

from stoker.hosts.local import LocalHost
from stoker.ports import Command

CAT = "/bin/cat"


def read_back(stdin: str) -> str:
    command = Command(argv=(CAT,), timeout_seconds=20, env={}, stdin=stdin)
    return LocalHost().run(command).stdout


@pytest.mark.parametrize("text", ["", "one line\n", "caf\u00e9 \U0001f600", "x" * 300_000])
def test_a_command_reads_what_it_is_given(text: str) -> None:
    assert read_back(text) == text


def test_what_it_reads_is_not_shown() -> None:
    command = Command(argv=(CAT,), timeout_seconds=20, env={}, stdin="a secret")
    assert "secret" not in repr(command)


def test_what_it_does_not_read_holds_nothing_up() -> None:
    command = Command(argv=("/bin/true",), timeout_seconds=20, env={}, stdin="x" * 300_000)
    assert LocalHost().run(command).exit_status == 0
