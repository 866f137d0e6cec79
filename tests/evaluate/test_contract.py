"""The report that counts broken promises, on a few servers."""

from __future__ import annotations

import json

import pytest

from stoker.errors import UsageError
from stoker.evaluate.contract import main

ONE_BY_ONE = ("--no-rival", "--at-once", "1")
FAULTS = ("--fault", "no_done", "--fault", "usage_off_by_one")


def test_faults_are_found_by_name_and_a_correct_server_is_not_blamed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    status = main(["--json", *ONE_BY_ONE, "--correct", "1", *FAULTS])
    told = json.loads(capsys.readouterr().out)
    assert told.keys() == {"tools", "not_run", "seconds", "missed", "not_named"}
    assert told["tools"].keys() == {"Stoker"}
    ours = told["tools"]["Stoker"]
    assert (ours["faults"], ours["found"], ours["found_by_name"]) == (2, 2, 2)
    assert (ours["correct_servers"], ours["false_alarms"], ours["shared_faults"]) == (1, 0, 0)
    assert "not run" in told["not_run"]
    assert (told["missed"], told["not_named"], status) == ([], [], 0)


def test_the_table_says_who_was_not_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*ONE_BY_ONE, "--correct", "0", "--fault", "breaks_after_forty"]) == 0
    told = capsys.readouterr().out
    assert "| Stoker | 1 of 1 | 1 |" in told
    assert "canitoolcall: not run" in told


def test_an_unknown_fault_is_refused() -> None:
    with pytest.raises(UsageError, match="there is no fault nonsense"):
        main([*ONE_BY_ONE, "--fault", "nonsense"])
