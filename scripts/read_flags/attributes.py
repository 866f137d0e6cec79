"""What stands behind the dot: attributes and methods of every kind of value."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from scripts.read_flags import library
from scripts.read_flags.operations import Super, members_of, missing, native
from scripts.read_flags.records import fields_of
from scripts.read_flags.values import (
    ABSENT,
    MISSING,
    Bound,
    Class,
    External,
    FieldOf,
    FieldSpec,
    Function,
    Member,
    Module,
    Parser,
    Record,
    Typed,
    Unknown,
    Value,
    Variables,
)

if TYPE_CHECKING:
    from scripts.read_flags.evaluator import Evaluator

#: The methods of plain values that the source may call; none of them reaches anything outside.
_METHODS = frozenset(
    name for kind in (str, list, dict, set, tuple) for name in dir(kind) if not name.startswith("_")
) - {"center", "encode", "expandtabs", "format", "format_map", "ljust", "rjust"}
_PLAIN = (str, int, float, list, tuple, dict, set, frozenset)


def read_attribute(evaluator: Evaluator, value: Value, name: str) -> Value:
    """``value.name``. Raises Raised where the source would raise AttributeError."""
    for kind, read in _READERS.items():
        if isinstance(value, kind):
            return read(evaluator, value, name)
    if isinstance(value, type):
        return _of_type(value, name)
    if isinstance(value, _PLAIN) and name in _METHODS:
        return native(name, getattr(value, name))
    if value is None:
        raise missing("None", name)
    return Unknown(f"{name} of a value is not followed")


def _of_unknown(evaluator: Evaluator, value: Unknown, name: str) -> Value:
    if value.assumed is ABSENT:
        return Unknown(value.reason)
    return Unknown(value.reason, read_attribute(evaluator, value.assumed, name))


def _of_variables(evaluator: Evaluator, value: Variables, name: str) -> Value:
    if name == "is_set":
        return native(name, lambda asked: Unknown(value.read(asked).reason, assumed=False))
    read = value.read(name)
    if not value.has_getters:
        return read
    return Record(kind=_GETTER, values={"get": native("get", lambda: read)})


def _of_module(evaluator: Evaluator, value: Module, name: str) -> Value:
    if value.scope.binds(name) or f"{value.name}.{name}" in evaluator.given:
        return evaluator.look_in(value.scope, name)
    inner = evaluator.find_module(f"{value.name}.{name}")
    if inner is not None:
        return inner
    if value.scope.binds("__getattr__"):
        return Unknown(f"{value.name}.{name} is found only when the package runs")
    raise missing(value.name, name)


def _of_external(evaluator: Evaluator, value: External, name: str) -> Value:
    if name == "__module__":
        return value.name.rpartition(".")[0]
    return library.canonical(f"{value.name}.{name}")


def _of_typed(evaluator: Evaluator, value: Typed, name: str) -> Value:
    if name == "__module__" and isinstance(value.origin, (type, Class, External)):
        return read_attribute(evaluator, value.origin, name)
    known = {"__args__": value.args, "__origin__": value.origin}
    return known[name] if name in known else Unknown(f"{name} of a type is not followed")


def _of_class(evaluator: Evaluator, value: Class, name: str) -> Value:
    if name in value.extra:
        return value.extra[name]
    if name in ("__name__", "__qualname__"):
        return value.name
    if name == "__doc__":
        return ast.get_docstring(value.node)
    if name == "__module__":
        return value.module
    if name == "__mro__":
        return tuple(value.lineage())
    if name == "__annotations__":
        return {field.name: field.type for field in fields_of(evaluator, value)}
    if value.is_enum:
        return _of_enum(evaluator, value, name)
    found = _find_in(evaluator, value.lineage(), name)
    if found is ABSENT and value.outside():
        return Unknown(f"what {value.name} inherits from outside is not known")
    if found is ABSENT:
        raise missing(value.name, name)
    return _bind_to_class(found, value)


def _find_in(evaluator: Evaluator, lineage: list[Class], name: str) -> Value:
    for each in lineage:
        if name in each.extra:
            return each.extra[name]
        if each.scope.binds(name):
            return evaluator.look_in(each.scope, name)
    return ABSENT


def _bind_to_class(found: Value, kind: Class) -> Value:
    if isinstance(found, Function) and found.kind == "class":
        return Bound(found, kind)
    if not isinstance(found, FieldSpec):
        return found
    if found.default != MISSING:
        return found.default
    return Unknown("a default that is made anew each time is not followed")


def _of_enum(evaluator: Evaluator, value: Class, name: str) -> Value:
    members = {member.name: member for member in members_of(value)}
    if name == "__members__":
        return members
    if name in members:
        return members[name]
    found = _find_in(evaluator, value.lineage(), name)
    if found is ABSENT:
        raise missing(value.name, name)
    return _bind_to_class(found, value)


def _of_member(evaluator: Evaluator, value: Member, name: str) -> Value:
    if name in ("name", "_name_"):
        return value.name
    if name in ("value", "_value_"):
        return value.value
    found = _find_in(evaluator, value.kind.lineage(), name)
    if isinstance(found, Function):
        return _bind_to_instance(evaluator, found, value)
    if isinstance(value.value, str) and name in _METHODS:
        return native(name, getattr(value.value, name))
    raise missing(value.kind.name, name)


def _of_record(evaluator: Evaluator, value: Record, name: str) -> Value:
    if name in value.values:
        return value.values[name]
    if name == "__class__":
        return value.kind
    found = _find_in(evaluator, value.kind.lineage(), name)
    if found is ABSENT and value.kind.outside():
        return Unknown(f"what {value.kind.name} inherits from outside is not known")
    if found is ABSENT:
        raise missing(value.kind.name, name)
    if isinstance(found, Function):
        return _bind_to_instance(evaluator, found, value)
    return found


def _bind_to_instance(evaluator: Evaluator, found: Function, receiver: Record | Member) -> Value:
    if found.kind == "static":
        return found
    if found.kind == "class":
        return Bound(found, receiver.kind)
    bound = Bound(found, receiver)
    return evaluator.call(bound, []) if found.kind == "property" else bound


def _of_super(evaluator: Evaluator, value: Super, name: str) -> Value:
    found = _find_in(evaluator, value.lineage, name)
    if isinstance(found, Function) and found.kind != "static":
        return Bound(found, value.receiver)
    if found is ABSENT and name == "__init__":
        return native(name, lambda *args, **named: None)
    if found is ABSENT:
        raise missing("super()", name)
    return found


def _of_field(evaluator: Evaluator, value: FieldOf | FieldSpec, name: str) -> Value:
    if name in type(value).__slots__:
        found = getattr(value, name)
        # pydantic's fields say None where dataclasses say MISSING.
        is_pydantic = isinstance(value, FieldSpec) and name == "default_factory"
        return None if is_pydantic and found == MISSING else found
    return Unknown(f"{name} of a field is not followed")


def _of_function(evaluator: Evaluator, value: Function, name: str) -> Value:
    if name in ("__name__", "__qualname__"):
        return value.name
    if name == "__doc__" and isinstance(value.node, ast.FunctionDef):
        return ast.get_docstring(value.node)
    return Unknown(f"{name} of a function is not followed")


def _of_parser(evaluator: Evaluator, value: Parser, name: str) -> Value:
    if name == "add_argument":
        return Bound(_ADD_ARGUMENT, value)
    if name in ("add_argument_group", "add_mutually_exclusive_group"):
        return native(name, lambda *args, **named: value)
    if name == "set_defaults":
        return native(name, lambda **named: None)
    return Unknown(f"{name} of a parser is not followed")


def _of_type(value: type, name: str) -> Value:
    if name in ("__name__", "__qualname__", "__module__"):
        return getattr(value, name)
    if name in _METHODS and value in (str, list, dict, set, tuple):
        return native(name, getattr(value, name))
    return Unknown(f"{name} of {value.__name__} is not followed")


def _stub(name: str) -> Any:
    """The syntax tree of an empty class or function of ours."""
    return ast.parse(name).body[0]


_ADD_ARGUMENT = Function(
    name="add_argument", node=_stub("def add_argument(): pass"), scope=library.NOWHERE
)
_GETTER = Class(
    name="variable",
    node=_stub("class variable: pass"),
    scope=library.NOWHERE,
    module="",
    bases=(),
    decorators=(),
)
_READERS: Mapping[type, Callable[[Evaluator, Any, str], Value]] = {
    Unknown: _of_unknown,
    Variables: _of_variables,
    Module: _of_module,
    External: _of_external,
    Typed: _of_typed,
    Class: _of_class,
    Member: _of_member,
    Record: _of_record,
    Super: _of_super,
    FieldOf: _of_field,
    FieldSpec: _of_field,
    Function: _of_function,
    Parser: _of_parser,
}
