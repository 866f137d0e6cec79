"""The verb `verify`: the promises of a running server, tried and told.

Registered by :mod:`stoker.cli.main`. As there, commands are imported inside the verb.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from stoker.cli.exit import ExitCode
from stoker.errors import UsageError

if TYPE_CHECKING:
    from stoker.commands.trial import Tried
    from stoker.commands.world import World
    from stoker.model.event import Event
    from stoker.ports import Reporter

_Text = Optional[str]  # noqa: UP045  Typer reads the annotation at run time on Python 3.11
_LEVELS = "quick (seconds), full (minutes) or soak (as long as --for says)"


def register(app: typer.Typer) -> None:
    """Add the verb to the command."""
    app.command()(verify)


class _Progress:
    """Passes on how far a trial is; what each check found is told by the result itself."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter

    def emit(self, event: Event) -> None:
        """See :class:`stoker.ports.Reporter`."""
        from stoker.model.event import EventKind

        if event.kind is not EventKind.CHECK:
            self._reporter.emit(event)


@contextmanager
def _world(*, as_json: bool) -> Iterator[World]:
    from stoker.cli.progress import JsonReporter, TextReporter
    from stoker.cli.world import build_world

    reporter = JsonReporter() if as_json else TextReporter()
    try:
        yield build_world(reporter if as_json else _Progress(reporter))
    finally:
        reporter.close()


def verify(
    *,
    target: Annotated[
        _Text, typer.Argument(metavar="[NAME|URL]", help="A deployment, or http(s)://HOST:PORT.")
    ] = None,
    level: Annotated[str, typer.Option(help=f"Which checks: {_LEVELS}.")] = "quick",
    only: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(metavar="ID", help="Only this check; may be given several times."),
    ] = None,
    seconds: Annotated[
        _Text, typer.Option("--for", metavar="TIME", help="How long a soak takes: 90s, 10m, 2h.")
    ] = None,
    parallel: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(min=1, max=1024, help="How many requests at once, under load."),
    ] = None,
    key_file: Annotated[_Text, typer.Option(help="A file with the API key, for a URL.")] = None,
    ca_file: Annotated[
        _Text, typer.Option(help="Certificates (PEM) that an https:// URL must rest on.")
    ] = None,
    published_name: Annotated[
        _Text, typer.Option(help="Which of the models at a URL; the first if left out.")
    ] = None,
    junit: Annotated[
        _Text, typer.Option(metavar="FILE", help="Write the result as JUnit XML as well.")
    ] = None,
    record: Annotated[
        _Text, typer.Option(metavar="FILE", help="Write down all that was asked and answered.")
    ] = None,
    replay: Annotated[
        _Text, typer.Option(metavar="FILE", help="Judge a recorded trial again, without a server.")
    ] = None,
    list_checks: Annotated[bool, typer.Option("--list", help="List the checks.")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Show the exchanges of broken promises at length.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Try the promises of a running server: expected and found.

    Ends with 0 if all were kept, with 5 if one was broken, with 7 if a file was not written.
    """
    if list_checks:
        _list(as_json=as_json)
        return
    if replay and (target or record or key_file):
        raise UsageError("--replay asks no server", "leave the name or URL and its options out")
    with _world(as_json=as_json) as world:
        if replay:
            from stoker.commands.verify import replay as judge_again

            tried = judge_again(world, replay, only=only or (), junit=junit or "")
        else:
            from stoker.commands.soaking import parse_duration
            from stoker.commands.verify import Wish, verify_target

            wish = Wish(
                target=target,
                level=level,
                only=tuple(only or ()),
                seconds=parse_duration(seconds) if seconds else None,
                parallel=parallel,
                key_file=key_file or "",
                ca_file=ca_file or "",
                published_name=published_name or "",
                record=record or "",
                junit=junit or "",
            )
            tried = verify_target(world, wish)
        if junit:
            from stoker.commands.verify import write_junit

            tried = write_junit(world, tried, junit)
    _print(tried, as_json=as_json, is_verbose=verbose)


def _list(*, as_json: bool) -> None:
    from stoker.cli.output import print_text, print_value
    from stoker.commands.verify import list_promises
    from stoker.report.table import render_table

    promises = list_promises()
    if as_json:
        print_value({"schema": "checks/1", "checks": promises})
        return
    rows = [(str(each["id"]), str(each["level"]), str(each["title"])) for each in promises]
    print_text(render_table(("CHECK", "LEVEL", "PROMISE"), rows))


def _print(tried: Tried, *, as_json: bool, is_verbose: bool) -> None:
    from stoker.cli.output import print_text, print_value
    from stoker.report.verification_text import render_verification

    if as_json:
        print_value(tried.verification)
    else:
        print_text(render_verification(tried.verification, is_verbose=is_verbose))
    if tried.was_interrupted:
        raise typer.Exit(ExitCode.INTERRUPTED)
    if not tried.verification.has_passed or tried.verification.cut_short:
        raise typer.Exit(ExitCode.CONTRACT_FAILED)
    if tried.unwritten:
        raise typer.Exit(ExitCode.ROLLED_BACK)
