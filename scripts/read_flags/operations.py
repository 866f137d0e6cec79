"""Small questions about values, which need no source: is it true, is it the same, what is in it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from scripts.read_flags.scopes import Scope
from scripts.read_flags.values import (
    UNION,
    Argument,
    Bound,
    Class,
    External,
    Function,
    Member,
    Native,
    Parser,
    Raised,
    Typed,
    Undecided,
    Unknown,
    Value,
)

#: Modules whose names stand for themselves.
_KNOWN = {"abc", "argparse", "builtins", "collections", "dataclasses", "enum", "functools"}
_KNOWN |= {"json", "msgspec", "pydantic", "types", "typing"}


def is_true(value: Value) -> bool:
    """Whether a value counts as true; what is defined in a package does."""
    if value is None or isinstance(value, (bool, int, float, str, list, tuple, dict, set)):
        return bool(value)
    return True


def settle(value: Value) -> Value:
    """A value as a condition sees it: what lies in other packages is unknown, but for their types.

    ``torch.version.hip`` may be anything; ``typing.Union`` is what it is.
    """
    if isinstance(value, External) and value.name.partition(".")[0] not in _KNOWN:
        return Unknown(f"{value.name} is not known")
    return value


def is_kind(value: Value) -> bool:
    """Whether a value is a type, or stands where types are named."""
    return isinstance(value, (type, Class, Typed, External))


def same(left: Value, right: Value) -> bool:
    """Whether two values are one and the same, as ``is`` asks."""
    if isinstance(left, (External, Typed, Member)):
        return bool(left == right)
    if isinstance(left, (bool, int, float, str)):
        return type(left) is type(right) and bool(left == right)
    return left is right


def plain(value: Value) -> Value:
    """The value behind a member of an enumeration whose members are texts or numbers."""
    if isinstance(value, Member) and value.kind.outside() & {
        "builtins.str",
        "builtins.int",
        "enum.StrEnum",
        "enum.IntEnum",
    }:
        return value.value
    return value


def contents(value: Value) -> Value:
    """What ``in`` searches. Raises TypeError where that is not known."""
    if isinstance(value, (str, list, tuple, dict, set, frozenset, range)):
        return value
    if isinstance(value, Class) and value.is_enum:
        return [item for member in members_of(value) for item in (member, member.value)]
    raise TypeError("what it searches is not known")


def items_of(value: Value) -> list[Value] | Unknown:
    """The items that a loop over a value meets; sets are sorted, so that the order stays."""
    if isinstance(value, Unknown):
        return Unknown(value.reason)
    if isinstance(value, Class) and value.is_enum:
        return list(members_of(value))
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=repr)
    if isinstance(value, (str, list, tuple, dict, range)) or hasattr(value, "__next__"):
        return list(value)
    if isinstance(value, (type({}.keys()), type({}.values()), type({}.items()))):
        return list(value)
    return Unknown("what a loop goes through is not known")


def unite(types: tuple[Value, ...]) -> Typed:
    """A union of types, flat and without repetition."""
    flat: list[Value] = []
    for each in types:
        parts = each.args if isinstance(each, Typed) and each.origin == UNION else (each,)
        flat += [type(None) if part is None else part for part in parts]
    return Typed(UNION, tuple(dict.fromkeys(flat)))


def member_names(kind: Class) -> Iterator[tuple[str, ast.expr]]:
    """The names of an enumeration's members in their order, with their expressions."""
    for statement in kind.node.body:
        if isinstance(statement, ast.Assign):
            for target in statement.targets:
                if isinstance(target, ast.Name) and not target.id.startswith("_"):
                    yield target.id, statement.value


def members_of(kind: Class) -> list[Member]:
    """The members of an enumeration. Raises Undecided where a value is not known."""
    found = []
    for place, (name, node) in enumerate(member_names(kind), 1):
        value = kind.scope.names.get(name, node)
        if isinstance(value, ast.expr):
            value = _constant(kind, name, node, place)
        found.append(Member(kind=kind, name=name, value=value))
    return found


def _constant(kind: Class, name: str, node: ast.expr, place: int) -> Value:
    if isinstance(node, ast.Constant):
        return node.value
    if ast.unparse(node) in ("auto()", "enum.auto()"):
        return name.lower() if "enum.StrEnum" in kind.outside() else place
    try:
        return ast.literal_eval(node)
    except ValueError:
        return Unknown(f"{kind.name}.{name} is no constant")


def find_super(scope: Scope) -> Value:
    """What ``super()`` is in a method: its receiver, seen from the class after the method's."""
    here: Scope | None = scope
    while here is not None and not isinstance(here.owner, Function):
        here = here.parent
    if here is None or not isinstance(here.owner, Function) or here.owner.owner is None:
        raise Undecided("super() stands outside of a method")
    function = here.owner
    receiver = here.names[function.node.args.args[0].arg]
    lineage = receiver.lineage() if isinstance(receiver, Class) else receiver.kind.lineage()
    after = lineage[lineage.index(here.owner.owner) + 1 :]
    return Super(receiver, after)


class Super:
    """A receiver of methods that are looked up from some class on."""

    def __init__(self, receiver: Value, lineage: list[Class]) -> None:
        self.receiver = receiver
        self.lineage = lineage


def is_add_argument(function: Value) -> bool:
    """Whether a value is the method that adds an argument to a parser."""
    return isinstance(function, Bound) and isinstance(function.receiver, Parser)


def add_argument(
    function: Value, args: list[Value], named: dict[str, Value], place: tuple[str, int]
) -> Value:
    """Note an argument of a parser, and where it was added. The action is not followed."""
    member, line = place
    function.receiver.arguments.append(
        Argument(names=tuple(args), options=named, member=member, line=line)
    )
    return Unknown("what becomes of an added argument is not followed")


def native(name: str, value: Value) -> Native:
    """A function of ours by the name that the source knows it by."""
    return Native(name=name, call=value)


def missing(holder: str, name: str) -> Raised:
    """The error for an attribute that is not there."""
    return Raised(f"{holder} has no {name}")
