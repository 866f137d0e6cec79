"""Hypothesis strategies for the plain dataclasses of stoker.model, made from their type hints."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
import types
from collections.abc import Mapping
from enum import Enum
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

import stoker.model

Value = TypeVar("Value")

_SINGLES: dict[Any, st.SearchStrategy[Any]] = {
    str: st.text(max_size=8),
    int: st.integers(),
    bool: st.booleans(),
    float: st.floats(allow_nan=False, allow_infinity=False),
    types.NoneType: st.none(),
}

plain_values: st.SearchStrategy[Any] = st.recursive(
    st.one_of(*_SINGLES.values()),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=5,
)


def value_classes() -> list[type]:
    """Every plain dataclass that a module of stoker.model defines."""
    found: list[type] = []
    for module in pkgutil.iter_modules(stoker.model.__path__, "stoker.model."):
        members = vars(importlib.import_module(module.name)).values()
        found += [
            member
            for member in members
            if isinstance(member, type)
            and dataclasses.is_dataclass(member)
            and member.__module__ == module.name
        ]
    return found


@cache
def values_of(kind: type[Value]) -> st.SearchStrategy[Value]:
    """Values of one dataclass, the same strategy each time: some hold values of their own kind."""
    return st.deferred(lambda: _dataclass(kind))


def _dataclass(kind: type[Value]) -> st.SearchStrategy[Value]:
    hints = get_type_hints(kind)
    fields = dataclasses.fields(kind)  # type: ignore[arg-type]
    return st.builds(kind, **{field.name: _of(hints[field.name]) for field in fields})


def _of(hint: Any) -> st.SearchStrategy[Any]:
    arguments = get_args(hint)
    if hint is Any:
        return plain_values
    if hint in _SINGLES:
        return _SINGLES[hint]
    if get_origin(hint) in (types.UnionType, Union):
        return st.one_of(*map(_of, arguments))
    if get_origin(hint) is tuple and arguments[-1] is not Ellipsis:
        return st.tuples(*map(_of, arguments))
    if get_origin(hint) is tuple:
        return st.lists(_of(arguments[0]), max_size=2).map(tuple)
    if isinstance(get_origin(hint), type) and issubclass(get_origin(hint), Mapping):
        return st.dictionaries(st.text(max_size=8), _of(arguments[1]), max_size=2)
    if issubclass(hint, Enum):
        return st.sampled_from(hint)
    return values_of(hint)
