"""The values that the evaluator computes with.

Numbers, texts, lists and dictionaries are Python's own, and so are the types ``str``, ``int`` and
so on. What is defined in a package, or comes from outside of it, is one of the classes here.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from scripts.read_flags.scopes import Scope

Value: TypeAlias = Any


class Absent:
    """The one value that says that there is none."""

    def __repr__(self) -> str:
        return "<absent>"


ABSENT = Absent()


@dataclass(frozen=True, slots=True, eq=False)
class Unknown:
    """What cannot be told from the source. ``assumed`` is the value where nothing interferes.

    An environment variable that decides is taken as unset in a condition; a default that comes
    from it stays unknown.
    """

    reason: str
    assumed: Value = ABSENT


@dataclass(frozen=True, slots=True)
class External:
    """Something of another package, by its dotted name: ``argparse.SUPPRESS``."""

    name: str

    @property
    def last(self) -> str:
        """The name without what it is in."""
        return self.name.rpartition(".")[2]


@dataclass(frozen=True, slots=True)
class Typed:
    """A type with arguments: ``list[int]``, ``Literal["a"]``, and a union of types."""

    origin: Value
    args: tuple[Value, ...]


UNION = External("typing.Union")
LITERAL = External("typing.Literal")
ANNOTATED = External("typing.Annotated")
MISSING = External("dataclasses.MISSING")
NODEFAULT = External("msgspec.NODEFAULT")


@dataclass(eq=False, slots=True)
class Module:
    """A module of the package."""

    name: str
    scope: Scope = field(repr=False)


@dataclass(eq=False, slots=True)
class Class:
    """A class of the package. ``extra`` holds what was set on it from outside its body."""

    name: str
    node: ast.ClassDef = field(repr=False)
    scope: Scope = field(repr=False)
    module: str
    bases: tuple[Value, ...]
    decorators: tuple[str, ...]
    extra: dict[str, Value] = field(default_factory=dict, repr=False)

    def lineage(self) -> list[Class]:
        """The class and its bases in the package, the nearest first."""
        found = [self]
        for base in self.bases:
            if isinstance(base, Class):
                found += [each for each in base.lineage() if each not in found]
        return found

    def outside(self) -> set[str]:
        """The dotted names of all its bases that are outside of the package."""
        bases = [base for each in self.lineage() for base in each.bases]
        bases = [base.origin if isinstance(base, Typed) else base for base in bases]
        names = {base.name for base in bases if isinstance(base, External)}
        return names | {f"builtins.{base.__name__}" for base in bases if isinstance(base, type)}

    @property
    def is_enum(self) -> bool:
        """Whether its names are members."""
        return any(name.startswith("enum.") for name in self.outside())


@dataclass(eq=False, slots=True)
class Function:
    """A function, method or lambda of the package. ``kind``: function, static, class, property."""

    name: str
    node: ast.FunctionDef | ast.Lambda = field(repr=False)
    scope: Scope = field(repr=False)
    owner: Class | None = None
    kind: str = "function"


@dataclass(frozen=True, slots=True, eq=False)
class Bound:
    """A method together with what it is called on."""

    function: Function
    receiver: Value


@dataclass(eq=False, slots=True)
class Record:
    """An instance of a class of the package."""

    kind: Class
    values: dict[str, Value]


@dataclass(frozen=True, slots=True)
class Member:
    """A member of an enumeration."""

    kind: Class
    name: str
    value: Value


@dataclass(frozen=True, slots=True, eq=False)
class FieldSpec:
    """What ``field(...)`` or pydantic's ``Field(...)`` says. ``maker`` is the function's name."""

    maker: str
    default: Value = MISSING
    default_factory: Value = MISSING
    init: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class FieldOf:
    """One field of a dataclass or struct, as ``fields(cls)`` lists it."""

    name: str
    type: Value
    default: Value
    default_factory: Value
    init: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class Argument:
    """One call of ``add_argument``. ``member`` and ``line`` say where it stands."""

    names: tuple[Value, ...]
    options: Mapping[str, Value]
    member: str
    line: int


@dataclass(eq=False, slots=True)
class Parser:
    """A parser or one of its groups; both collect into one list."""

    arguments: list[Argument]


@dataclass(frozen=True, slots=True, eq=False)
class Native:
    """A function of ours that stands for one of Python's library. It gets all by position."""

    name: str
    call: Callable[..., Value]


@dataclass(frozen=True, slots=True, eq=False)
class Variables:
    """The engine's table of environment variables: each one's value while none is set.

    ``has_getters``: whether the source reads a variable as ``table.NAME.get()``.
    """

    defaults: Mapping[str, Value]
    has_getters: bool

    def read(self, name: str) -> Unknown:
        """The value of a variable: something outside decides."""
        return Unknown(f"the variable {name} decides", self.defaults.get(name, ABSENT))


class Raised(Exception):
    """The source raises an error here."""


class Undecided(Exception):
    """A condition that everything after depends on is unknown."""
