"""The command: `python -m scripts.read_flags`, which says how to use it when it gets nothing."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from scripts.read_flags.engines import read_engine
from scripts.read_flags.package import open_package
from scripts.read_flags.render import (
    find_lifetimes,
    find_renames,
    make_catalogue,
    render_catalogue,
    render_lifetimes,
    render_renames,
)
from scripts.read_flags.rows import Row
from stoker.knowledge.lifetimes import order_releases

DATA = Path(__file__).resolve().parents[2] / "src" / "stoker" / "knowledge" / "data"
#: Functions of a package call each other deeper than Python's own limit, since each of them
#: takes several calls here.
_RECURSION_LIMIT = 10_000
_HOW = """\
Fetch the packages first; nothing of them is run, and `pip config` says where they come from:

    python scripts/fetch_flag_sources.py sglang 0.5.22 0.5.23
    python scripts/fetch_flag_sources.py --sources vllm 0.33.0

Then make the catalogues, and the index of all of an engine's releases:

    python -m scripts.read_flags .cache/flag-sources/*/*
"""


def write_catalogue(path: Path, data: Path) -> tuple[str, str]:
    """Read one package and write its catalogue below the data folder. The engine and release."""
    catalogue = make_catalogue(read_engine(open_package(path)))
    engine, build = str(catalogue["engine"]), str(catalogue["build"])
    folder = data / "flags" / engine
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{build}.json").write_text(render_catalogue(catalogue), encoding="utf-8")
    return engine, build


def write_index(engine: str, data: Path) -> int:
    """Write what follows from all catalogues of an engine; how many releases there are."""
    folder = data / "flags" / engine
    releases = order_releases(path.stem for path in folder.glob("*.json"))
    catalogues: list[Row] = [
        json.loads((folder / f"{release}.json").read_text(encoding="utf-8")) for release in releases
    ]
    spans = render_lifetimes(engine, releases, find_lifetimes(catalogues))
    (data / "lifetimes").mkdir(exist_ok=True)
    (data / "lifetimes" / f"{engine}.json").write_text(spans, encoding="utf-8")
    renames = render_renames(engine, find_renames(catalogues))
    (folder / "renames.toml").write_text(renames, encoding="utf-8")
    return len(releases)


def main(words: Sequence[str]) -> None:
    """Read every package that is named, then renew the indexes of their engines."""
    parser = argparse.ArgumentParser(
        prog="python -m scripts.read_flags",
        description="Make flag catalogues from published packages, without importing them.",
        epilog=_HOW,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("packages", nargs="*", type=Path, help="wheels or source distributions")
    parser.add_argument("--data", type=Path, default=DATA, help="the folder to write below")
    wanted = parser.parse_args(words)
    if not wanted.packages:
        parser.print_help()
        return
    sys.setrecursionlimit(_RECURSION_LIMIT)
    engines = set()
    for path in wanted.packages:
        engine, build = write_catalogue(path, wanted.data)
        engines.add(engine)
        sys.stdout.write(f"{engine} {build}\n")
    for engine in sorted(engines):
        sys.stdout.write(f"{engine}: {write_index(engine, wanted.data)} releases\n")


if __name__ == "__main__":
    main(sys.argv[1:])
