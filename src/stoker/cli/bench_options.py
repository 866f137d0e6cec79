"""The options of `stoker bench`: what each is called and what it says of itself."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

_Text = Optional[str]  # noqa: UP045  Typer reads the annotation at run time on Python 3.11
_Number = Optional[float]  # noqa: UP045
_Count = Optional[int]  # noqa: UP045
_Words = Optional[list[str]]  # noqa: UP045

Target = Annotated[
    _Text, typer.Argument(metavar="[NAME|URL]", help="A deployment, or http(s)://HOST:PORT.")
]
Workload = Annotated[
    str,
    typer.Option(
        help="chat, short, code, long-prompt, shared-prefix, tool-loop or random; or a file: a "
        "workload of your own (.toml), or requests (.jsonl)."
    ),
]
Concurrency = Annotated[
    _Text,
    typer.Option(metavar="N[,N...]", help="So many requests at once; 8 if left out."),
]
Rate = Annotated[
    _Text,
    typer.Option(metavar="R[,R...]", help="So many requests a second, whether answered or not."),
]
Constant = Annotated[
    bool, typer.Option("--constant", help="With --rate: at equal distances, not at random.")
]
Replay = Annotated[
    _Number,
    typer.Option(metavar="SPEED", help="Send a recorded trace again, so many times as fast."),
]
Seconds = Annotated[
    _Text, typer.Option("--for", metavar="TIME", help="How long each load: 30s, 5m.")
]
Requests = Annotated[
    _Count, typer.Option(min=1, help="How many requests each load measures at most.")
]
Warmup = Annotated[
    _Count,
    typer.Option(min=0, help="Requests before, not measured; as many as are sent at once."),
]
PromptTokens = Annotated[
    _Count, typer.Option(min=1, help="All prompts about so long, in place of the workload's.")
]
OutputTokens = Annotated[
    _Count, typer.Option(min=1, help="All answers so long, in place of the workload's.")
]
Ttft = Annotated[_Number, typer.Option(metavar="MS", help="Objective: first token.")]
Tpot = Annotated[_Number, typer.Option(metavar="MS", help="Objective: each further one.")]
E2e = Annotated[_Number, typer.Option(metavar="MS", help="Objective: whole answer.")]
Body = Annotated[_Text, typer.Option(metavar="JSON", help="Fields that every request has beside.")]
Seed = Annotated[int, typer.Option(min=0, help="The same seed sends the same requests.")]
Unverified = Annotated[
    bool, typer.Option("--unverified", help="Measure a server without verifying it first.")
]
KeyFile = Annotated[_Text, typer.Option(help="A file with the API key, for a URL.")]
CaFile = Annotated[
    _Text, typer.Option(help="Certificates (PEM) that an https:// URL must rest on.")
]
PublishedName = Annotated[
    _Text, typer.Option(help="Which of the models at a URL; the first if left out.")
]
Output = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option(
        metavar="FILE",
        help="Write the result too: .json (the keys of vllm bench serve), .csv, .requests.csv, "
        ".svg, .png; may be given several times.",
    ),
]
Verbose = Annotated[
    bool, typer.Option("--verbose", help="Show the definitions and the client's own figures.")
]
