"""The files that `stoker bench --output` writes, by their endings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stoker.errors import HostError, UsageError

if TYPE_CHECKING:
    from stoker.commands.output_file import OutputKind
    from stoker.commands.world import World
    from stoker.model.benchmark import Benchmark, Sample

    Samples = Sequence[Sequence[Sample]]
    Render = Callable[[Benchmark, Samples], str | bytes]

_ENDINGS = ".json, .csv, .requests.csv, .svg or .png"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Form:
    """A kind of file and how it is made."""

    kind: OutputKind
    render: Render


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A line for each file that was asked for, and whether all were written."""

    told: tuple[str, ...] = ()
    is_whole: bool = True


def check_outputs(world: World, paths: Sequence[str]) -> None:
    """Refuse what cannot be written before anything is measured. Raises UsageError."""
    from stoker.commands.output_file import check_output

    if len(set(paths)) < len(paths):
        raise UsageError("--output names a file twice", "name each once")
    for path in paths:
        check_output(world.host, path, _find_form(path).kind)


def write_outputs(
    world: World, paths: Sequence[str], benchmark: Benchmark, samples: Samples
) -> Written:
    """Write the files, as far as that is possible."""
    from stoker.commands.output_file import write_output

    told, is_whole = [], True
    for path in paths:
        form = _find_form(path)
        try:
            write_output(world.host, path, form.render(benchmark, samples), form.kind)
            told.append(f"wrote {path}")
        except (HostError, UsageError) as error:
            told.append(f"{path} was not written: {error.summary}")
            is_whole = False
    return Written(told=tuple(told), is_whole=is_whole)


def _find_form(path: str) -> _Form:
    from stoker.commands.output_file import OutputKind

    name = path.lower()
    if name.endswith(".requests.csv"):
        return _Form(
            kind=OutputKind(title="table of requests", mark="benchmark,", mode=0o644),
            render=_requests_csv,
        )
    for ending, title, mark, render in (
        (".json", "benchmark", '"backend": "openai-chat"', _json),
        (".csv", "table of loads", "benchmark,", _points_csv),
        (".svg", "picture", "<svg", _svg),
        (".png", "picture", "PNG", _png),
    ):
        if name.endswith(ending):
            return _Form(kind=OutputKind(title=title, mark=mark, mode=0o644), render=render)
    raise UsageError(f"{path} has no ending that says what to write", f"one of {_ENDINGS}")


def _json(benchmark: Benchmark, samples: Samples) -> str:
    from stoker.report.benchmark_export import render_export

    return render_export(benchmark, samples)


def _points_csv(benchmark: Benchmark, samples: Samples) -> str:
    from stoker.report.benchmark_csv import render_points_csv

    return render_points_csv([benchmark])


def _requests_csv(benchmark: Benchmark, samples: Samples) -> str:
    from stoker.report.benchmark_csv import render_samples_csv

    return render_samples_csv(benchmark, samples)


def _svg(benchmark: Benchmark, samples: Samples) -> str:
    from stoker.report.benchmark_svg import render_benchmark_svg

    return render_benchmark_svg(benchmark)


def _png(benchmark: Benchmark, samples: Samples) -> bytes:
    from stoker.report.benchmark_svg import render_benchmark_png

    return render_benchmark_png(benchmark)
