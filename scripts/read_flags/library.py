"""What is known of Python's library and of the few packages that parsers are built with.

Everything here answers from its arguments alone. A function that is not here is not called: its
result is unknown.
"""

from __future__ import annotations

import builtins
import inspect
import itertools
import posixpath
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from scripts.read_flags.operations import is_true, items_of, members_of, plain
from scripts.read_flags.records import (
    ORIGIN,
    define_struct,
    fields_of,
    is_dataclass,
)
from scripts.read_flags.scopes import Scope
from scripts.read_flags.values import (
    ABSENT,
    ANNOTATED,
    MISSING,
    UNION,
    Class,
    External,
    FieldSpec,
    Function,
    Member,
    Native,
    Raised,
    Record,
    Typed,
    Undecided,
    Unknown,
    Value,
)

if TYPE_CHECKING:
    from scripts.read_flags.evaluator import Evaluator

NOWHERE = Scope(member="", module="")

#: Names of other packages that have a value here. The command line asks for help, since engines
#: that save themselves the work otherwise leave out the texts that tell what is deprecated.
_CONSTANTS: Mapping[str, Callable[[], Value]] = {
    "sys.argv": lambda: ["engine", "--help"],
    "sys.maxsize": lambda: 2**63 - 1,
    "sys.modules": dict,
    "sys.platform": lambda: "linux",
    "sys.version_info": lambda: (3, 12, 0),
    "ssl.CERT_NONE": lambda: 0,
    "typing.TYPE_CHECKING": lambda: False,
    "typing.Dict": lambda: dict,
    "typing.FrozenSet": lambda: frozenset,
    "typing.List": lambda: list,
    "typing.Set": lambda: set,
    "typing.Tuple": lambda: tuple,
    "typing.Type": lambda: type,
    "types.NoneType": lambda: type(None),
    "types.UnionType": lambda: UNION,
}
_SAME_AS = {"typing_extensions.": "typing.", "pydantic.fields.": "pydantic."}

_FIELD_INFO = External("pydantic.FieldInfo")
_TYPES = (bool, int, float, str, list, dict, set, frozenset, tuple, type, object, bytes, range)


def canonical(dotted: str) -> Value:
    """What a dotted name outside of the package stands for."""
    for old, new in _SAME_AS.items():
        if dotted.startswith(old):
            dotted = new + dotted.removeprefix(old)
    return _CONSTANTS[dotted]() if dotted in _CONSTANTS else External(dotted)


def builtin(name: str) -> Value:
    """A name of the language itself. Raises Undecided for one that nothing binds."""
    found = getattr(builtins, name, None)
    if found in _TYPES or name in ("None", "True", "False", "Ellipsis"):
        return found
    if name in _BUILTINS or found is not None:
        return External(f"builtins.{name}")
    raise Undecided(f"nothing binds {name}")


def call_external(
    evaluator: Evaluator, function: Value, args: Sequence[Value], named: Mapping[str, Value]
) -> Value:
    """The result of a function outside of the package, unknown for most."""
    name = function.name if isinstance(function, External) else "a type"
    if name.startswith("builtins."):
        return _call_named(evaluator, name.removeprefix("builtins."), args, named)
    called = _EXTERNALS.get(name)
    if called is None:
        return Unknown(f"{name}() is not followed")
    return called(evaluator, args, named)


def call_builtin(
    evaluator: Evaluator, function: Value, args: Sequence[Value], named: Mapping[str, Value]
) -> Value:
    """The result of calling one of the language's types."""
    if isinstance(function, type) and function in _TYPES:
        return _call_named(evaluator, function.__name__, args, named)
    raise Undecided(f"{function!r} cannot be called")


def _call_named(
    evaluator: Evaluator, name: str, args: Sequence[Value], named: Mapping[str, Value]
) -> Value:
    if name in _BUILTINS:
        return _BUILTINS[name](evaluator, args, named)
    unknown = next((arg for arg in args if isinstance(arg, Unknown)), None)
    if unknown is not None:
        known = [arg.assumed if isinstance(arg, Unknown) else arg for arg in args]
        if ABSENT in known:
            return Unknown(unknown.reason)
        return Unknown(unknown.reason, _call_named(evaluator, name, known, named))
    if name not in _PURE:
        return Unknown(f"{name}() is not followed")
    try:
        return _PURE[name](*(_open(arg) for arg in args), **_callables(evaluator, named))
    except StopIteration as error:
        raise Raised(f"{name}() finds nothing") from error
    except (TypeError, ValueError) as error:
        return Unknown(f"{name}() is not followed: {error}")


def _open(value: Value) -> Value:
    """A value as Python's own functions take it."""
    if isinstance(value, Class) and value.is_enum:
        return members_of(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=repr)
    return plain(value)


def _callables(evaluator: Evaluator, named: Mapping[str, Value]) -> dict[str, Any]:
    return {
        key: _callable(evaluator, value) if key == "key" else value for key, value in named.items()
    }


def _callable(evaluator: Evaluator, function: Value) -> Callable[..., Value]:
    return lambda *args: evaluator.call(function, args)


def _isinstance(value: Value, kinds: Value) -> Value:
    if isinstance(value, Unknown) and kinds == _FIELD_INFO:
        return False
    if isinstance(value, Unknown):
        return Unknown(value.reason)
    return any(_is_one(value, kind) for kind in (kinds if isinstance(kinds, tuple) else (kinds,)))


def _is_one(value: Value, kind: Value) -> bool:
    if isinstance(kind, Typed) and kind.origin == UNION:
        return any(_is_one(value, part) for part in kind.args)
    if isinstance(kind, Class):
        holder = value.kind if isinstance(value, (Record, Member)) else None
        return holder is not None and kind in holder.lineage()
    if isinstance(kind, External):
        is_field = isinstance(value, FieldSpec) and kind == _FIELD_INFO
        return is_field or (isinstance(value, Member) and kind.name == "enum.Enum")
    if kind is type:
        return isinstance(value, (type, Class))
    return isinstance(kind, type) and isinstance(plain(value), kind)


def _issubclass(value: Value, kinds: Value) -> Value:
    for kind in kinds if isinstance(kinds, tuple) else (kinds,):
        if isinstance(value, Class):
            name = f"builtins.{kind.__name__}" if isinstance(kind, type) else ""
            name = kind.name if isinstance(kind, External) else name
            if kind in value.lineage() or name in value.outside():
                return True
        elif isinstance(value, type) and isinstance(kind, type) and issubclass(value, kind):
            return True
        elif isinstance(value, Unknown):
            return Unknown(value.reason)
    return False


def _type(value: Value) -> Value:
    if isinstance(value, (Record, Member)):
        return value.kind
    if isinstance(value, Unknown):
        return Unknown(value.reason)
    return type(value) if isinstance(value, (*_TYPES, type(None))) else External("builtins.object")


def _getattr(evaluator: Evaluator, args: Sequence[Value]) -> Value:
    holder, name, *default = args
    if isinstance(name, Unknown):
        return Unknown(name.reason)
    try:
        return evaluator.attribute(holder, name)
    except Raised:
        if not default:
            raise
        return default[0]


def _hasattr(evaluator: Evaluator, args: Sequence[Value]) -> Value:
    if isinstance(args[0], External) and args[0].name in sys.stdlib_module_names:
        return True
    if isinstance(args[0], (External, Unknown)):
        return Unknown("whether something outside of the package has a name is not known")
    try:
        evaluator.attribute(args[0], args[1])
    except Raised:
        return False
    return True


def _quantify(value: Value, *, stops_at: bool) -> Value:
    """``any`` for True and ``all`` for False."""
    items = items_of(value)
    if isinstance(items, Unknown):
        return items
    unknown = [item for item in items if isinstance(item, Unknown)]
    known = [item for item in items if not isinstance(item, Unknown)]
    if any(is_true(item) == stops_at for item in known):
        return stops_at
    return Unknown(unknown[0].reason) if unknown else not stops_at


def _map(evaluator: Evaluator, args: Sequence[Value]) -> Value:
    items = items_of(args[1])
    if isinstance(items, Unknown):
        return items
    return [evaluator.call(args[0], [item]) for item in items]


def _collect(kind: Callable[[list[Value]], Value], args: Sequence[Value]) -> Value:
    """A list, tuple or set of what a value holds."""
    items = items_of(args[0]) if args else []
    return items if isinstance(items, Unknown) else kind(items)


def _dict(args: Sequence[Value], named: Mapping[str, Value]) -> Value:
    if args and isinstance(args[0], Unknown):
        return Unknown(args[0].reason)
    return dict(args[0] if args else {}, **named)


def copy_deeply(value: Value) -> Value:
    """A copy whose lists and tables are copies too."""
    if isinstance(value, dict):
        return {key: copy_deeply(item) for key, item in value.items()}
    if isinstance(value, list):
        return [copy_deeply(item) for item in value]
    return set(value) if isinstance(value, set) else value


def _get_args(value: Value) -> tuple[Value, ...]:
    return value.args if isinstance(value, Typed) else ()


def _get_origin(value: Value) -> Value:
    return value.origin if isinstance(value, Typed) else None


def _type_hints(evaluator: Evaluator, args: Sequence[Value], named: Mapping[str, Value]) -> Value:
    if not isinstance(args[0], Class):
        return Unknown("the hints of something outside of the package are not known")
    keeps_extras = named.get("include_extras", False)
    return {
        field.name: field.type if keeps_extras else _without_extras(field.type)
        for field in fields_of(evaluator, args[0])
    }


def _without_extras(hint: Value) -> Value:
    return hint.args[0] if isinstance(hint, Typed) and hint.origin == ANNOTATED else hint


def _fields(evaluator: Evaluator, args: Sequence[Value]) -> Value:
    kind = args[0].kind if isinstance(args[0], Record) else args[0]
    if not isinstance(kind, Class):
        return Unknown("the fields of something outside of the package are not known")
    return tuple(fields_of(evaluator, kind))


def _field(maker: str) -> Callable[..., Value]:
    def make(evaluator: Evaluator, args: Sequence[Value], named: Mapping[str, Value]) -> Value:
        default = args[0] if args else named.get("default", MISSING)
        if default is Ellipsis:
            default = MISSING
        return FieldSpec(
            maker=maker,
            default=default,
            default_factory=named.get("default_factory", MISSING),
            init=named.get("init", True),
        )

    return make


def _variable(evaluator: Evaluator, args: Sequence[Value], named: Mapping[str, Value]) -> Value:
    default = args[1] if len(args) > 1 else named.get("default")
    return Unknown(f"the variable {args[0]} decides", default)


def _join(parts: Sequence[Value]) -> Value:
    """A path of parts; a home folder stays ``~``, since it is another one on every host."""
    unknown = next((part for part in parts if isinstance(part, Unknown)), None)
    if unknown is None:
        return posixpath.join(*parts)
    known = [part.assumed if isinstance(part, Unknown) else part for part in parts]
    return Unknown(unknown.reason, ABSENT if ABSENT in known else posixpath.join(*known))


def _vars(args: Sequence[Value]) -> Value:
    if isinstance(args[0], Class):
        return {ORIGIN: args[0]}
    return Unknown("what an object holds is not followed")


def _partial(evaluator: Evaluator, args: Sequence[Value], named: Mapping[str, Value]) -> Value:
    function, *first = args
    return Native(
        name="partial",
        call=lambda *rest, **more: evaluator.call(function, [*first, *rest], {**named, **more}),
    )


def _iterate(function: Callable[..., Any]) -> Callable[..., Value]:
    """A function of itertools over known items, as a list."""

    def call(evaluator: Evaluator, args: Sequence[Value], named: Mapping[str, Value]) -> Value:
        opened = [arg if isinstance(arg, int) else items_of(arg) for arg in args]
        unknown = next((item for item in opened if isinstance(item, Unknown)), None)
        return unknown or list(function(*opened, **named))

    return call


_PURE: Mapping[str, Callable[..., Any]] = {
    "abs": abs,
    "bool": bool,
    "enumerate": lambda *args: list(enumerate(*args)),
    "float": float,
    "int": int,
    "iter": iter,
    "len": len,
    "max": max,
    "min": min,
    "next": next,
    "range": range,
    "repr": repr,
    "reversed": lambda items: list(reversed(items)),
    "round": round,
    "sorted": sorted,
    "str": str,
    "sum": sum,
    "zip": lambda *args, **named: list(zip(*args, **named)),  # noqa: B905
}
_BUILTINS: Mapping[str, Callable[[Evaluator, Sequence[Value], Mapping[str, Value]], Value]] = {
    "all": lambda evaluator, args, named: _quantify(args[0], stops_at=False),
    "any": lambda evaluator, args, named: _quantify(args[0], stops_at=True),
    "callable": lambda evaluator, args, named: isinstance(args[0], (Function, Native, Class, type)),
    "dict": lambda evaluator, args, named: _dict(args, named),
    "frozenset": lambda evaluator, args, named: _collect(frozenset, args),
    "getattr": lambda evaluator, args, named: _getattr(evaluator, args),
    "hasattr": lambda evaluator, args, named: _hasattr(evaluator, args),
    "isinstance": lambda evaluator, args, named: _isinstance(*args),
    "issubclass": lambda evaluator, args, named: _issubclass(*args),
    "list": lambda evaluator, args, named: _collect(list, args),
    "map": lambda evaluator, args, named: _map(evaluator, args),
    "print": lambda evaluator, args, named: None,
    "set": lambda evaluator, args, named: _collect(set, args),
    "tuple": lambda evaluator, args, named: _collect(tuple, args),
    "type": lambda evaluator, args, named: _type(args[0]),
    "vars": lambda evaluator, args, named: _vars(args),
}
_EXTERNALS: Mapping[str, Callable[[Evaluator, Sequence[Value], Mapping[str, Value]], Value]] = {
    "collections.OrderedDict": lambda evaluator, args, named: _dict(args, named),
    "copy.copy": lambda evaluator, args, named: copy_deeply(args[0]),
    "copy.deepcopy": lambda evaluator, args, named: copy_deeply(args[0]),
    "dataclasses.field": _field("field"),
    "dataclasses.fields": lambda evaluator, args, named: _fields(evaluator, args),
    "dataclasses.is_dataclass": lambda evaluator, args, named: is_dataclass(args[0]),
    "functools.partial": _partial,
    "inspect.cleandoc": lambda evaluator, args, named: inspect.cleandoc(args[0]),
    "itertools.chain": _iterate(itertools.chain),
    "itertools.chain.from_iterable": _iterate(itertools.chain.from_iterable),
    "itertools.permutations": _iterate(itertools.permutations),
    "itertools.product": _iterate(itertools.product),
    "msgspec.defstruct": lambda evaluator, args, named: define_struct(args[0], args[1], named),
    "msgspec.field": _field("field"),
    "msgspec.structs.fields": lambda evaluator, args, named: _fields(evaluator, args),
    "os.environ.get": _variable,
    "os.getenv": _variable,
    "os.path.expanduser": lambda evaluator, args, named: args[0],
    "os.path.join": lambda evaluator, args, named: _join(args),
    "pydantic.Field": _field("Field"),
    "textwrap.dedent": lambda evaluator, args, named: textwrap.dedent(args[0]),
    "typing.cast": lambda evaluator, args, named: args[1],
    "typing.get_args": lambda evaluator, args, named: _get_args(args[0]),
    "typing.get_origin": lambda evaluator, args, named: _get_origin(args[0]),
    "typing.get_type_hints": _type_hints,
    "typing.is_typeddict": lambda evaluator, args, named: (
        isinstance(args[0], Class) and "typing.TypedDict" in args[0].outside()
    ),
}
