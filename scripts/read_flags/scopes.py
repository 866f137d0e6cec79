"""Where names are looked up: modules and class bodies, whose statements run when they are needed.

A module of an engine binds hundreds of names and imports half of the world. Of all that, the few
statements that a wanted name depends on are carried out, in their order in the file.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from scripts.read_flags.values import Value

if TYPE_CHECKING:
    from scripts.read_flags.values import Class, Function

#: Methods that change what they are called on.
_CHANGES = frozenset({"add", "append", "clear", "extend", "insert", "pop", "remove", "update"})


@dataclass(eq=False, slots=True)
class Scope:
    """Names and their values. ``body`` holds statements that have not been carried out yet.

    ``member`` is the file and ``module`` the dotted name. ``owner`` is the function that a frame
    belongs to, or the class whose body this is. ``assumed`` collects why conditions were taken to
    hold or not though something outside decides.
    """

    member: str
    module: str
    parent: Scope | None = None
    names: dict[str, Value] = field(default_factory=dict)
    body: Sequence[ast.stmt] = ()
    owner: Function | Class | None = None
    is_class: bool = False
    assumed: list[str] = field(default_factory=list)
    _touching: dict[str, list[int]] | None = None
    _done: set[int] = field(default_factory=set)
    _active: set[str] = field(default_factory=set)

    def binds(self, name: str) -> bool:
        """Whether this very scope has the name, or a statement that would give it one."""
        return name in self.names or name in self._index()

    def is_setting(self, name: str) -> bool:
        """Whether a class body is about to set the name: until then the name around it is meant."""
        return self.is_class and name in self._active and name not in self.names

    def all_names(self) -> Iterable[str]:
        """The names that the statements of this scope bind."""
        return self._index().keys()

    def due(self, name: str) -> Iterator[ast.stmt]:
        """The statements that the name depends on and that are not done; they count as done.

        A statement that asks for the name that it is about to set sees what was set before.
        """
        index = self._index()
        if name in self._active:
            return
        self._active.add(name)
        for place in index.get(name, ()):
            if place in self._done:
                continue
            for other in names_touched(self.body[place]) - {name}:
                yield from self._before(index.get(other, ()), place)
            self._done.add(place)
            yield self.body[place]
        self._active.discard(name)

    def take_calls(self) -> list[ast.stmt]:
        """The statements ``register_...()`` of this scope that are not done; they count as done."""
        found: list[ast.stmt] = []
        for place, statement in enumerate(self.body):
            match statement:
                case ast.Expr(value=ast.Call(func=ast.Name(id=name), args=[], keywords=[])):
                    if name.startswith("register") and place not in self._done:
                        self._done.add(place)
                        found.append(statement)
        return found

    def _before(self, places: Iterable[int], limit: int) -> Iterator[ast.stmt]:
        for place in places:
            if place < limit and place not in self._done:
                self._done.add(place)
                yield self.body[place]

    def _index(self) -> dict[str, list[int]]:
        if self._touching is None:
            self._touching = {}
            for place, statement in enumerate(self.body):
                for name in names_touched(statement):
                    self._touching.setdefault(name, []).append(place)
        return self._touching


def names_touched(statement: ast.stmt) -> set[str]:
    """The names that a statement binds, or whose values it changes."""
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return {name}
        case ast.Import(names=aliases):
            return {alias.asname or alias.name.partition(".")[0] for alias in aliases}
        case ast.ImportFrom(names=aliases):
            return {alias.asname or alias.name for alias in aliases}
        case ast.Assign(targets=targets) | ast.Delete(targets=targets):
            return {name for target in targets for name in _roots(target)}
        case ast.AnnAssign(target=target, value=value):
            return set(_roots(target)) if value is not None else set()
        case ast.AugAssign(target=target):
            return set(_roots(target))
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=changed, attr=method))):
            return set(_roots(changed)) if method in _CHANGES else set()
    return {name for inner in _inner_statements(statement) for name in names_touched(inner)} | {
        name for target in _loop_targets(statement) for name in _roots(target)
    }


def _inner_statements(statement: ast.stmt) -> Iterator[ast.stmt]:
    for part in ("body", "orelse", "finalbody"):
        yield from getattr(statement, part, ())
    for handler in getattr(statement, "handlers", ()):
        yield from handler.body


def _loop_targets(statement: ast.stmt) -> Iterator[ast.expr]:
    if isinstance(statement, ast.For):
        yield statement.target
    if isinstance(statement, ast.With):
        yield from (item.optional_vars for item in statement.items if item.optional_vars)


def _roots(target: ast.expr) -> Iterator[str]:
    match target:
        case ast.Name(id=name):
            yield name
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            for part in parts:
                yield from _roots(part)
        case ast.Attribute(value=inner) | ast.Subscript(value=inner) | ast.Starred(value=inner):
            yield from _roots(inner)
