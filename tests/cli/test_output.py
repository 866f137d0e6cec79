"""Nothing that a foreign text says reaches the terminal as a command; flags with their dashes."""

from __future__ import annotations

import io
import json

import pytest
from typer.testing import CliRunner

from stoker.cli.main import app
from stoker.cli.output import print_error, print_text, print_value
from stoker.cli.progress import TextReporter
from stoker.errors import Blocked, UsageError
from stoker.model.event import Event, EventKind

EVIL = "a\x1b[31m\u202e\x9b"


def test_texts_and_errors_are_spelled_out(capsys: pytest.CaptureFixture[str]) -> None:
    print_text(f"\tfirst\n{EVIL}")
    print_error(UsageError(EVIL, EVIL), as_json=False)
    print_error(Blocked(EVIL, reasons=(EVIL,)), as_json=False)
    told = capsys.readouterr()
    assert told.out == "\tfirst\na\\x1b[31m\\u202e\\x9b\n"
    assert told.err.replace("\n", "").isprintable()
    assert told.err.count("a\\x1b[31m\\u202e\\x9b") == 4


def test_a_document_says_the_same_and_commands_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    print_value({"told": EVIL})
    print_error(UsageError(EVIL), as_json=True)
    out = capsys.readouterr().out
    assert out.replace("\n", "").isprintable()
    first, _, second = out.partition("}\n")
    assert json.loads(first + "}") == {"told": EVIL}
    assert json.loads(second)["summary"] == EVIL


def test_progress_is_spelled_out() -> None:
    stream = io.StringIO()
    TextReporter(stream).emit(Event(kind=EventKind.NOTE, subject="x", text=EVIL))
    assert stream.getvalue() == "  a\\x1b[31m\\u202e\\x9b\n"


@pytest.mark.parametrize("verb", [["explain"], ["engine", "show"]])
def test_a_flag_may_have_its_dashes(
    verb: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    missing = str(tmp_path_factory.mktemp("none") / "none.yaml")
    ended = CliRunner().invoke(app, [*verb, missing, "--seed"])
    assert isinstance(ended.exception, UsageError)
    assert "none.yaml cannot be read" in ended.exception.summary
