"""Chains of exceptions in a log."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stoker.diagnosis.lines import read_lines
from stoker.diagnosis.tracebacks import Chain, find_chains

CHAIN = """\
INFO: starting
Traceback (most recent call last):
  File "/srv/vllm/v1/worker.py", line 10, in load
    raise KeyError(name)
KeyError: 'layers.0'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/srv/vllm/v1/core.py", line 20, in run
    load()
    ~~~~^^
vllm.errors.LoadError: cannot load
with a second line
INFO: going on
"""


def chains_of(text: str) -> tuple[Chain, ...]:
    return find_chains(read_lines([text.encode()], "log"))


def names(chain: Chain) -> list[str]:
    return [raised.kind for raised in chain.raised]


def test_the_first_exception_of_a_chain_is_its_cause() -> None:
    (chain,) = chains_of(CHAIN)
    assert names(chain) == ["KeyError", "vllm.errors.LoadError"]
    assert chain.first.text == "KeyError: 'layers.0'"
    assert chain.first.line.number == 5
    (frame,) = chain.first.frames
    assert (frame.path, frame.name, frame.line_number) == ("/srv/vllm/v1/worker.py", "load", 10)


def test_what_happened_while_another_was_handled() -> None:
    text = CHAIN.replace(
        "The above exception was the direct cause of the following exception:",
        "During handling of the above exception, another exception occurred:",
    )
    (chain,) = chains_of(text)
    assert names(chain) == ["KeyError", "vllm.errors.LoadError"]


def test_chains_of_interleaved_ranks_are_told_apart() -> None:
    lines = CHAIN.splitlines()
    text = "\n".join(f"[rank{rank}]: {line}" for line in lines for rank in range(4))
    chains = chains_of(text)
    assert [names(chain) for chain in chains] == [["KeyError", "vllm.errors.LoadError"]] * 4
    assert [chain.first.line.rank for chain in chains] == [f"rank{rank}" for rank in range(4)]


def test_the_level_that_an_engine_puts_before_each_line() -> None:
    head = "(EngineCore pid=7) ERROR 11-30 22:22:22 [core.py:700] "
    (chain,) = chains_of("\n".join(head + line for line in CHAIN.splitlines()))
    assert names(chain) == ["KeyError", "vllm.errors.LoadError"]
    assert len(chain.first.frames) == 1


def test_two_traces_that_have_nothing_to_do_with_each_other() -> None:
    one = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\nValueError: one\n'
    two = one.replace("one", "two")
    assert [chain.first.message for chain in chains_of(one + two)] == ["one", "two"]
    assert [chain.first.message for chain in chains_of(one + "INFO: x\n" + two)] == ["one", "two"]


def test_traces_without_a_head_a_number_or_an_end() -> None:
    (chain,) = chains_of('  File "a/b.py", in f\n  ValueError: boom\n')
    assert (chain.first.text, chain.first.frames[0].line_number) == ("ValueError: boom", 0)
    assert chains_of('Traceback (most recent call last):\n  File "a.py", line 1, in f\n') == ()
    assert chains_of("INFO: 1\nError: not a trace\n") == ()
    (chain,) = chains_of("x: Traceback (most recent call last):\nAssertionError\n")
    assert chain.first.text == "AssertionError"


def test_a_group_of_exceptions() -> None:
    text = """\
  + Exception Group Traceback (most recent call last):
  |   File "a.py", line 1, in f
  | ExceptionGroup: two (2 sub-exceptions)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "b.py", line 2, in g
    | ValueError: one
    +------------------------------------
"""
    found = [raised.kind for chain in chains_of(text) for raised in chain.raised]
    assert found == ["ExceptionGroup", "ValueError"]


_LINES = st.sampled_from([*CHAIN.splitlines(), "[rank1]: Traceback (most recent call last):", " "])


@given(st.lists(_LINES, max_size=60))
def test_any_order_of_such_lines_is_read(lines: list[str]) -> None:
    for chain in chains_of("\n".join(lines)):
        assert chain.raised
