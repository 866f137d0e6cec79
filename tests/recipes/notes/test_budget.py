"""The work of reading is counted: a small text cannot ask for much, and what is left is told."""

from __future__ import annotations

import pytest

from stoker.model.note import Verdict
from stoker.recipes.notes.budget import MAX_STEPS, current_budget, open_budget
from stoker.recipes.notes.card import parse_card
from stoker.recipes.notes.shell import MAX_ITEMS, read_commands
from stoker.recipes.notes.text import MAX_BYTES
from stoker.recipes.notes.units import MAX_UNITS
from tests.recipes.notes.notes import read_text

DOUBLED = "a=(x x x x)\n{}vllm serve foo/bar ${{a[@]}}\n"


def doubled(times: int) -> str:
    return DOUBLED.format("a=(${a[@]} ${a[@]})\n" * times)


def test_a_list_that_doubles_is_cut_and_told() -> None:
    note = read_text(doubled(20), name="run.sh")
    assert note.remarks == (
        f"the list a has more than {MAX_ITEMS} words, and the rest is not known",
    )
    assert len(note.settings) <= MAX_ITEMS + 1
    assert note.settings[-1].verdict is Verdict.UNKNOWN


def test_a_list_that_is_added_to_is_cut() -> None:
    text = "a=(x)\n" + "a+=(${a[@]})\n" * 30 + "run ${a[@]}\n"
    (command,) = read_commands(text)
    assert len(command.words) == MAX_ITEMS + 1


def test_the_names_of_variables_are_told_once() -> None:
    (command,) = read_commands("A=x\nB=$A$A$A\nB+=$A$B\nrun $B\n")
    assert command.words[1].variables == ("B", "A")


def test_a_budget_that_is_spent_leaves_the_rest_unread() -> None:
    with open_budget() as budget:
        assert current_budget() is budget
        assert len(read_commands("a\nb\n")) == 2
        assert not budget.spend(MAX_STEPS)
        assert read_commands("a\nb\n") == ()
        assert any("the rest was not read" in each for each in budget.complaints)
        with open_budget() as inner:
            assert inner is budget
    assert not current_budget().is_spent


def test_more_flags_than_an_engine_has() -> None:
    note = read_text("vllm serve a/b " + "--seed 1 " * (MAX_UNITS + 5), name="run.sh")
    assert len(note.settings) == MAX_UNITS + 1
    assert note.settings[-1].verdict is Verdict.UNKNOWN
    assert f"more than {MAX_UNITS} flags" in note.settings[-1].reason


@pytest.mark.parametrize(
    "text",
    [
        doubled(2000),
        "vllm serve a/b " + "--seed 1 " * 89_000,
        "sudo " * 200_000 + "vllm serve a/b",
        "".join(f"A{n}=1\neval x\n" for n in range(30_000)) + "vllm serve a/b",
        "".join(f"export A{n}=1\nfoo\n" for n in range(30_000)) + "vllm serve a/b",
        "( " * 400_000 + "vllm serve a/b $A $A $A",
        "vllm serve a/b " + " ".join(f"--abcde{n} 1" for n in range(60_000)),
    ],
    ids=["doubled", "one line", "wrapped", "forgotten", "exported", "nested", "unheard of"],
)
def test_a_text_that_asks_for_much_work(text: str) -> None:
    assert len(text) <= MAX_BYTES
    note = read_text(text, name="run.sh")
    assert note.remarks


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "a.service",
            f"[Service]\nEnvironment=A={'x' * 20_000}\nExecStart=vllm serve {'${A}' * 5000}\n",
        ),
        (
            "a.service",
            f'[Service]\nEnvironment="A={"x " * 9000}"\nExecStart=vllm serve {"$A " * 1000}\n',
        ),
        (
            "pod.yaml",
            (
                "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - name: a\n"
                f'    command: [vllm, serve, "{"$(A)" * 5000}"]\n'
                f"    env:\n    - name: A\n      value: {'x' * 20_000}\n"
            ),
        ),
    ],
    ids=["unit", "unit, taken apart", "pod"],
)
def test_values_that_are_put_in_often(name: str, text: str) -> None:
    note = read_text(text, name=name)
    assert any("grow too much" in each for each in note.remarks)


def test_a_card_is_read_within_one_budget() -> None:
    block = f"```\n{doubled(300)}```\n"
    parse_card("# A card\n\n" + block * 40)
