"""Where each engine builds its command line, and where it declares its variables.

This is all that is particular to an engine. A release that moves things is found by what the
modules define, not by their names alone, as far as that goes.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from scripts.read_flags.evaluator import Evaluator
from scripts.read_flags.package import Package
from scripts.read_flags.values import (
    ABSENT,
    Argument,
    Class,
    Function,
    Native,
    Parser,
    Raised,
    Undecided,
    Unknown,
    Value,
    Variables,
)

_PLATFORM = Unknown("the platform decides")


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """An environment variable: the word for its type, and its value while it is not set."""

    name: str
    type: str
    default: Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What was read of one release.

    ``suggestions`` are values of options that the source lists elsewhere than in its parser.
    ``inverses`` are the beginnings of names that switch off what the same name with another
    beginning switches on.
    """

    engine: str
    package: Package
    evaluator: Evaluator
    arguments: tuple[Argument, ...]
    variables: tuple[Variable, ...]
    suggestions: Mapping[str, Sequence[str]] = field(default_factory=dict)
    inverses: Mapping[str, str] = field(default_factory=dict)


def read_engine(package: Package) -> Reading:
    """The arguments and variables of a release. Raises ValueError for another package."""
    if package.name not in _ENGINES:
        raise ValueError(f"{package.file} is none of {', '.join(_ENGINES)}")
    return _ENGINES[package.name](package)


def _read_sglang(package: Package) -> Reading:
    """``ServerArgs.add_cli_args``, which ``launch_server`` gives its parser to."""
    given: dict[str, Value] = {}
    evaluator = Evaluator(package, given)
    made = tuple(_sglang_variables(evaluator))
    defaults = {variable.name: variable.default for variable in made}
    given["sglang.srt.environ.envs"] = Variables(defaults, has_getters=True)
    variables = tuple(_compute_default(evaluator, variable) for variable in made)
    parser = Parser(arguments=[])
    builder = evaluator.attribute(
        evaluator.find("sglang.srt.server_args.ServerArgs"), "add_cli_args"
    )
    evaluator.call(builder, [parser])
    return Reading(
        engine="sglang",
        package=package,
        evaluator=evaluator,
        arguments=tuple(parser.arguments),
        variables=variables,
    )


def _sglang_variables(evaluator: Evaluator) -> Iterator[Variable]:
    """The class ``Envs`` names every variable once: ``SGLANG_X = EnvBool(False)``."""
    table = evaluator.find("sglang.srt.environ.Envs")
    for statement in table.node.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as made):
                first = made.args[0] if made.args else None
                default = evaluator.evaluate(first, table.scope) if first else None
                yield Variable(name=name, type=_sglang_type(made), default=default)


def _compute_default(evaluator: Evaluator, variable: Variable) -> Variable:
    """The variable with the default that a function computes; it may look at other variables."""
    if not isinstance(variable.default, Function):
        return variable
    return replace(variable, default=_unset(evaluator, variable.default))


def _sglang_type(made: ast.Call) -> str:
    word = ast.unparse(made.func).removeprefix("Env").removesuffix("WithAlias").lower()
    return word or "str"


def _read_vllm(package: Package) -> Reading:
    """``make_arg_parser`` beside ``FrontendArgs``, which ``vllm serve`` gives its parser to."""
    given: dict[str, Value] = {
        "vllm.platforms.current_platform": _PLATFORM,
        "vllm.plugins.load_general_plugins": Native("load_general_plugins", lambda: None),
    }
    evaluator = Evaluator(package, given)
    load = Native("LazyLoader", lambda name, names, module: evaluator.find_module(module))
    documents = Native("get_attr_docs", _documents_of)
    given |= {
        "vllm.config.get_attr_docs": documents,
        "vllm.config.utils.get_attr_docs": documents,
        "vllm.utils.LazyLoader": load,
        "vllm.utils.import_utils.LazyLoader": load,
    }
    variables = tuple(_vllm_variables(evaluator))
    defaults = {variable.name: variable.default for variable in variables}
    given["vllm.envs"] = Variables(defaults, has_getters=False)
    parser = Parser(arguments=[])
    evaluator.call(evaluator.find(f"{_find_front_end(package)}.make_arg_parser"), [parser])
    return Reading(
        engine="vllm",
        package=package,
        evaluator=evaluator,
        arguments=tuple(parser.arguments),
        variables=variables,
        suggestions={"--reasoning-parser": tuple(_vllm_reasoning_parsers(evaluator))},
        inverses=_vllm_inverses(package, evaluator),
    )


def _vllm_inverses(package: Package, evaluator: Evaluator) -> dict[str, str]:
    """What the parser's own action for switches adds beside ``--no-``; nothing before 0.33.0."""
    members = package.members("argparse_utils.py")
    if not any("class EnableDisableAction" in package.sources[member] for member in members):
        return {}
    action = evaluator.find("vllm.utils.argparse_utils.EnableDisableAction")
    table = evaluator.attribute(action, "_inverse_prefixes")
    return dict(table) if isinstance(table, Mapping) else {}


def _vllm_reasoning_parsers(evaluator: Evaluator) -> Iterator[str]:
    """The parsers that come with the engine; the parser of flags leaves the choice to plug-ins."""
    try:
        registry = evaluator.find("vllm.reasoning.ReasoningParserManager")
        names = evaluator.call(evaluator.attribute(registry, "list_registered"), [])
    except (Undecided, Raised):
        return
    yield from (name for name in names if isinstance(name, str)) if isinstance(names, list) else ()


def _find_front_end(package: Package) -> str:
    wanted = ("\nclass FrontendArgs", "\ndef make_arg_parser")
    found = [
        member
        for member in package.members("cli_args.py")
        if all(text in package.sources[member] for text in wanted)
    ]
    if len(found) != 1:
        raise Undecided(f"{package.file} has {len(found)} modules that could make the parser")
    return found[0].removesuffix(".py").replace("/", ".")


def _documents_of(kind: Class) -> dict[str, str]:
    """The texts behind the fields of a class and of its bases, by field."""
    found: dict[str, str] = {}
    for each in reversed(kind.lineage()):
        for statement, text in pairwise(each.node.body):
            match statement, text:
                case (
                    ast.AnnAssign(target=ast.Name(id=name))
                    | ast.Assign(targets=[ast.Name(id=name)]),
                    ast.Expr(value=ast.Constant(value=str(words))),
                ):
                    found[name] = inspect.cleandoc(words)
    return found


def _vllm_variables(evaluator: Evaluator) -> Iterator[Variable]:
    """``environment_variables`` maps each name to the function that reads it."""
    module = evaluator.find_module("vllm.envs")
    if module is None:
        return
    types = dict(_vllm_types(module.scope.body))
    table = evaluator.look_in(module.scope, "environment_variables")
    for name, read in table.items() if isinstance(table, dict) else ():
        yield Variable(name=name, type=types.get(name, ""), default=_unset(evaluator, read))


def _unset(evaluator: Evaluator, read: Value) -> Value:
    try:
        value = evaluator.call(read, [])
    except (Undecided, Raised) as error:
        return Unknown(str(error))
    if not isinstance(value, Unknown):
        return value
    return Unknown(value.reason) if value.assumed is ABSENT else value.assumed


def _vllm_types(body: Sequence[ast.stmt]) -> Iterator[tuple[str, str]]:
    """The declarations for type checkers, of which only the type is used."""
    for statement in body:
        match statement:
            case ast.If(body=inner):
                yield from _vllm_types(inner)
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation):
                yield name, ast.unparse(annotation).removesuffix(" | None")


_ENGINES: Mapping[str, Callable[[Package], Reading]] = {
    "sglang": _read_sglang,
    "vllm": _read_vllm,
}
