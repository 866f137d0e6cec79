"""What a deployment would lose or add against the server that runs."""

from __future__ import annotations

from stoker.knowledge.engines import load_engine_table
from stoker.knowledge.servers import load_servers
from stoker.model.comparison import Comparison, Difference
from stoker.planning.adoption import Draft
from stoker.planning.lifting import explain_additions, leave_out_additions, lost_flags

TABLE = load_engine_table("llamacpp")


def differing(**flags: tuple[str | None, str | None]) -> Comparison:
    """A comparison with these flags, the running server's side first."""
    return Comparison(
        a="pid:1",
        b="x",
        differences=tuple(
            Difference(what="flag", name=f"--{name.replace('_', '-')}", a=a, b=b)
            for name, (a, b) in flags.items()
        ),
    )


def test_a_flag_that_would_be_lost_is_named() -> None:
    found = differing(
        host=("localhost", "127.0.0.1"),
        alias=("a,b", "a"),
        model=("x/y", "/m"),
        temp=("1", None),
        api_key=("***", "***"),
        tags=('""', None),
        metrics=("off", "on"),
    )
    welcome = frozenset({"host", "published_name", "metrics"})
    assert lost_flags(found, TABLE, welcome=welcome) == (
        "--temp 1: a deployment cannot say it",
        "--api-key ***: a deployment cannot say it",
    )


def test_what_is_added_is_left_out_unless_it_is_welcome() -> None:
    draft = Draft(settings={"temp": 1})
    found = differing(
        threads=(None, "3"), metrics=(None, "on"), spec_type=(None, "x"), zz=(None, "1")
    )
    left = leave_out_additions(draft, found, TABLE, welcome=frozenset({"metrics"}))
    assert left.settings == {"temp": 1, "threads": False, "spec-type": False}


def test_additions_say_why() -> None:
    found = explain_additions(
        differing(metrics=(None, "on"), temp=("1", "2")), TABLE, {"metrics": "w"}
    )
    assert [each.note for each in found.differences] == ["w", ""]


def test_every_addition_is_a_row_of_some_table() -> None:
    assert {row.id for row in load_servers().addition} <= TABLE.settings.keys()
