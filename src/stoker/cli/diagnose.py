"""The verb `diagnose`: from a failure to its first cause to a change that mends it.

Registered by :mod:`stoker.cli.main`. As there, commands are imported inside the verb.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from stoker.errors import UsageError

if TYPE_CHECKING:
    from stoker.commands.diagnose import AppliedRepair

_Text = Optional[str]  # noqa: UP045  Typer reads the annotation at run time on Python 3.11
_Texts = Optional[list[str]]  # noqa: UP045
_Count = Optional[int]  # noqa: UP045
_STDIN = "-"
_CHUNK_BYTES = 1 << 20


def register(app: typer.Typer) -> None:
    """Add the verb to the command."""
    app.command()(diagnose)


def diagnose(
    *,
    name: Annotated[
        _Text,
        typer.Argument(metavar="[NAME]", help="The deployment; - is a log that is piped in."),
    ] = None,
    log: Annotated[
        _Texts, typer.Option(metavar="FILE", help="A log of the engine or a journal; repeatable.")
    ] = None,
    kernel: Annotated[
        _Texts, typer.Option(metavar="FILE", help="What the kernel said: dmesg, journalctl -k.")
    ] = None,
    reply: Annotated[
        _Text, typer.Option(metavar="FILE", help="A saved reply of the server.")
    ] = None,
    bundle: Annotated[
        _Text, typer.Option(metavar="FILE", help="An archive that `stoker bundle` wrote.")
    ] = None,
    file: Annotated[
        _Text,
        typer.Option(metavar="DEPLOYMENT", help="The deployment file that a log belongs to."),
    ] = None,
    patch: Annotated[
        _Texts, typer.Option(metavar="FILE", help="A patch of the engine that you made: a diff.")
    ] = None,
    engine: Annotated[
        _Text, typer.Option(help="Which engine wrote the log, where its lines do not tell.")
    ] = None,
    release: Annotated[_Text, typer.Option(help="Which release of it.")] = None,
    apply: Annotated[
        _Count, typer.Option(metavar="N", min=1, help="Write repair N into the deployment file.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Find the first cause of a failure, what shows it, and what mends it. Files alone suffice."""
    from stoker.cli.output import print_text, print_value
    from stoker.cli.progress import SilentReporter
    from stoker.cli.world import build_world
    from stoker.commands.diagnose import Question, apply_repair, find_diagnosis
    from stoker.report.diagnosis_text import render_diagnosis

    logs = tuple(log or ())
    if name == _STDIN:
        name, logs = None, (*logs, _STDIN)
    if apply is not None and file is None:
        raise UsageError("--apply writes into a deployment file", "name it with --file")
    world = build_world(SilentReporter())
    question = Question(
        name=name,
        logs=logs,
        kernel=tuple(kernel or ()),
        reply=reply,
        bundle=bundle,
        file=file,
        patches=tuple(patch or ()),
        engine=engine,
        release=release,
        stdin=_read_stdin(),
    )
    found = find_diagnosis(world, question)
    applied = apply_repair(world, found, apply) if apply is not None else None
    if as_json:
        print_value(found.diagnosis)
    elif applied is not None:
        print_text(_render_applied(applied))
    else:
        print_text(render_diagnosis(found.diagnosis))


def _read_stdin() -> Iterator[bytes]:
    while chunk := sys.stdin.buffer.read(_CHUNK_BYTES):
        yield chunk


def _render_applied(applied: AppliedRepair) -> str:
    changes = [
        f"  {key}: left out" if value is None else f"  {key}: {value}"
        for key, value in applied.changes.items()
    ]
    return "\n".join(
        [
            f"Wrote into {applied.file}: {applied.repair.text}",
            *changes,
            f"Nothing is changed on the machine yet; `stoker plan {applied.file}` shows it.",
        ]
    )
