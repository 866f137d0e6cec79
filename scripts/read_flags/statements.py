"""What each kind of statement does, as far as values of names depend on it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from scripts.read_flags import expressions, operations
from scripts.read_flags.scopes import Scope, names_touched
from scripts.read_flags.values import (
    Class,
    External,
    Function,
    Raised,
    Undecided,
    Unknown,
    Value,
)

if TYPE_CHECKING:
    from scripts.read_flags.evaluator import Evaluator

#: What a decorator makes of a method.
_KINDS = {"staticmethod": "static", "classmethod": "class", "property": "property"}


class Returned(Exception):
    """A function ends with this value."""

    def __init__(self, value: Value) -> None:
        super().__init__()
        self.value = value


class Broken(Exception):
    """``break``."""


class Continued(Exception):
    """``continue``."""


def execute(evaluator: Evaluator, statement: ast.stmt, scope: Scope) -> None:
    """Carry out one statement. Raises Undecided for a kind that is not followed."""
    done = _STATEMENTS.get(type(statement))
    if done is None:
        raise Undecided(f"{scope.member}:{statement.lineno} is beyond this reader")
    done(evaluator, statement, scope)


def _import(evaluator: Evaluator, statement: ast.Import, scope: Scope) -> None:
    for alias in statement.names:
        name = alias.name if alias.asname else alias.name.partition(".")[0]
        found = evaluator.given.get(name) or evaluator.find_module(name)
        scope.names[alias.asname or name] = found or External(name)


def _import_from(evaluator: Evaluator, statement: ast.ImportFrom, scope: Scope) -> None:
    module = source_of(statement, scope)
    for alias in statement.names:
        scope.names[alias.asname or alias.name] = evaluator.import_name(module, alias.name)


def source_of(statement: ast.ImportFrom, scope: Scope) -> str:
    """The full name of the module that is imported from."""
    module = statement.module or ""
    if not statement.level:
        return module
    parts = scope.module.split(".")
    parts = parts[: len(parts) - statement.level + 1]
    return ".".join([*parts, *([module] if module else [])])


def _define_function(evaluator: Evaluator, statement: ast.FunctionDef, scope: Scope) -> None:
    kinds = [
        _KINDS[decorator.id]
        for decorator in statement.decorator_list
        if isinstance(decorator, ast.Name) and decorator.id in _KINDS
    ]
    scope.names[statement.name] = Function(
        name=statement.name,
        node=statement,
        scope=scope,
        owner=scope.owner if isinstance(scope.owner, Class) else None,
        kind=kinds[0] if kinds else "function",
    )


def _define_class(evaluator: Evaluator, statement: ast.ClassDef, scope: Scope) -> None:
    bases = tuple(evaluator.evaluate(base, scope) for base in statement.bases)
    body = Scope(
        member=scope.member,
        module=scope.module,
        parent=scope,
        body=statement.body,
        is_class=True,
    )
    made = Class(
        name=statement.name,
        node=statement,
        scope=body,
        module=str(scope.names.get("__name__", scope.module)),
        bases=bases,
        decorators=tuple(ast.unparse(node) for node in statement.decorator_list),
    )
    body.owner = made
    scope.names[statement.name] = made


def _assign(evaluator: Evaluator, statement: ast.Assign, scope: Scope) -> None:
    value = evaluator.evaluate(statement.value, scope)
    for target in statement.targets:
        evaluator.assign(target, value, scope)


def _assign_annotated(evaluator: Evaluator, statement: ast.AnnAssign, scope: Scope) -> None:
    if statement.value is not None:
        evaluator.assign(statement.target, evaluator.evaluate(statement.value, scope), scope)


def _assign_augmented(evaluator: Evaluator, statement: ast.AugAssign, scope: Scope) -> None:
    old = evaluator.evaluate(statement.target, scope)
    new = evaluator.evaluate(statement.value, scope)
    value = expressions.combine(statement.op, old, new)
    if isinstance(old, list) and isinstance(value, list):
        old[:] = value
        value = old
    evaluator.assign(statement.target, value, scope)


def _expression(evaluator: Evaluator, statement: ast.Expr, scope: Scope) -> None:
    if not isinstance(statement.value, ast.Constant):
        evaluator.evaluate(statement.value, scope)


def _branch(evaluator: Evaluator, statement: ast.If, scope: Scope) -> None:
    condition = evaluator.evaluate(statement.test, scope)
    try:
        holds = evaluator.decide(condition, scope)
    except Undecided as error:
        if _decides_more(statement):
            raise
        _forget(evaluator, statement, scope, str(error))
        return
    evaluator.execute_all(statement.body if holds else statement.orelse, scope)


def _forget(evaluator: Evaluator, statement: ast.If, scope: Scope, reason: str) -> None:
    """What a branch may have set is unknown: an item of a table alone, where it is only that."""
    for inner in [*statement.body, *statement.orelse]:
        match inner:
            case ast.Assign(targets=[ast.Subscript(value=held, slice=ast.Constant(value=key))]):
                table = evaluator.evaluate(held, scope)
                if isinstance(table, dict):
                    table[key] = Unknown(reason)
                    continue
        for name in names_touched(inner):
            scope.names[name] = Unknown(reason)


def _decides_more(statement: ast.stmt) -> bool:
    """Whether more than the values of names depends on a branch."""
    for node in ast.walk(statement):
        if isinstance(node, (ast.Return, ast.Raise, ast.Break, ast.Continue)):
            return True
        if isinstance(node, ast.Attribute) and node.attr == "add_argument":
            return True
    return False


def _loop(evaluator: Evaluator, statement: ast.For, scope: Scope) -> None:
    items = operations.items_of(evaluator.evaluate(statement.iter, scope))
    if isinstance(items, Unknown):
        if _decides_more(statement):
            raise Undecided(items.reason)
        for name in names_touched(statement):
            scope.names[name] = items
        return
    for item in items:
        evaluator.assign(statement.target, item, scope)
        try:
            evaluator.execute_all(statement.body, scope)
        except Continued:
            continue
        except Broken:
            return
    evaluator.execute_all(statement.orelse, scope)


def _return(evaluator: Evaluator, statement: ast.Return, scope: Scope) -> None:
    raise Returned(None if statement.value is None else evaluator.evaluate(statement.value, scope))


def _try(evaluator: Evaluator, statement: ast.Try, scope: Scope) -> None:
    try:
        evaluator.execute_all(statement.body, scope)
    except Raised:
        if not statement.handlers:
            raise
        evaluator.execute_all(statement.handlers[0].body, scope)
    else:
        evaluator.execute_all(statement.orelse, scope)
    evaluator.execute_all(statement.finalbody, scope)


def _with(evaluator: Evaluator, statement: ast.With, scope: Scope) -> None:
    for item in statement.items:
        if item.optional_vars is not None:
            value = evaluator.evaluate(item.context_expr, scope)
            evaluator.assign(item.optional_vars, value, scope)
    evaluator.execute_all(statement.body, scope)


def _raise(evaluator: Evaluator, statement: ast.Raise, scope: Scope) -> None:
    raise Raised(f"{scope.member}:{statement.lineno} raises an error")


def _delete(evaluator: Evaluator, statement: ast.Delete, scope: Scope) -> None:
    for target in statement.targets:
        match target:
            case ast.Subscript(value=inner, slice=key):
                held, index = evaluator.evaluate(inner, scope), evaluator.evaluate(key, scope)
                if isinstance(held, dict) and index not in held:
                    raise Raised(f"{scope.member}:{target.lineno} deletes what is not there")
                if isinstance(held, (dict, list)):
                    del held[index]
            case ast.Name(id=name):
                scope.names.pop(name, None)


def _break(evaluator: Evaluator, statement: ast.Break, scope: Scope) -> None:
    raise Broken


def _continue(evaluator: Evaluator, statement: ast.Continue, scope: Scope) -> None:
    raise Continued


def _pass(evaluator: Evaluator, statement: ast.stmt, scope: Scope) -> None:
    """Nothing: an assertion is taken to hold, and ``global`` names are seen anyway."""


_STATEMENTS: Mapping[type[ast.stmt], Callable[[Any, Any, Scope], None]] = {
    ast.AnnAssign: _assign_annotated,
    ast.Assert: _pass,
    ast.Assign: _assign,
    ast.AugAssign: _assign_augmented,
    ast.Break: _break,
    ast.ClassDef: _define_class,
    ast.Continue: _continue,
    ast.Delete: _delete,
    ast.Expr: _expression,
    ast.For: _loop,
    ast.FunctionDef: _define_function,
    ast.Global: _pass,
    ast.If: _branch,
    ast.Import: _import,
    ast.ImportFrom: _import_from,
    ast.Nonlocal: _pass,
    ast.Pass: _pass,
    ast.Raise: _raise,
    ast.Return: _return,
    ast.Try: _try,
    ast.With: _with,
}
