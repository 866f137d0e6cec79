"""What each release of an engine was built for, from its published packages: two data files.

Run by hand, with the project's own interpreter, after `scripts/fetch_flag_sources.py`:

    python -m scripts.read_requirements .cache/flag-sources/*/*

`data/stack_requirements/ENGINE.json` holds, by release, the distributions that the package pins
and those that the engine itself asserts when it starts; `data/backends/ENGINE.json` the least
compute capability that each quantization method asks for. Nothing of the packages is run.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import tarfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement

from scripts.read_flags.package import Package, open_package
from stoker.knowledge.lifetimes import order_releases

DATA = Path(__file__).resolve().parents[1] / "src" / "stoker" / "knowledge" / "data"
#: What a served model stands on; the rest of an engine's dependencies changes nothing here.
_KEPT = re.compile(
    r"torch|sgl-kernel|sglang-kernel|sgl-deep-gemm|flashinfer-(python|cubin)|transformers"
    r"|nvidia-cutlass-dsl|nvidia-cudnn-frontend|flash-attn-4|quack-kernels|tilelang|triton"
)
_MARKS = re.compile(r"[-_.]+")
_TOLD = re.compile(r"(?:METADATA|requirements/(?:cuda|common)\.txt)$")


def read_pins(path: Path) -> dict[str, str]:
    """The versions that a package asks for, by distribution, of those that matter here."""
    pins: dict[str, str] = {}
    for text in _read_told(path):
        for line in text.splitlines():
            words = line.removeprefix("Requires-Dist:").partition(" #")[0].strip()
            pins |= dict(_parse_pin(words))
    return dict(sorted(pins.items()))


def _read_told(path: Path) -> Iterator[str]:
    """The texts in a package that name its dependencies."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            for name in filter(_TOLD.search, wheel.namelist()):
                yield wheel.read(name).decode("utf-8", "replace")
        return
    with tarfile.open(path, "r:gz") as archive:
        for member in archive:
            file = archive.extractfile(member) if _TOLD.search(member.name) else None
            if file is not None:
                yield file.read().decode("utf-8", "replace")


def _parse_pin(words: str) -> Iterator[tuple[str, str]]:
    try:
        wanted = Requirement(words)
    except InvalidRequirement:
        return
    name = _MARKS.sub("-", wanted.name).lower()
    is_extra = wanted.marker is not None and "extra" in str(wanted.marker)
    if _KEPT.fullmatch(name) and wanted.specifier and not is_extra:
        yield name, ",".join(sorted(str(each) for each in wanted.specifier))


def read_asserted(package: Package) -> dict[str, str]:
    """The least versions that the engine asserts when it starts (`assert_pkg_version`)."""
    found: dict[str, str] = {}
    for member in package.members("/entrypoints/engine.py"):
        for call in ast.walk(ast.parse(package.read(member))):
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "assert_pkg_version":
                words = [each.value for each in call.args[:2] if isinstance(each, ast.Constant)]
                if len(words) == len(call.args[:2]) == 2:
                    found[_MARKS.sub("-", str(words[0])).lower()] = str(words[1])
    return dict(sorted(found.items()))


def read_floors(package: Package) -> dict[str, int]:
    """The least compute capability of each quantization method, as far as a constant says it."""
    folder = "/layers/quantization/"
    trees = [
        ast.parse(package.read(member)) for member in package.members(".py") if folder in member
    ]
    floors = dict(_class_floors(trees))
    methods = {name: cls for tree in trees for name, cls in _method_classes(tree)}
    return {name: floors[cls] for name, cls in sorted(methods.items()) if cls in floors}


def _class_floors(trees: Iterable[ast.Module]) -> Iterator[tuple[str, int]]:
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                for function in node.body:
                    if getattr(function, "name", "") == "get_min_capability":
                        yield from ((node.name, least) for least in _returned(function))


def _returned(function: ast.AST) -> Iterator[int]:
    """The least of all constants that may be returned: what is surely asked for."""
    returns = [node for node in ast.walk(function) if isinstance(node, ast.Return)]
    values = [
        constant.value
        for node in returns
        if node.value is not None
        for constant in ast.walk(node.value)
        if isinstance(constant, ast.Constant) and type(constant.value) is int
    ]
    told = [value for value in values if value > 0]
    if told and len(values) >= len(returns):
        yield min(told)


def _method_classes(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """The table of methods: a dict of texts to classes, wherever it is assigned."""
    for node in ast.walk(tree):
        target = node.target if isinstance(node, ast.AnnAssign) else None
        name = getattr(target, "id", "")
        is_table = name in ("BASE_QUANTIZATION_METHODS", "method_to_config")
        if is_table and isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Dict):
            for key, value in zip(node.value.keys, node.value.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(value, ast.Name):
                    yield str(key.value), value.id


def find_spans(floors: Mapping[str, Mapping[str, int]]) -> list[dict[str, Any]]:
    """Floors by release as spans of releases with the same floor."""
    spans: list[dict[str, Any]] = []
    running: dict[str, dict[str, Any]] = {}
    for release in order_releases(floors):
        told = floors[release]
        for name in [name for name in running if name not in told]:
            del running[name]
        for name, capability in told.items():
            span = running.get(name)
            if span is None or span["capability"] != capability:
                span = {"name": name, "capability": capability, "first": release}
                running[name] = span
                spans.append(span)
            span["last"] = release
    return sorted(spans, key=lambda span: str(span["name"]))


def write_files(paths: Sequence[Path], data: Path) -> None:
    """Read every package and write both files of its engine. They describe these releases alone."""
    engines: dict[str, dict[str, Any]] = {}
    for path in paths:
        package = open_package(path)
        told = engines.setdefault(package.name, {"releases": {}, "floors": {}})
        pins = {"pins": read_pins(path), "asserted": read_asserted(package)}
        told["releases"][package.version] = pins
        told["floors"][package.version] = read_floors(package)
    for engine, told in engines.items():
        releases = order_releases(told["releases"])
        ordered = {release: told["releases"][release] for release in releases}
        _write(data / "stack_requirements", engine, releases, {"releases": ordered})
        _write(data / "backends", engine, releases, {"floors": find_spans(told["floors"])})


def _write(folder: Path, engine: str, releases: Sequence[str], rows: Mapping[str, Any]) -> None:
    source = {
        "kind": "documented",
        "where": f"the published packages of {engine} {releases[0]} to {releases[-1]}",
        "version": releases[-1],
        "date": datetime.now(UTC).date().isoformat(),
    }
    text = json.dumps({"engine": engine, "source": source, **rows}, indent=1)
    short = re.sub(r"\{\n\s+([^{}]*?)\n\s+\}", lambda found: _on_one_line(found[1]), text)
    folder.mkdir(exist_ok=True)
    (folder / f"{engine}.json").write_text(f"{short}\n", encoding="utf-8")


def _on_one_line(inside: str) -> str:
    return "{" + re.sub(r"\n\s+", " ", inside) + "}"


def _main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("packages", nargs="+", type=Path, help="wheels or source distributions")
    parser.add_argument("--data", type=Path, default=DATA, help="the folder to write below")
    wanted = parser.parse_args()
    write_files(wanted.packages, wanted.data)


if __name__ == "__main__":
    _main()
