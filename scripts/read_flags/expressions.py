"""The values of expressions. What an unknown takes part in is unknown, unless it cannot matter."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from scripts.read_flags import operations
from scripts.read_flags.scopes import Scope
from scripts.read_flags.values import (
    ABSENT,
    ANNOTATED,
    LITERAL,
    MISSING,
    NODEFAULT,
    UNION,
    Class,
    External,
    Function,
    Raised,
    Typed,
    Undecided,
    Unknown,
    Value,
)

if TYPE_CHECKING:
    from scripts.read_flags.evaluator import Evaluator

_LARGEST = 100_000
_OPERATORS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.LShift: operator.lshift,
    ast.Mod: operator.mod,
    ast.Mult: operator.mul,
    ast.Pow: operator.pow,
    ast.Sub: operator.sub,
}
_COMPARISONS: Mapping[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: lambda left, right: operations.plain(left) == operations.plain(right),
    ast.NotEq: lambda left, right: operations.plain(left) != operations.plain(right),
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.In: lambda left, right: left in operations.contents(right),
    ast.NotIn: lambda left, right: left not in operations.contents(right),
    ast.Is: operations.same,
    ast.IsNot: lambda left, right: not operations.same(left, right),
}


def evaluate(evaluator: Evaluator, node: ast.expr, scope: Scope) -> Value:
    """The value of one expression in this scope."""
    done = _EXPRESSIONS.get(type(node))
    if done is None:
        return Unknown(f"{scope.member}:{node.lineno} is beyond this reader")
    return done(evaluator, node, scope)


def combine(sign: ast.operator, left: Value, right: Value) -> Value:
    """The value of two values with an operator between them."""
    for side in (left, right):
        if isinstance(side, Unknown):
            sides = [each.assumed if isinstance(each, Unknown) else each for each in (left, right)]
            assumed = ABSENT if ABSENT in sides else combine(sign, *sides)
            return Unknown(side.reason, assumed)
    if isinstance(sign, ast.BitOr) and (_is_type(left) or _is_type(right)):
        return operations.unite((left, right))
    left, right = operations.plain(left), operations.plain(right)
    action = _OPERATORS.get(type(sign))
    if action is None or _is_huge(sign, left, right):
        return Unknown("a calculation is not followed")
    try:
        return action(left, right)
    except (TypeError, ValueError, ArithmeticError) as error:
        return Unknown(f"a calculation is not followed: {error}")


def _is_huge(sign: ast.operator, left: Value, right: Value) -> bool:
    if isinstance(sign, (ast.Pow, ast.LShift)):
        return not (isinstance(right, int) and abs(right) <= 64)
    sizes = [len(side) for side in (left, right) if isinstance(side, (str, list, tuple))]
    counts = [side for side in (left, right) if isinstance(side, int)]
    return isinstance(sign, ast.Mult) and any(a * b > _LARGEST for a in sizes for b in counts)


def _is_type(value: Value) -> bool:
    return operations.is_kind(value) or value is None


def _constant(evaluator: Evaluator, node: ast.Constant, scope: Scope) -> Value:
    return node.value


def _name(evaluator: Evaluator, node: ast.Name, scope: Scope) -> Value:
    return evaluator.look_up(node.id, scope)


def _attribute(evaluator: Evaluator, node: ast.Attribute, scope: Scope) -> Value:
    return evaluator.attribute(evaluator.evaluate(node.value, scope), node.attr)


def _items(evaluator: Evaluator, nodes: Sequence[ast.expr], scope: Scope) -> list[Value] | Unknown:
    """The values of expressions, starred ones spread."""
    found: list[Value] = []
    for node in nodes:
        if isinstance(node, ast.Starred):
            items = operations.items_of(evaluator.evaluate(node.value, scope))
            if isinstance(items, Unknown):
                return items
            found += items
        else:
            found.append(evaluator.evaluate(node, scope))
    return found


def _list(evaluator: Evaluator, node: ast.List, scope: Scope) -> Value:
    return _items(evaluator, node.elts, scope)


def _tuple(evaluator: Evaluator, node: ast.Tuple, scope: Scope) -> Value:
    items = _items(evaluator, node.elts, scope)
    return items if isinstance(items, Unknown) else tuple(items)


def _set(evaluator: Evaluator, node: ast.Set, scope: Scope) -> Value:
    items = _items(evaluator, node.elts, scope)
    return items if isinstance(items, Unknown) else set(items)


def _dict(evaluator: Evaluator, node: ast.Dict, scope: Scope) -> Value:
    made: dict[Value, Value] = {}
    for key, value in zip(node.keys, node.values, strict=True):
        held = evaluator.evaluate(value, scope)
        if key is not None:
            made[evaluator.evaluate(key, scope)] = held
        elif isinstance(held, dict):
            made |= held
        else:
            return held if isinstance(held, Unknown) else Unknown("a table is not followed")
    return made


def _joined(evaluator: Evaluator, node: ast.JoinedStr, scope: Scope) -> Value:
    parts: list[str] = []
    for part in node.values:
        value = evaluator.evaluate(part, scope)
        if isinstance(value, Unknown):
            return value
        parts.append(str(value))
    return "".join(parts)


def _formatted(evaluator: Evaluator, node: ast.FormattedValue, scope: Scope) -> Value:
    value = operations.plain(evaluator.evaluate(node.value, scope))
    if isinstance(value, (str, int, float, list, tuple, dict)) and node.format_spec is None:
        return repr(value) if node.conversion == ord("r") else str(value)
    return value if isinstance(value, Unknown) else Unknown("a text is not followed")


def _binary(evaluator: Evaluator, node: ast.BinOp, scope: Scope) -> Value:
    left, right = evaluator.evaluate(node.left, scope), evaluator.evaluate(node.right, scope)
    return combine(node.op, left, right)


def _unary(evaluator: Evaluator, node: ast.UnaryOp, scope: Scope) -> Value:
    value = evaluator.evaluate(node.operand, scope)
    if isinstance(node.op, ast.Not):
        return _assume(operations.settle(value), lambda known: not operations.is_true(known))
    if isinstance(node.op, ast.USub) and isinstance(value, (int, float)):
        return -value
    return value if isinstance(value, Unknown) else Unknown("a calculation is not followed")


def _assume(value: Value, action: Callable[[Value], Value]) -> Value:
    """The result of an action; for an unknown one with what is assumed, where anything is."""
    if not isinstance(value, Unknown):
        return action(value)
    return value if value.assumed is ABSENT else Unknown(value.reason, action(value.assumed))


def _boolean(evaluator: Evaluator, node: ast.BoolOp, scope: Scope) -> Value:
    stops_at = isinstance(node.op, ast.Or)
    unknown: Unknown | None = None
    value: Value = None
    for part in node.values:
        value = evaluator.evaluate(part, scope)
        if part is not node.values[-1]:
            value = operations.settle(value)
        known = value.assumed if isinstance(value, Unknown) else value
        unknown = value if isinstance(value, Unknown) else unknown
        if known is ABSENT:
            return unknown
        if operations.is_true(known) == stops_at:
            break
    if unknown is None or isinstance(value, Unknown):
        return value
    return Unknown(unknown.reason, value)


def _compare(evaluator: Evaluator, node: ast.Compare, scope: Scope) -> Value:
    left = evaluator.evaluate(node.left, scope)
    result: Value = True
    for sign, right_node in zip(node.ops, node.comparators, strict=True):
        right = evaluator.evaluate(right_node, scope)
        result = _compare_two(sign, left, right)
        if isinstance(result, Unknown) or not result:
            return result
        left = right
    return result


def _compare_two(sign: ast.cmpop, left: Value, right: Value) -> Value:
    if right == External("os.environ") and isinstance(sign, (ast.In, ast.NotIn)):
        return Unknown(f"the variable {left} decides", isinstance(sign, ast.NotIn))
    if not (operations.is_kind(left) and operations.is_kind(right)):
        left, right = operations.settle(left), operations.settle(right)
    unknown = [side for side in (left, right) if isinstance(side, Unknown)]
    if (
        unknown
        and isinstance(sign, (ast.Is, ast.IsNot))
        and {MISSING, NODEFAULT} & {side for side in (left, right) if isinstance(side, External)}
    ):
        # Whatever an unknown value may be, it is one.
        return isinstance(sign, ast.IsNot)
    if unknown:
        sides = [side.assumed if isinstance(side, Unknown) else side for side in (left, right)]
        if ABSENT in sides:
            return Unknown(unknown[0].reason)
        return Unknown(unknown[0].reason, _compare_two(sign, *sides))
    try:
        return _COMPARISONS[type(sign)](left, right)
    except TypeError as error:
        return Unknown(f"a comparison is not followed: {error}")


def _choose(evaluator: Evaluator, node: ast.IfExp, scope: Scope) -> Value:
    condition = operations.settle(evaluator.evaluate(node.test, scope))
    known = condition.assumed if isinstance(condition, Unknown) else condition
    if known is ABSENT:
        return Unknown(condition.reason)
    value = evaluator.evaluate(node.body if operations.is_true(known) else node.orelse, scope)
    if isinstance(condition, Unknown) and not isinstance(value, Unknown):
        return Unknown(condition.reason, value)
    return value


def _lambda(evaluator: Evaluator, node: ast.Lambda, scope: Scope) -> Value:
    return Function(name="<lambda>", node=node, scope=scope)


def _named(evaluator: Evaluator, node: ast.NamedExpr, scope: Scope) -> Value:
    value = evaluator.evaluate(node.value, scope)
    scope.names[node.target.id] = value
    return value


def _call(evaluator: Evaluator, node: ast.Call, scope: Scope) -> Value:
    if isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args:
        return operations.find_super(scope)
    function = evaluator.evaluate(node.func, scope)
    args = _items(evaluator, node.args, scope)
    if isinstance(args, Unknown):
        return args
    named: dict[str, Value] = {}
    for keyword in node.keywords:
        value = evaluator.evaluate(keyword.value, scope)
        if keyword.arg is not None:
            named[keyword.arg] = value
        elif isinstance(value, dict):
            named |= value
        else:
            reason = value.reason if isinstance(value, Unknown) else "what it is, is not known"
            raise Undecided(f"{scope.member}:{node.lineno} passes on a table: {reason}")
    if operations.is_add_argument(function):
        return operations.add_argument(function, args, named, (scope.member, node.lineno))
    return evaluator.call(function, args, named)


def _subscript(evaluator: Evaluator, node: ast.Subscript, scope: Scope) -> Value:
    held, key = evaluator.evaluate(node.value, scope), evaluator.evaluate(node.slice, scope)
    if isinstance(held, Unknown):
        return Unknown(held.reason)
    if isinstance(key, Unknown) and not _is_type(held):
        return Unknown(key.reason)
    if isinstance(held, External) and held.name == "os.environ":
        return Unknown(f"the variable {key} decides")
    if isinstance(held, Class) and held.is_enum:
        return evaluator.attribute(held, key)
    if _is_type(held):
        return _parametrise(held, key)
    try:
        return held[key]
    except (KeyError, IndexError, TypeError) as error:
        raise Raised(f"{scope.member}:{node.lineno} finds no {error}") from error


def _parametrise(origin: Value, key: Value) -> Value:
    """A type with its arguments; unions and literals are flat."""
    args = key if isinstance(key, tuple) else (key,)
    if isinstance(origin, External) and origin.name == "typing.Optional":
        return operations.unite((*args, None))
    if isinstance(origin, External) and origin.name == "pydantic.SkipValidation":
        return Typed(ANNOTATED, (*args, origin))
    if origin == UNION:
        return operations.unite(args)
    if origin == LITERAL:
        flat = [
            item
            for arg in args
            for item in (arg.args if isinstance(arg, Typed) and arg.origin == LITERAL else (arg,))
        ]
        return Typed(LITERAL, tuple(dict.fromkeys(flat)))
    args = tuple(type(None) if arg is None else arg for arg in args)
    args = tuple(tuple(arg) if isinstance(arg, list) else arg for arg in args)
    return Typed(origin, args)


def _slice(evaluator: Evaluator, node: ast.Slice, scope: Scope) -> Value:
    ends = [
        None if end is None else evaluator.evaluate(end, scope)
        for end in (node.lower, node.upper, node.step)
    ]
    unknown = next((end for end in ends if isinstance(end, Unknown)), None)
    return unknown or slice(*ends)


def _each(
    evaluator: Evaluator, generators: Sequence[ast.comprehension], scope: Scope
) -> Iterator[Scope]:
    """A scope for every turn of a comprehension. Raises Undecided."""
    first, *rest = generators
    items = operations.items_of(evaluator.evaluate(first.iter, scope))
    if isinstance(items, Unknown):
        raise Undecided(items.reason)
    for item in items:
        inner = Scope(member=scope.member, module=scope.module, parent=scope)
        evaluator.assign(first.target, item, inner)
        if not all(evaluator.decide(evaluator.evaluate(test, inner), inner) for test in first.ifs):
            continue
        if rest:
            yield from _each(evaluator, rest, inner)
        else:
            yield inner


def _comprehend(evaluator: Evaluator, node: ast.ListComp | ast.SetComp, scope: Scope) -> Value:
    try:
        found = [
            evaluator.evaluate(node.elt, inner)
            for inner in _each(evaluator, node.generators, scope)
        ]
    except Undecided as error:
        return Unknown(str(error))
    return set(found) if isinstance(node, ast.SetComp) else found


def _generate(evaluator: Evaluator, node: ast.GeneratorExp, scope: Scope) -> Value:
    found = _comprehend(evaluator, ast.ListComp(elt=node.elt, generators=node.generators), scope)
    return found if isinstance(found, Unknown) else iter(found)


def _comprehend_dict(evaluator: Evaluator, node: ast.DictComp, scope: Scope) -> Value:
    try:
        return {
            evaluator.evaluate(node.key, inner): evaluator.evaluate(node.value, inner)
            for inner in _each(evaluator, node.generators, scope)
        }
    except Undecided as error:
        return Unknown(str(error))


_EXPRESSIONS: Mapping[type[ast.expr], Callable[[Any, Any, Scope], Value]] = {
    ast.Attribute: _attribute,
    ast.BinOp: _binary,
    ast.BoolOp: _boolean,
    ast.Call: _call,
    ast.Compare: _compare,
    ast.Constant: _constant,
    ast.Dict: _dict,
    ast.DictComp: _comprehend_dict,
    ast.FormattedValue: _formatted,
    ast.GeneratorExp: _generate,
    ast.IfExp: _choose,
    ast.JoinedStr: _joined,
    ast.Lambda: _lambda,
    ast.List: _list,
    ast.ListComp: _comprehend,
    ast.Name: _name,
    ast.NamedExpr: _named,
    ast.Set: _set,
    ast.SetComp: _comprehend,
    ast.Slice: _slice,
    ast.Subscript: _subscript,
    ast.Tuple: _tuple,
    ast.UnaryOp: _unary,
}
