"""Which model classes each release of an engine registers, from its published packages.

Run by hand, with the project's own interpreter, after `scripts/fetch_flag_sources.py`:

    python -m scripts.read_model_classes .cache/flag-sources/*/*

A package is a wheel, a source distribution or an unpacked one (a folder named NAME-RELEASE).
`data/model_classes/ENGINE.json` holds for each class (a name under `architectures` of a
config.json) the first and last releases that register it; `named` likewise those that a release
only mentions where it reads configurations, as it does with one that it replaces by another;
`endings` are those by which the newest release takes one class for another. Nothing is imported.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from scripts.read_flags.package import Package, open_package
from scripts.read_flags.render import find_lifetimes
from stoker.knowledge.lifetimes import order_releases

DATA = Path(__file__).resolve().parents[1] / "src" / "stoker" / "knowledge" / "data"
#: Every release that we read registers far more; fewer would mean that its form has changed.
_FEWEST = 100
_CLASS = re.compile(r"[A-Z]\w{2,}(?:For[A-Z]\w*|Model|MTP|NextN|Eagle3?)", re.ASCII)
_FOLDER = re.compile(r"(?P<name>[a-z]+)-(?P<version>\d[\w.]*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What one release says: the classes it registers, those it names, the endings it exchanges."""

    classes: frozenset[str]
    named: frozenset[str]
    endings: tuple[str, ...] = ()


def read_release(package: Package) -> Reading:
    """The classes of a release. Raises ValueError where it does not look as those that we know."""
    read_classes, folders = _ENGINES[package.name]
    classes = frozenset(read_classes(package))
    if len(classes) < _FEWEST:
        raise ValueError(f"{package.file}: only {len(classes)} model classes were found")
    named = {
        node.value
        for member in package.members(".py")
        if member.startswith(folders)
        for node in ast.walk(_parse(package, member))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if _CLASS.fullmatch(node.value)
    }
    return Reading(
        classes=classes, named=frozenset(named) - classes, endings=tuple(_read_endings(package))
    )


def read_entry_classes(package: Package) -> Iterator[str]:
    """SGLang: the names that modules of its models assign to `EntryClass`, alone or in a list."""
    for member in package.members(".py"):
        folder, _, _ = member.rpartition("/")
        if folder == "sglang/srt/models":
            for name, value in _assigned(_parse(package, member)):
                if name == "EntryClass":
                    yield from _names(value)


def read_registry(package: Package) -> Iterator[str]:
    """vLLM: the keys of the one dict of all models, and of the dicts that it is made of."""
    tables = {
        name: value
        for name, value in _assigned(_parse(package, "vllm/model_executor/models/registry.py"))
        if isinstance(value, ast.Dict)
    }
    return _keys("_VLLM_MODELS", tables)


def _parse(package: Package, member: str) -> ast.Module:
    """A module's tree; some of their files begin with a mark of the order of bytes."""
    return ast.parse(package.read(member).removeprefix("\ufeff"))


def _keys(name: str, tables: Mapping[str, ast.Dict]) -> Iterator[str]:
    for key, value in zip(tables[name].keys, tables[name].values, strict=True):
        if isinstance(key, ast.Constant):
            yield str(key.value)
        elif isinstance(value, ast.Name):  # **_OTHER_MODELS
            yield from _keys(value.id, tables)


def _names(value: ast.expr) -> Iterator[str]:
    """The classes of an expression, whatever it is made of; a text names a class too."""
    for node in ast.walk(value):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _assigned(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """What is assigned or added to names anywhere in a module, also below a condition."""
    for node in ast.walk(tree):
        targets = node.targets if isinstance(node, ast.Assign) else []
        if isinstance(node, (ast.AnnAssign, ast.AugAssign)):
            targets = [node.target]
        value = getattr(node, "value", None)
        for target in targets:
            if isinstance(target, ast.Name) and isinstance(value, ast.expr):
                yield target.id, value


def _read_endings(package: Package) -> Iterator[str]:
    """vLLM: the endings of classes that it exchanges until one is registered."""
    if package.find("vllm.config.model") is None:
        return
    for name, value in _assigned(_parse(package, "vllm/config/model.py")):
        if name == "_SUFFIX_TO_DEFAULTS" and isinstance(value, ast.List):
            for pair in value.elts:
                if isinstance(pair, ast.Tuple) and isinstance(pair.elts[0], ast.Constant):
                    yield str(pair.elts[0].value)


#: For each engine who reads its registry, and where it reads the configurations of models.
_ENGINES: Mapping[str, tuple[Callable[[Package], Iterator[str]], tuple[str, ...]]] = {
    "sglang": (
        read_entry_classes,
        (
            *("sglang/srt/configs/", "sglang/srt/model_loader/"),
            *("sglang/srt/utils/hf_transformers", "sglang/srt/hf_transformers"),
        ),
    ),
    "vllm": (read_registry, ("vllm/transformers_utils/", "vllm/config/")),
}


def open_any(path: Path) -> Package:
    """A package as it was published, or unpacked. Raises ValueError for any other name."""
    if not path.is_dir():
        return open_package(path)
    named = _FOLDER.fullmatch(path.name)
    if named is None:
        raise ValueError(f"{path.name} is not named like NAME-RELEASE")
    files = sorted((path / named["name"]).rglob("*.py"))
    sources = {str(file.relative_to(path)): file.read_text("utf-8", "replace") for file in files}
    return Package(file=path.name, name=named["name"], version=named["version"], sources=sources)


def render(engine: str, readings: Mapping[str, Reading]) -> str:
    """JSON with one class a line; the releases are ordered here."""
    releases = order_releases(readings)
    newest = releases[-1]
    source = {
        "kind": "documented",
        "where": f"the published packages of {engine} {releases[0]} to {newest}",
        "version": newest,
        "date": datetime.now(UTC).date().isoformat(),
    }
    head: dict[str, Any] = {
        "engine": engine,
        "source": source,
        "releases": releases,
        "endings": readings[newest].endings,
    }
    lines = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
    for part in ("classes", "named"):
        spans = _find_spans(releases, {each: getattr(readings[each], part) for each in releases})
        rows = ",\n".join(f"  {json.dumps(name)}: {json.dumps(ends)}" for name, ends in spans)
        lines.append(f" {json.dumps(part)}: {{\n{rows}\n }}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _find_spans(
    releases: Sequence[str], names: Mapping[str, frozenset[str]]
) -> list[tuple[str, list[str]]]:
    """First and last releases of each class, as those of flags are found."""
    rows = [
        {"build": each, "options": [{"names": [name]} for name in sorted(names[each])]}
        for each in releases
    ]
    return list(find_lifetimes(rows).items())


def write_files(paths: Sequence[Path], data: Path) -> None:
    """Read every package and write the file of its engine. It describes these releases alone."""
    engines: dict[str, dict[str, Reading]] = {}
    for path in paths:
        package = open_any(path)
        engines.setdefault(package.name, {})[package.version] = read_release(package)
    folder = data / "model_classes"
    folder.mkdir(exist_ok=True)
    for engine, readings in engines.items():
        (folder / f"{engine}.json").write_text(render(engine, readings), encoding="utf-8")


def _main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("packages", nargs="+", type=Path, help="wheels, sources or their folders")
    parser.add_argument("--data", type=Path, default=DATA, help="the folder to write below")
    wanted = parser.parse_args()
    write_files(wanted.packages, wanted.data)


if __name__ == "__main__":
    _main()
