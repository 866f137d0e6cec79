"""Dataclasses, structs and their fields, as the libraries that define them would list them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from scripts.read_flags.operations import members_of
from scripts.read_flags.values import (
    MISSING,
    NODEFAULT,
    Class,
    External,
    FieldOf,
    FieldSpec,
    Raised,
    Record,
    Typed,
    Unknown,
    Value,
)

if TYPE_CHECKING:
    from scripts.read_flags.evaluator import Evaluator

#: What a decorator that makes a dataclass is called, here or in an engine.
_DATACLASS = ("dataclass", "dataclasses.dataclass", "config", "pydantic_dataclass")
_STRUCT = "msgspec.Struct"
_TUPLE = "typing.NamedTuple"
#: Annotations of names that are no fields.
_NO_FIELDS = ("typing.ClassVar", "dataclasses.InitVar")
#: Where ``vars()`` of a class keeps the class itself, for what is built from that.
ORIGIN = "__origin_class__"


def is_dataclass(value: Value) -> bool:
    """Whether a value is a dataclass, or an instance of one."""
    kind = value.kind if isinstance(value, Record) else value
    return isinstance(kind, Class) and any(
        decorator.partition("(")[0] in _DATACLASS
        for each in kind.lineage()
        for decorator in each.decorators
    )


def fields_of(evaluator: Evaluator, kind: Class) -> list[FieldOf]:
    """All fields, those of the bases first."""
    if "__fields__" in kind.extra:
        return list(kind.extra["__fields__"])
    found: dict[str, FieldOf] = {}
    for each in reversed(kind.lineage()):
        for name, node in _annotated(each):
            made = _read_field(evaluator, each, name, node)
            if made is not None:
                found[name] = made
    return list(found.values())


def _annotated(kind: Class) -> Iterator[tuple[str, ast.AnnAssign]]:
    for statement in kind.node.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            yield statement.target.id, statement


def _read_field(
    evaluator: Evaluator, kind: Class, name: str, node: ast.AnnAssign
) -> FieldOf | None:
    annotation = node.annotation
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        annotation = ast.parse(annotation.value, mode="eval").body
    hint = evaluator.evaluate(annotation, kind.scope)
    origin = hint.origin if isinstance(hint, Typed) else hint
    if isinstance(origin, External) and origin.name in _NO_FIELDS:
        return None
    absent = NODEFAULT if _STRUCT in kind.outside() else MISSING
    if node.value is None:
        return FieldOf(name=name, type=hint, default=absent, default_factory=absent)
    value = evaluator.evaluate(node.value, kind.scope)
    if not isinstance(value, FieldSpec):
        return FieldOf(name=name, type=hint, default=value, default_factory=absent)
    if value.maker == "Field":
        return FieldOf(name=name, type=hint, default=value, default_factory=absent)
    default = absent if value.default == MISSING else value.default
    factory = absent if value.default_factory == MISSING else value.default_factory
    return FieldOf(name=name, type=hint, default=default, default_factory=factory, init=value.init)


def default_of(evaluator: Evaluator, field: FieldOf) -> Value:
    """The value that a field has when nothing is given for it; MISSING where it needs one."""
    default, factory = field.default, field.default_factory
    if isinstance(default, FieldSpec):
        default, factory = default.default, default.default_factory
    if default not in (MISSING, NODEFAULT):
        return default
    if factory in (MISSING, NODEFAULT):
        return MISSING
    return evaluator.call(factory, [])


def make_record(
    evaluator: Evaluator, kind: Class, args: Sequence[Value], named: Mapping[str, Value]
) -> Value:
    """An instance of a class. What its own code would do after that is not followed."""
    if kind.is_enum:
        return _find_member(kind, args)
    outside = kind.outside()
    if "builtins.dict" in outside and not args:
        return dict(named)
    if is_dataclass(kind) or outside & {_STRUCT, _TUPLE}:
        fields = fields_of(evaluator, kind)
        values = dict(zip((field.name for field in fields), args, strict=False)) | dict(named)
        for field in fields:
            if field.name not in values:
                values[field.name] = default_of(evaluator, field)
        return Record(kind=kind, values=values)
    made = Record(kind=kind, values={})
    if any(each.scope.binds("__init__") for each in kind.lineage()):
        evaluator.call(evaluator.attribute(made, "__init__"), args, named)
    elif outside:
        return Unknown(f"an instance of {kind.name} is not followed")
    return made


def _find_member(kind: Class, args: Sequence[Value]) -> Value:
    if len(args) != 1 or isinstance(args[0], Unknown):
        return Unknown(f"a member of {kind.name} is not followed")
    for member in members_of(kind):
        if args[0] in (member, member.value):
            return member
    raise Raised(f"{kind.name} has no member {args[0]!r}")


def define_struct(name: str, fields: Sequence[Value], named: Mapping[str, Value]) -> Class:
    """The class that ``msgspec.defstruct`` makes of a list of fields and of another class."""
    origin: Class = named["namespace"][ORIGIN]
    listed = [
        FieldOf(
            name=field[0],
            type=field[1],
            default=field[2] if len(field) > 2 else NODEFAULT,
            default_factory=NODEFAULT,
        )
        for field in fields
    ]
    made = [
        field
        if not isinstance(field.default, FieldSpec)
        else FieldOf(
            name=field.name,
            type=field.type,
            default=NODEFAULT if field.default.default == MISSING else field.default.default,
            default_factory=field.default.default_factory,
        )
        for field in listed
    ]
    return Class(
        name=name,
        node=origin.node,
        scope=origin.scope,
        module=origin.module,
        bases=(External(_STRUCT), origin),
        decorators=(),
        extra={"__fields__": made},
    )
