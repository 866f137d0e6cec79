"""The verb `bundle`: everything about one deployment in one archive, with nothing private in it.

Registered by :mod:`stoker.cli.main`. As there, commands are imported inside the verb.
"""

from __future__ import annotations

from typing import Annotated, Optional

import typer

_Text = Optional[str]  # noqa: UP045  Typer reads the annotation at run time on Python 3.11


def register(app: typer.Typer) -> None:
    """Add the verb to the command."""
    app.command()(bundle)


def bundle(
    *,
    name: Annotated[
        _Text, typer.Argument(metavar="[NAME]", help="The deployment; may be left out if one.")
    ] = None,
    output: Annotated[_Text, typer.Option(metavar="FILE", help="The archive to write.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Pack facts, plans, logs and results of a deployment into one archive to attach to a report.

    Keys, tokens, addresses, names of hosts and users, and serial numbers are replaced by marks.
    """
    from stoker.cli.output import print_text, print_value
    from stoker.cli.progress import SilentReporter
    from stoker.cli.world import build_world
    from stoker.commands.bundle import write_bundle

    written = write_bundle(build_world(SilentReporter()), name, output=output)
    if as_json:
        print_value(written)
        return
    marks = ", ".join(f"{count} {kind}" for kind, count in written.redacted.items()) or "nothing"
    print_text(
        f"Wrote {written.path} ({written.size_bytes // 1024} KiB, {len(written.parts)} files).\n"
        f"Replaced by marks: {marks}.\n"
        f"Read it before you send it: tar -xzf {written.path}"
    )
