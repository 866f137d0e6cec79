"""The verbs for those who build on Stoker or on engines: `stoker dev fake-engine`.

Registered by :mod:`stoker.cli.main`. As there, commands are imported inside each verb.
"""

from __future__ import annotations

import signal
import threading
from typing import Annotated, Optional

import typer

dev = typer.Typer(
    name="dev",
    help="For developers: a server to try clients, proxies and checks on.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


def register(app: typer.Typer) -> None:
    """Add the group of verbs to the command."""
    app.add_typer(dev)


@dev.callback()
def group() -> None:
    """For developers: a server to try clients, proxies and checks on."""


@dev.command(name="fake-engine")
def fake_engine(
    *,
    port: Annotated[int, typer.Option(help="0 takes any that is free.")] = 0,
    manners: Annotated[str, typer.Option(help="sglang, vllm or llamacpp.")] = "llamacpp",
    fault: Annotated[
        Optional[list[str]],  # noqa: UP045  Typer reads the annotation at run time on Python 3.11
        typer.Option(help="Break this; may be given several times."),
    ] = None,
    feature: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(help="Have this, too: reasoning, vision, speculation."),
    ] = None,
    list_faults: Annotated[bool, typer.Option("--list", help="List what can be broken.")] = False,
    script: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="A TOML file with more of what the model knows."),
    ] = None,
    model: Annotated[str, typer.Option(help="What the model is called.")] = "smollm2",
    context_tokens: Annotated[int, typer.Option(help="What one request may hold.")] = 2048,
    api_key_file: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="A file with the key that requests must show."),
    ] = None,
    tokens_per_second: Annotated[float, typer.Option(help="0 says all at once.")] = 0.0,
    first_token_seconds: Annotated[float, typer.Option(help="How long the first one takes.")] = 0.0,
    seed: Annotated[int, typer.Option(help="Decides what is left to chance.")] = 0,
) -> None:
    """Serve a scripted model in the manners of an engine until you stop it."""
    from stoker.cli.output import print_text
    from stoker.commands.fake_engine import FakeOrders, list_switches, running

    if list_faults:
        print_text("\n".join(f"{each.name}: {each.title}" for each in list_switches()))
        return
    orders = FakeOrders(
        manners=manners,
        faults=tuple(fault or ()),
        with_features=tuple(feature or ()),
        script_path=script or "",
        model=model,
        context_tokens=context_tokens,
        key_path=api_key_file or "",
        tokens_per_second=tokens_per_second,
        first_token_seconds=first_token_seconds,
        seed=seed,
        port=port,
    )
    with running(orders) as server:
        ended = _heed_signals()
        print_text(f"{server.url}\nready")
        ended.wait()


def _heed_signals() -> threading.Event:
    """Set once the process is asked to end, which is how this command ends well."""
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: ended.set())
    return ended
