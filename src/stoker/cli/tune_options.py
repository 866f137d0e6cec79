"""The options of `stoker tune`: what each is called and what it says of itself."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

_Text = Optional[str]  # noqa: UP045  Typer reads the annotation at run time on Python 3.11
_Number = Optional[float]  # noqa: UP045
_Count = Optional[int]  # noqa: UP045
_Words = Optional[list[str]]  # noqa: UP045

File = Annotated[
    _Text, typer.Argument(metavar="[FILE]", help="The deployment file to be improved.")
]
Objective = Annotated[
    str,
    typer.Option(
        help="throughput (output tokens/s), latency (a whole answer) or goodput (requests "
        "that keep --ttft, --tpot, --e2e)."
    ),
]
Concurrency = Annotated[
    str, typer.Option(metavar="N[,N...]", help="So many requests at once; all count alike.")
]
Workload = Annotated[
    str, typer.Option(help="What is sent: as for `stoker bench`, a name or a file.")
]
Restarts = Annotated[
    int, typer.Option(min=0, help="At most so many restarts; 0: as many as it is worth.")
]
Minutes = Annotated[
    float, typer.Option(min=0, help="No trial begins after so many minutes; 0: no bound.")
]
Measure = Annotated[
    str, typer.Option(metavar="TIME", help="How long each load of a trial is measured.")
]
Repetitions = Annotated[int, typer.Option(min=1, max=20, help="How often each trial is measured.")]
Ttft = Annotated[_Number, typer.Option(metavar="MS", help="For goodput: first token.")]
Tpot = Annotated[_Number, typer.Option(metavar="MS", help="For goodput: each next one.")]
E2e = Annotated[_Number, typer.Option(metavar="MS", help="For goodput: whole answer.")]
Free = Annotated[
    _Words,
    typer.Option(metavar="KNOB", help="Vary this although the file sets it; several times."),
]
Consent = Annotated[
    _Words,
    typer.Option(metavar="KNOB", help="Vary this although it may change answers."),
]
Seed = Annotated[int, typer.Option(min=0, help="The same seed sends the same requests.")]
Fresh = Annotated[
    bool, typer.Option("--fresh", help="Begin anew instead of going on with what was begun.")
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Show what would be tried, and start nothing.")
]
Ask = Annotated[
    _Words,
    typer.Option(metavar="KNOB=CHOICE", help="Say what is known of this, and start nothing."),
]
Show = Annotated[_Text, typer.Option(metavar="ID", help="Show a search that was kept, by its id.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
