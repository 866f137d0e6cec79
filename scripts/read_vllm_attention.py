"""Which GPUs each attention backend of vLLM says it supports, from the published packages.

Run by hand, with the project's own interpreter, after `scripts/fetch_flag_sources.py`:

    python -m scripts.read_vllm_attention .cache/flag-sources/vllm/*.tar.gz

Reads `supports_compute_capability`, `is_mla` and `is_sparse` of the classes as syntax and runs
nothing. Writes `tests/knowledge/recorded/vllm_attention.json`, which our own table is held against.
A condition that asks for more than the capability is left out, as are the backends of other makers.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from scripts.read_flags.package import Package, open_package
from stoker.knowledge.lifetimes import order_releases

_FILE = (
    Path(__file__).resolve().parents[1] / "tests" / "knowledge" / "recorded" / "vllm_attention.json"
)
_FOLDERS = ("vllm/v1/attention/backends/", "vllm/attention/backends/")
_OTHERS = re.compile(r"rocm|aiter|xpu|cpu|/amd/|composite")
_GPUS = ((7, 5), (8, 0), (8, 9), (9, 0), (10, 0), (10, 3), (11, 0), (12, 0), (12, 1))

Gpu = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Class:
    """What one class says of itself: the returned expressions by method, and its bases."""

    bases: tuple[str, ...]
    told: Mapping[str, ast.expr] = field(default_factory=dict)


def read_backends(package: Package) -> dict[str, list[str]]:
    """The capabilities that each backend accepts, by its name; empty for none of them."""
    classes = dict(_classes(package))
    found: dict[str, list[str]] = {}
    for name in classes:
        title = _constant(_find(name, "get_name", classes))
        condition = _find(name, "supports_compute_capability", classes)
        if isinstance(title, str) and condition is not None:
            answers = [(gpu, _holds(condition, gpu)) for gpu in _GPUS]
            if None not in [answer for _, answer in answers]:
                found[title] = [f"{gpu[0]}.{gpu[1]}" for gpu, answer in answers if answer]
    return dict(sorted(found.items()))


def _classes(package: Package) -> Iterator[tuple[str, _Class]]:
    for member in package.members(".py"):
        if member.startswith(_FOLDERS) and not _OTHERS.search(member):
            for node in ast.parse(package.read(member)).body:
                if isinstance(node, ast.ClassDef) and node.name.endswith("Backend"):
                    bases = tuple(base.id for base in node.bases if isinstance(base, ast.Name))
                    if not _OTHERS.search(node.name.lower()):
                        yield node.name, _Class(bases=bases, told=dict(_returned(node)))


def _returned(node: ast.ClassDef) -> Iterator[tuple[str, ast.expr]]:
    """The expression that a method returns, of methods that do nothing else."""
    for method in node.body:
        if isinstance(method, ast.FunctionDef):
            body = [line for line in method.body if not isinstance(line, ast.Expr)]
            last = body[0] if len(body) == 1 else None
            if isinstance(last, ast.Return) and last.value is not None:
                yield method.name, last.value


def _find(name: str, method: str, classes: Mapping[str, _Class]) -> ast.expr | None:
    """What a class or the first of its bases says."""
    cls = classes.get(name)
    if cls is None:
        return None
    if method in cls.told:
        return cls.told[method]
    told = (_find(base, method, classes) for base in cls.bases if base != name)
    return next((each for each in told if each is not None), None)


def _constant(node: ast.expr | None) -> object:
    return node.value if isinstance(node, ast.Constant) else None


def _holds(node: ast.expr, gpu: Gpu) -> bool | None:
    """Whether a condition about `capability` holds for a GPU; None for any other condition."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, bool) else None
    if isinstance(node, ast.BoolOp):
        parts = [_holds(part, gpu) for part in node.values]
        if None in parts:
            return None
        return all(parts) if isinstance(node.op, ast.And) else any(parts)
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        left, right = _value(node.left, gpu), _value(node.comparators[0], gpu)
        return None if left is None or right is None else _compare(left, node.ops[0], right)
    return None


def _compare(left: object, operator: ast.cmpop, right: object) -> bool | None:
    match operator, left, right:
        case ast.Eq(), _, _:
            return left == right
        case ast.In(), _, list() | tuple():
            return left in right
        case ast.GtE(), tuple(), tuple():
            return left >= right
        case ast.LtE(), tuple(), tuple():
            return left <= right
    return None


def _value(node: ast.expr, gpu: Gpu) -> object | None:
    match node:
        case ast.Name(id="capability"):
            return gpu
        case ast.Attribute(value=ast.Name(id="capability"), attr="major" | "minor" as part):
            return gpu[0] if part == "major" else gpu[1]
        case ast.Call(func=ast.Name(id="DeviceCapability"), args=args):
            return tuple(_constant(each) for each in args)
        case ast.Constant(value=value):
            return value if isinstance(value, int) else None
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            values = [_value(part, gpu) for part in parts]
            return None if None in values else tuple(values)
    return None


def _main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("packages", nargs="+", type=Path, help="source distributions of vLLM")
    packages = [open_package(path) for path in parser.parse_args().packages]
    told = {package.version: read_backends(package) for package in packages}
    lines = [
        f'  "{release}": {{\n'
        + ",\n".join(f'   "{name}": {json.dumps(gpus)}' for name, gpus in told[release].items())
        + "\n  }"
        for release in order_releases(told)
        if told[release]
    ]
    made = json.dumps("scripts/read_vllm_attention.py, the published source distributions")
    text = ",\n".join(lines)
    _FILE.write_text(f'{{\n "made": {made},\n "releases": {{\n{text}\n }}\n}}\n', encoding="utf-8")


if __name__ == "__main__":
    _main()
