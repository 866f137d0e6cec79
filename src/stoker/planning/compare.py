"""Two ways to start a server, name by name: what differs, and what only looks as if it did. Pure.

A flag is compared under its option's own name, a value as the engine reads it, a secret by its
digest. A flag that one side writes at the default of the other is no difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation

from stoker.knowledge.servers import Grammar
from stoker.knowledge.variables import Variables
from stoker.model.comparison import Comparison, Difference, Flag, Item, Side
from stoker.model.engine_table import FlagCatalogue, Option
from stoker.model.units import digest_text
from stoker.model.visible import visible
from stoker.planning.command_line import known_default, own_name

SECRET = "***"
ON, OFF = "on", "off"
#: How an empty value is shown.
EMPTY = '""'


def compare_sides(
    a: Side,
    b: Side,
    *,
    catalogue: FlagCatalogue | None,
    variables: Variables,
    compares_all: bool = False,
) -> Comparison:
    """What differs. ``compares_all``: also variables that no engine is known to read."""
    options = {own_name(option): option for option in catalogue.options} if catalogue else {}
    differences: list[Difference] = []
    by_default: list[str] = []
    equal_count = 0
    for what, name in _names(a, b, variables, compares_all=compares_all):
        one, other = _item(a, what, name), _item(b, what, name)
        option = options.get(name) if what == "flag" else None
        if is_same(one, other, option):
            equal_count += 1
        elif _is_default(one or other, option) and None in (one, other):
            by_default.append(visible(name))
        else:
            differences.append(_difference(what, name, (one, other), (a, b)))
    return Comparison(
        a=visible(a.title),
        b=visible(b.title),
        differences=tuple(differences),
        same_by_default=tuple(by_default),
        equal_count=equal_count,
        notes=tuple(_notes(a, b)),
    )


def flag_items(
    flags: Iterable[Flag], grammar: Grammar, *, is_secret: Callable[[Flag], bool]
) -> dict[str, Item]:
    """The flags that count, by their own names; of repeatable ones all values in their order.

    Secret values are kept as digests.
    """
    values: dict[str, list[str]] = {}
    secret: set[str] = set()
    for flag in flags:
        words = list(flag.values) or [OFF if flag.is_off else ON]
        is_added = flag.name in values and flag.name in grammar.repeatable
        values[flag.name] = [*values[flag.name], *words] if is_added else words
        if is_secret(flag):
            secret.add(flag.name)
    return {
        name: secret_item(words) if name in secret else Item(values=tuple(words))
        for name, words in values.items()
    }


def secret_item(values: Sequence[str]) -> Item:
    """A secret as it is compared: its digest alone."""
    return Item(digest=digest_text("\0".join(values)))


def is_same(one: Item | None, other: Item | None, option: Option | None) -> bool:
    """Whether the engine reads the same from both."""
    if one is None or other is None:
        return one is other
    if one.note or other.note:
        return False
    if one.digest or other.digest:
        return one.digest == other.digest
    if len(one.values) != len(other.values):
        return False
    pairs = zip(one.values, other.values, strict=True)
    return all(_is_same_value(left, right, option) for left, right in pairs)


def show(item: Item | None) -> str | None:
    """An item as it may be shown: values with commas between, never a secret."""
    if item is None:
        return None
    if item.is_secret:
        return SECRET
    return ", ".join(visible(value) if value else EMPTY for value in item.values)


def _is_same_value(left: str, right: str, option: Option | None) -> bool:
    if left == right:
        return True
    if option is None or option.kind != "number":
        return False
    try:
        return Decimal(left) == Decimal(right)
    except InvalidOperation:
        return False


def _is_default(item: Item | None, option: Option | None) -> bool:
    default = known_default(option) if option is not None else None
    return default is not None and is_same(item, Item(values=(default,)), option)


def _names(
    a: Side, b: Side, variables: Variables, *, compares_all: bool
) -> Iterator[tuple[str, str]]:
    """What is compared, in the order in which it is shown."""
    if a.kind and b.kind:
        yield "engine", "engine"
    yield "program", "program"
    if a.interpreter and b.interpreter:
        yield "interpreter", "interpreter"
    if a.user is not None and b.user is not None:
        yield "user", "user"
    for name in sorted(a.flags.keys() | b.flags.keys()):
        yield "flag", name
    for name in sorted(a.variables.keys() | b.variables.keys()):
        is_declared = any(name in side.variables and not side.is_whole for side in (a, b))
        if compares_all or is_declared or variables.matters(name):
            yield "variable", name


def _item(side: Side, what: str, name: str) -> Item | None:
    if what == "flag":
        return side.flags.get(name)
    if what == "variable":
        return side.variables.get(name)
    texts: Mapping[str, str | None] = {
        "engine": side.kind,
        "program": side.program,
        "interpreter": side.interpreter,
        "user": side.user,
    }
    return Item(values=(texts[what] or "",))


def _difference(
    what: str, name: str, items: tuple[Item | None, Item | None], sides: tuple[Side, Side]
) -> Difference:
    reasons = [side.reasons[name] for side in sides if side.reasons.get(name)]
    unread = [item.note for item in items if item is not None and item.note]
    if all(item is not None and item.digest for item in items):
        unread.append("the secrets differ")
    return Difference(
        what=what,
        name=visible(name),
        a=show(items[0]),
        b=show(items[1]),
        note=visible("; ".join((*unread, *reasons))),
    )


def _notes(a: Side, b: Side) -> Iterator[str]:
    unread = [side.title for side in (a, b) if not side.kind]
    if unread:
        names = visible(" and ".join(unread))
        yield f"{names}: no server that Stoker knows; its flags were compared as they are written"
    nameless = [side.title for side in (a, b) if side.user is None]
    if nameless:
        yield f"{visible(' and '.join(nameless))}: the user is not known and was not compared"
