"""What a load asks of its process: signals that end it, no pauses of the collector, many files."""

from __future__ import annotations

import asyncio
import gc
import resource
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def end_early(loop: asyncio.AbstractEventLoop, end: Callable[[], None]) -> Iterator[None]:
    """While it lasts, a signal to end calls ``end`` in the loop; afterwards all is as it was.

    Only the main thread can be told of signals; elsewhere this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = [(number, signal.getsignal(number)) for number in _ENDING]
    for number in _ENDING:
        loop.add_signal_handler(number, end)
    try:
        yield
    finally:
        for number, handler in before:
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


@contextmanager
def hold_signals() -> Iterator[list[int]]:
    """While it lasts, signals to end only note that they came: what was measured is to be kept
    first."""
    came: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield came
        return
    before = [(number, signal.getsignal(number)) for number in _ENDING]
    for number in _ENDING:
        signal.signal(number, lambda number, frame: came.append(number))
    try:
        yield came
    finally:
        for number, handler in before:
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


@contextmanager
def without_collector() -> Iterator[None]:
    """Keep the collector of cycles from pausing the loop for milliseconds at a time."""
    was_enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def allow_many_files() -> None:
    """Raise this process' limit of open files as far as it may: each connection is one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
