"""The verbs of measuring: `stoker bench NAME|URL`, and `compare`, `list`, `show` of what was kept.

Registered by :mod:`stoker.cli.main`. As there, commands are imported inside each verb. What is no
name of a verb here is the server to be measured, so that `stoker bench NAME` works.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer
from typer.core import TyperGroup

from stoker.cli import bench_options as options
from stoker.cli.exit import ExitCode

if TYPE_CHECKING:
    from stoker.cli.bench_output import Written
    from stoker.commands.bench import Benched
    from stoker.model.benchmark import Benchmark

_Text = Optional[str]  # noqa: UP045  Typer reads the annotation at run time on Python 3.11
_Number = Optional[float]  # noqa: UP045
_Count = Optional[int]  # noqa: UP045
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
_RUN = "run"


class _Group(TyperGroup):
    """A group in which the first word may be a server instead of a verb."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        # The context's class is the library's own and has no public name.
        if not args or (args[0] not in self.commands and args[0] not in ("--help", "-h")):
            args = [_RUN, *args]
        return super().parse_args(ctx, args)


benches = typer.Typer(
    name="bench",
    help="Measure a server under load: `stoker bench NAME|URL` (`stoker bench run --help` has all "
    "options), and compare what was measured.",
    cls=_Group,
    rich_markup_mode=None,
)


def register(app: typer.Typer) -> None:
    """Add the group of verbs to the command."""
    app.add_typer(benches)


@benches.command(name=_RUN)
def run(
    *,
    target: options.Target = None,
    workload: options.Workload = "chat",
    concurrency: options.Concurrency = None,
    rate: options.Rate = None,
    constant: options.Constant = False,
    replay: options.Replay = None,
    seconds: options.Seconds = None,
    requests: options.Requests = None,
    warmup: options.Warmup = None,
    prompt_tokens: options.PromptTokens = None,
    output_tokens: options.OutputTokens = None,
    ttft: options.Ttft = None,
    tpot: options.Tpot = None,
    e2e: options.E2e = None,
    body: options.Body = None,
    seed: options.Seed = 0,
    unverified: options.Unverified = False,
    key_file: options.KeyFile = None,
    ca_file: options.CaFile = None,
    published_name: options.PublishedName = None,
    output: options.Output = None,
    verbose: options.Verbose = False,
    as_json: AsJson = False,
) -> None:
    """Measure a verified server under load, and keep the result.

    Ends with 0 if every load has a result, with 5 if the server breaks its contract or gave
    nothing but errors, with 7 if a load has no result otherwise or a file was not written, with 130
    if it was interrupted. What was measured until then is shown and kept.
    """
    from stoker.cli.bench_loads import Asked, make_loads, make_objectives, parse_body
    from stoker.cli.bench_output import check_outputs, write_outputs
    from stoker.cli.progress import JsonReporter, TextReporter
    from stoker.cli.world import build_world
    from stoker.commands.bench import BenchWish, bench
    from stoker.commands.bench_server import Which
    from stoker.commands.bench_traffic import TrafficWish

    wish = BenchWish(
        which=Which(
            target=target,
            key_file=key_file or "",
            ca_file=ca_file or "",
            published_name=published_name or "",
            is_unverified=unverified,
        ),
        traffic=TrafficWish(
            workload=workload,
            prompt_tokens=prompt_tokens,
            output_tokens=output_tokens,
            extra=parse_body(body),
            seed=seed,
        ),
        loads=make_loads(
            Asked(
                concurrency=concurrency,
                rate=rate,
                is_constant=constant,
                replay=replay,
                seconds=seconds,
                requests=requests,
                warmup=warmup,
            )
        ),
        objectives=make_objectives(ttft=ttft, tpot=tpot, e2e=e2e),
    )
    reporter = JsonReporter() if as_json else TextReporter()
    try:
        world = build_world(reporter)
        check_outputs(world, output or ())
        done = bench(world, wish)
    finally:
        reporter.close()
    written = write_outputs(world, output or (), done.benchmark, done.samples)
    _print(done, written, as_json=as_json, is_verbose=verbose)


def _print(done: Benched, written: Written, *, as_json: bool, is_verbose: bool) -> None:
    from stoker.cli.output import print_text, print_value

    if as_json:
        print_value(done.benchmark)
    else:
        _show(done.benchmark, is_verbose=is_verbose)
        kept = [f"kept as {done.benchmark.id}"] if done.kept else []
        if lines := [*kept, *written.told]:
            print_text("\n".join(lines))
    if done.was_interrupted:
        raise typer.Exit(ExitCode.INTERRUPTED)
    if done.has_failed:
        raise typer.Exit(ExitCode.CONTRACT_FAILED)
    if done.lacks_result or not written.is_whole:
        raise typer.Exit(ExitCode.ROLLED_BACK)


def _show(benchmark: Benchmark, *, is_verbose: bool) -> None:
    import shutil
    import sys

    from stoker.cli.output import print_text
    from stoker.report.benchmark_plot import render_plot, takes_unicode
    from stoker.report.benchmark_text import render_benchmark

    width = shutil.get_terminal_size().columns
    print_text(render_benchmark(benchmark, width=width, is_verbose=is_verbose))
    if len(benchmark.points) > 1:
        is_ascii = not takes_unicode(sys.stdout.encoding)
        print_text(render_plot(benchmark, width=width, is_ascii=is_ascii))


@benches.command()
def compare(
    *,
    before: Annotated[str, typer.Argument(metavar="A", help="A benchmark's id, or its beginning.")],
    after: Annotated[str, typer.Argument(metavar="B", help="Another one's.")],
    verbose: Annotated[bool, typer.Option("--verbose", help="Show all figures.")] = False,
    as_json: AsJson = False,
) -> None:
    """Say whether B is faster than A, slower, or not distinguishable from it."""
    import shutil

    from stoker.cli.output import print_text, print_value
    from stoker.cli.progress import SilentReporter
    from stoker.cli.world import build_world
    from stoker.commands.bench_kept import compare_kept
    from stoker.report.benchmark_comparison_text import render_benchmark_comparison

    found = compare_kept(build_world(SilentReporter()), before, after)
    if as_json:
        print_value(found)
    else:
        width = shutil.get_terminal_size().columns
        print_text(render_benchmark_comparison(found, width=width, is_verbose=verbose))


@benches.command(name="list")
def list_verb(
    *,
    name: Annotated[_Text, typer.Argument(metavar="[NAME|URL]", help="Only those of it.")] = None,
    as_json: AsJson = False,
) -> None:
    """List what was measured and kept, the newest first."""
    import json

    from stoker.cli.output import print_text, print_value
    from stoker.cli.progress import SilentReporter
    from stoker.cli.world import build_world
    from stoker.commands.bench_kept import list_kept
    from stoker.model.document import render_document
    from stoker.report.benchmark_text import render_benchmarks

    found = list_kept(build_world(SilentReporter()), name)
    if as_json:
        documents = [json.loads(render_document(each)) for each in found.benchmarks]
        complaints = list(found.complaints)
        print_value({"schema": "benchmarks/1", "benchmarks": documents, "complaints": complaints})
    else:
        print_text(render_benchmarks(found.benchmarks, found.complaints))


@benches.command()
def show(
    *,
    benchmark: Annotated[
        str, typer.Argument(metavar="ID", help="The benchmark's id, or its start.")
    ],
    output: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(metavar="FILE", help="Write it too: .json, .csv, .requests.csv, .svg, .png."),
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show the definitions too.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show a benchmark that was kept, and export it."""
    from stoker.cli.bench_output import check_outputs, write_outputs
    from stoker.cli.output import print_text, print_value
    from stoker.cli.progress import SilentReporter
    from stoker.cli.world import build_world
    from stoker.commands.bench_kept import read_kept

    world = build_world(SilentReporter())
    check_outputs(world, output or ())
    found, samples = read_kept(world, benchmark)
    written = write_outputs(world, output or (), found, samples)
    if as_json:
        print_value(found)
    else:
        _show(found, is_verbose=verbose)
        if written.told:
            print_text("\n".join(written.told))
    if not written.is_whole:
        raise typer.Exit(ExitCode.ROLLED_BACK)
