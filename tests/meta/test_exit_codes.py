"""The table of exit codes in the documents is the one in the code."""

from __future__ import annotations

import re

from stoker import errors
from stoker.cli.exit import ExitCode
from tests.meta.source import PROJECT


def test_documented_codes_are_the_codes() -> None:
    text = (PROJECT / "docs/reference/exit-codes.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| ([a-z-]+) \|", text, re.MULTILINE)
    assert {int(code): name for code, name in rows} == {
        code.value: code.name.lower().replace("_", "-") for code in ExitCode
    }


def test_every_error_ends_with_a_documented_code() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    codes = {kind.exit_code for kind in kinds if issubclass(kind, errors.StokerError)}
    assert codes <= {code.value for code in ExitCode}
