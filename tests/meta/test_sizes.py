"""The budgets of size and shape. A failure names the place and the number.

Booleans by position, missing docstrings and prints are ruff's part of the same budgets.
"""

import ast
import math
from collections.abc import Callable, Iterable
from pathlib import PurePosixPath
from statistics import median
from textwrap import indent

import pytest

from tests.meta.source import PACKAGE, FunctionNode, functions, parsed_modules

MEDIAN_LINES = 10
P99_LINES = 60
MAX_LINES = 80
MAX_MODULE_LINES = 500
MAX_POSITIONAL = 4
MAX_NESTING = 3
MAX_FIELDS = 12

#: A module is named after what it holds; these say only that something is in it.
EMPTY_NAMES = frozenset({"base", "common", "helper", "helpers", "manager", "misc", "util", "utils"})

#: The command line and the web answer for every error; the executor must roll back after any.
MAY_CATCH_ALL = ("cli/main.py", "web/", "apply/execute.py")

BLOCKS = (
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.With,
    ast.AsyncWith,
    ast.Try,
    ast.TryStar,
    ast.Match,
)


def line_count(function: FunctionNode) -> int:
    """Lines from ``def`` to the end, docstring included, decorators not."""
    return (function.end_lineno or function.lineno) - function.lineno + 1


def positional_count(function: FunctionNode) -> int:
    """Parameters that a caller may pass by position, without ``self``."""
    names = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
    return len(names) - (names[:1] in (["self"], ["cls"]))


def nesting(node: ast.AST, depth: int = 0) -> int:
    """How deep blocks lie in each other; ``elif`` lies beside its ``if``, not in it."""
    deepest = depth
    for child in ast.iter_child_nodes(node):
        if isinstance(child, FunctionNode | ast.ClassDef):
            continue
        beside = isinstance(node, ast.If) and isinstance(child, ast.If) and node.orelse == [child]
        opens = isinstance(child, BLOCKS) or (isinstance(child, ast.If) and not beside)
        deepest = max(deepest, nesting(child, depth + opens))
    return deepest


def catches_all(handler: ast.ExceptHandler) -> bool:
    """Whether it is ``except:``, ``except Exception`` or ``except BaseException``, also in a
    tuple."""
    types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    names = {type_.id for type_ in types if isinstance(type_, ast.Name)}
    return handler.type is None or bool(names & {"Exception", "BaseException"})


def over(limit: int, measure: Callable[[FunctionNode], int]) -> list[str]:
    """The functions whose measure is above the limit, each with its number."""
    return [f"{place}: {measure(node)}" for place, node in functions() if measure(node) > limit]


def values() -> Iterable[tuple[str, ast.ClassDef, str]]:
    """The dataclasses of ``stoker.model`` with their places and the text of their decorators."""
    for module, tree in parsed_modules().items():
        found = (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
        for node in found if module.startswith("model/") else ():
            decorators = " ".join(map(ast.unparse, node.decorator_list))
            if "dataclass" in decorators:
                yield f"{module}:{node.lineno} {node.name}", node, decorators


def field_count(class_: ast.ClassDef) -> int:
    """Annotated names of a class that are not class variables."""
    annotations = [ast.unparse(n.annotation) for n in class_.body if isinstance(n, ast.AnnAssign)]
    return sum(not text.startswith("ClassVar") for text in annotations)


def test_functions_are_short() -> None:
    lengths = sorted(line_count(node) for _, node in functions())
    assert over(MAX_LINES, line_count) == []
    assert median(lengths) <= MEDIAN_LINES
    assert lengths[math.ceil(0.99 * len(lengths)) - 1] <= P99_LINES, over(P99_LINES, line_count)


def test_modules_are_short() -> None:
    sizes = {
        module: len((PACKAGE / module).read_bytes().splitlines()) for module in parsed_modules()
    }
    assert {module: size for module, size in sizes.items() if size > MAX_MODULE_LINES} == {}


def test_calls_read_without_counting_arguments() -> None:
    assert over(MAX_POSITIONAL, positional_count) == []


def test_blocks_are_not_nested_deeply() -> None:
    assert over(MAX_NESTING, nesting) == []


def test_modules_are_named_after_what_they_hold() -> None:
    names = {module: {*PurePosixPath(module).with_suffix("").parts} for module in parsed_modules()}
    assert {module for module, parts in names.items() if parts & EMPTY_NAMES} == set()


def test_only_three_places_catch_everything() -> None:
    broad = [
        f"{module}:{node.lineno}"
        for module, tree in parsed_modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ExceptHandler)
        and catches_all(node)
        and not module.startswith(MAY_CATCH_ALL)
    ]
    assert broad == []


def test_values_are_frozen_and_keyword_only() -> None:
    assert [
        place
        for place, _, decorators in values()
        if not all(f"{word}=True" in decorators for word in ("frozen", "kw_only", "slots"))
    ] == []


def test_values_have_at_most_a_dozen_fields() -> None:
    wide = {place: field_count(node) for place, node, _ in values()}
    assert {place: count for place, count in wide.items() if count > MAX_FIELDS} == {}


@pytest.mark.parametrize(
    ("body", "depth"),
    [
        ("return", 0),
        ("if a: pass\nelif b: pass\nelif c: pass\nelse: pass", 1),
        ("if a:\n pass\nelse:\n if b: pass\n x = 1", 2),
        ("for a in b:\n with c:\n  try: pass\n  except E:\n   while d: pass", 4),
        ("def inner():\n for a in b: pass", 0),
    ],
)
def test_nesting_counts_blocks_in_blocks(body: str, depth: int) -> None:
    (function,) = ast.parse(f"def f():\n{indent(body, ' ')}").body
    assert nesting(function) == depth


@pytest.mark.parametrize(
    ("clause", "broad"),
    [
        ("except:", True),
        ("except Exception:", True),
        ("except (OSError, BaseException) as error:", True),
        ("except OSError:", False),
        ("except (ValueError, KeyError):", False),
    ],
)
def test_broad_excepts_are_recognised(clause: str, broad: bool) -> None:
    handler = next(
        node
        for node in ast.walk(ast.parse(f"try: pass\n{clause} pass"))
        if isinstance(node, ast.ExceptHandler)
    )
    assert catches_all(handler) is broad
