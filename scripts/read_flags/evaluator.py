"""Following the source of a package: modules, names, statements and calls.

Statements are in :mod:`scripts.read_flags.statements`, expressions in
:mod:`scripts.read_flags.expressions`, and what is known of other packages in
:mod:`scripts.read_flags.library`. What cannot be told becomes
:class:`~scripts.read_flags.values.Unknown`, with the reason.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from scripts.read_flags import attributes, expressions, library, operations, records, statements
from scripts.read_flags.package import Package
from scripts.read_flags.scopes import Scope, names_touched
from scripts.read_flags.values import (
    ABSENT,
    Bound,
    Class,
    External,
    Function,
    Module,
    Native,
    Parser,
    Raised,
    Record,
    Typed,
    Undecided,
    Unknown,
    Value,
)

_MOST_STEPS = 20_000_000
_DEEPEST = 60


class Evaluator:
    """The state of reading one package.

    ``given`` holds values by their dotted names in the package that are used instead of what the
    source says: what asks the platform, or loads plug-ins.
    """

    def __init__(self, package: Package, given: Mapping[str, Value]) -> None:
        self.package = package
        self.given = given
        self.modules: dict[str, Module] = {}
        self.steps = 0
        self.depth = 0

    def evaluate(self, node: ast.expr, scope: Scope) -> Value:
        """The value of an expression."""
        self.steps += 1
        if self.steps > _MOST_STEPS:
            raise Undecided(f"{scope.member} takes too long to follow")
        return expressions.evaluate(self, node, scope)

    def attribute(self, value: Value, name: str) -> Value:
        """``value.name``; Raised where there is none."""
        return attributes.read_attribute(self, value, name)

    def find_module(self, name: str) -> Module | None:
        """A module of the package, None for one that it does not have."""
        if name in self.modules:
            return self.modules[name]
        found = self.package.find(name)
        if found is None:
            return None
        member, is_package = found
        try:
            tree = ast.parse(self.package.read(member), member)
        except SyntaxError as error:
            raise Undecided(f"{member} is not written for this Python: {error}") from error
        where = name if is_package else name.rpartition(".")[0]
        scope = Scope(member=member, module=where, body=tree.body)
        scope.names["__name__"] = name
        self.modules[name] = Module(name=name, scope=scope)
        for statement in tree.body:
            if isinstance(statement, ast.ImportFrom) and statement.names[0].name == "*":
                statement.names = [ast.alias(each) for each in self._public(statement, scope)]
        return self.modules[name]

    def _public(self, statement: ast.ImportFrom, scope: Scope) -> list[str]:
        """What ``from module import *`` would bring, for a module of the package."""
        found = self.find_module(statements.source_of(statement, scope))
        names = list(found.scope.all_names()) if found is not None else []
        if found is not None and "__all__" in names:
            listed = self.look_in(found.scope, "__all__")
            return [name for name in listed if isinstance(name, str)]
        return [name for name in names if not name.startswith("_")]

    def find(self, dotted: str) -> Value:
        """What a dotted name of the package stands for. Raises Undecided where it has none."""
        module, _, name = dotted.rpartition(".")
        found = self.find_module(module)
        if found is None or not found.scope.binds(name):
            raise Undecided(f"{self.package.file} has no {dotted}")
        self._register(found.scope)
        return self.attribute(found, name)

    def _register(self, scope: Scope) -> None:
        """Carry out the calls by which a module fills the tables that others look into.

        They stand in it as ``register_all_parsers()``: a function with such a name, without
        arguments.
        """
        for statement in scope.take_calls():
            self.execute(statement, scope)

    def import_name(self, module: str, name: str) -> Value:
        """What ``from module import name`` binds."""
        dotted = f"{module}.{name}"
        if dotted in self.given:
            return self.given[dotted]
        found = self.find_module(module)
        if found is not None and found.scope.binds(name):
            self._register(found.scope)
            return self.look_in(found.scope, name)
        inner = self.find_module(dotted)
        if inner is not None:
            return inner
        if found is not None and found.scope.binds("__getattr__"):
            return Unknown(f"{dotted} is found only when the package runs")
        if module.partition(".")[0] == self.package.name:
            return Unknown(f"{dotted} is not in the package")
        return library.canonical(dotted)

    def look_up(self, name: str, scope: Scope) -> Value:
        """The value of a name as the code in this scope sees it."""
        here: Scope | None = scope
        while here is not None:
            if here.binds(name) and not here.is_setting(name):
                return self.look_in(here, name)
            here = here.parent
            while here is not None and here.is_class:
                here = here.parent
        return library.builtin(name)

    def look_in(self, scope: Scope, name: str) -> Value:
        """The value of a name that this scope binds, after the statements that it depends on."""
        dotted = f"{scope.names.get('__name__', '')}.{name}"
        if dotted in self.given:
            return self.given[dotted]
        for statement in scope.due(name):
            try:
                self.execute(statement, scope)
            except (Undecided, Raised) as error:
                for touched in names_touched(statement):
                    scope.names[touched] = Unknown(str(error))
        return scope.names.get(name, Unknown(f"{name} is not set yet where it is used"))

    def execute_all(self, body: Sequence[ast.stmt], scope: Scope) -> None:
        """Statements in their order."""
        for statement in body:
            self.execute(statement, scope)

    def execute(self, statement: ast.stmt, scope: Scope) -> None:
        """Carry out one statement."""
        statements.execute(self, statement, scope)

    def decide(self, value: Value, scope: Scope) -> bool:
        """Whether a condition holds. Raises Undecided where the source does not tell."""
        value = operations.settle(value)
        if not isinstance(value, Unknown):
            return operations.is_true(value)
        if value.assumed is ABSENT:
            raise Undecided(value.reason)
        scope.assumed.append(value.reason)
        return operations.is_true(value.assumed)

    def call(
        self, function: Value, args: Sequence[Value], named: Mapping[str, Value] | None = None
    ) -> Value:
        """The result of calling a value."""
        named = named or {}
        match function:
            case Unknown():
                return self._call_unknown(function, args, named)
            case Native():
                return call_native(function, args, named)
            case Bound():
                return self.call(function.function, [function.receiver, *args], named)
            case Function():
                return self._call_function(function, args, named)
            case Class():
                return records.make_record(self, function, args, named)
            case External() | Typed():
                return library.call_external(self, function, args, named)
        return library.call_builtin(self, function, args, named)

    def _call_unknown(
        self, function: Unknown, args: Sequence[Value], named: Mapping[str, Value]
    ) -> Unknown:
        if function.assumed is ABSENT:
            return Unknown(function.reason)
        return Unknown(function.reason, self.call(function.assumed, args, named))

    def _call_function(
        self, function: Function, args: Sequence[Value], named: Mapping[str, Value]
    ) -> Value:
        if self.depth > _DEEPEST:
            raise Undecided(f"{function.name} is called too deep")
        frame = Scope(
            member=function.scope.member,
            module=function.scope.module,
            parent=function.scope,
            owner=function,
        )
        self._bind(function, args, named, frame)
        self.depth += 1
        try:
            result = self._run(function, frame)
        finally:
            self.depth -= 1
        if frame.assumed and not isinstance(result, (Unknown, Parser)) and result is not None:
            return Unknown(frame.assumed[0], result)
        return result

    def _run(self, function: Function, frame: Scope) -> Value:
        node = function.node
        if isinstance(node, ast.Lambda):
            return self.evaluate(node.body, frame)
        if any(isinstance(inner, (ast.Yield, ast.YieldFrom)) for inner in ast.walk(node)):
            return Unknown(f"{function.name} is a generator")
        try:
            self.execute_all(node.body, frame)
        except statements.Returned as returned:
            return returned.value
        return None

    def _bind(
        self, function: Function, args: Sequence[Value], named: Mapping[str, Value], frame: Scope
    ) -> None:
        """Give the parameters of a call their values."""
        expected = function.node.args
        rest, left = list(args), dict(named)
        positional = [*expected.posonlyargs, *expected.args]
        defaults = [None] * (len(positional) - len(expected.defaults)) + [*expected.defaults]
        for parameter, default in [
            *zip(positional, defaults, strict=True),
            *zip(expected.kwonlyargs, expected.kw_defaults, strict=True),
        ]:
            if rest and parameter in positional:
                value = rest.pop(0)
            elif parameter.arg in left:
                value = left.pop(parameter.arg)
            elif default is not None:
                value = self.evaluate(default, function.scope)
            else:
                raise Raised(f"{function.name}() is called without {parameter.arg}")
            frame.names[parameter.arg] = value
        if expected.vararg:
            frame.names[expected.vararg.arg] = tuple(rest)
        if expected.kwarg:
            frame.names[expected.kwarg.arg] = left

    def assign(self, target: ast.expr, value: Value, scope: Scope) -> None:
        """Bind a target to a value, or change what it names."""
        match target:
            case ast.Name(id=name):
                scope.names[name] = value
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                for part, item in zip(parts, self._unpack(value, parts), strict=True):
                    self.assign(part, item, scope)
            case ast.Starred(value=inner):
                self.assign(inner, value, scope)
            case ast.Attribute(value=inner, attr=name):
                self._set_attribute(self.evaluate(inner, scope), name, value)
            case ast.Subscript(value=inner, slice=key):
                held = self.evaluate(inner, scope)
                if isinstance(held, (dict, list)):
                    held[self.evaluate(key, scope)] = value
            case _:
                raise Undecided(f"{scope.member}:{target.lineno} is beyond this reader")

    def _unpack(self, value: Value, parts: Sequence[ast.expr]) -> list[Value]:
        """The items of a value that is taken apart into these; a starred one gets a list."""
        items = operations.items_of(value)
        if isinstance(items, Unknown):
            return [items] * len(parts)
        starred = [place for place, part in enumerate(parts) if isinstance(part, ast.Starred)]
        if starred:
            first, spare = starred[0], len(items) - len(parts) + 1
            items = [*items[:first], items[first : first + spare], *items[first + spare :]]
        if len(items) != len(parts):
            raise Undecided("a value is taken apart into another number of parts")
        return items

    def _set_attribute(self, holder: Value, name: str, value: Value) -> None:
        match holder:
            case Class():
                holder.extra[name] = value
            case Record():
                holder.values[name] = value


def call_native(function: Native, args: Sequence[Value], named: Mapping[str, Value]) -> Value:
    """The result of a function of ours; what it cannot take gives an unknown."""
    try:
        return function.call(*args, **named)
    except (TypeError, ValueError, LookupError) as error:
        return Unknown(f"{function.name}() is not followed: {error}")
