"""What an engine told of its memory, less what cannot be.

Called by :mod:`stoker.commands.capacity`. A log may be cut, edited or of something else, and its
figures would stand where a prediction does. Pure.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass, replace

from stoker.model.resolved import Resolved as Told
from stoker.model.resolved import ResolvedValue

#: More tokens, and more bytes, than any machine holds.
_MOST = {"tokens": 1 << 36, "bytes": 1 << 50}
#: Of one token in all layers of one rank: a single head of 32 elements in 4 bit takes as much, and
#: no model that is known takes more.
_LEAST_TOKEN_BYTES, _MOST_TOKEN_BYTES = 16, 1 << 30
#: Logs have one decimal of a GiB at least.
_PRINTED_BYTES = 0.1 * (1 << 30)
_TOKENS, _POOL = "kv_tokens", "kv_bytes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """What is believed of what was told, and a sentence for what is not."""

    told: Told
    doubts: tuple[str, ...] = ()


def hear(told: Told) -> Heard:
    """The same without figures that cannot be, with one sentence that names them."""
    absurd = dict(_list_absurd(told))
    left = _leave_out(told, absurd)
    unmatched = dict(_list_unmatched(left))
    named = [*absurd.values(), *unmatched.values()]
    if not named:
        return Heard(told=told)
    doubt = f"the engine's figures cannot all be, and these are left out: {', '.join(named)}"
    return Heard(told=_leave_out(left, unmatched), doubts=(doubt,))


def _leave_out(told: Told, names: Container[str]) -> Told:
    values = {name: value for name, value in told.values.items() if name not in names}
    return replace(told, values=values)


def _list_absurd(told: Told) -> Iterator[tuple[str, str]]:
    for name, value in told.values.items():
        figure, most = value.value, _MOST.get(value.unit)
        if most is None or isinstance(figure, (bool, str)):
            continue
        if not 0 <= figure < most:
            yield name, _show(told, name, value)


def _list_unmatched(told: Told) -> Iterator[tuple[str, str]]:
    """Tokens and bytes of one pool of which each is possible and both together are not."""
    tokens, pool = told.values.get(_TOKENS), told.values.get(_POOL)
    count, size = _figure(tokens), _figure(pool)
    if tokens is None or pool is None or not count or size is None:
        return
    is_too_little = size + _PRINTED_BYTES < count * _LEAST_TOKEN_BYTES
    if is_too_little or size > count * _MOST_TOKEN_BYTES:
        yield _TOKENS, _show(told, _TOKENS, tokens)
    elif size >= count * _LEAST_TOKEN_BYTES:
        return
    # A small pool is printed as none at all: then the tokens may well be.
    each = f"{size / count:.3g} bytes for each token"
    yield _POOL, f"{_show(told, _POOL, pool)} ({each})"


def _figure(value: ResolvedValue | None) -> float | None:
    figure = value.value if value is not None else None
    return None if isinstance(figure, (bool, str)) or figure is None else float(figure)


def _show(told: Told, name: str, value: ResolvedValue) -> str:
    """A figure that may have any number of digits."""
    title = told.titles.get(name, name)
    figure = value.value
    try:
        shown = f"{float(figure):.3g}"
    except OverflowError:
        shown = f"a number of {len(str(figure))} digits"
    return f"{title} {shown} {value.unit}"
