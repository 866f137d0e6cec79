"""Words and variables of a shell's text: what is said there, and nothing that a shell computes."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.recipes.notes.shell import Command, exported_variables, read_commands
from stoker.recipes.notes.text import find_marks, has_mark, show

PLAIN = st.text("abcXYZ019 _./:=,@%+-'\"\\", max_size=30)


def argv(text: str) -> list[tuple[str, ...]]:
    return [command.argv for command in read_commands(text)]


def only(text: str) -> Command:
    (command,) = read_commands(text)
    return command


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a b  c", ["a", "b", "c"]),
        ("a 'b c' \"d e\"", ["a", "b c", "d e"]),
        ("a 'b'\"c\"d", ["a", "bcd"]),
        ("a \\\n  b", ["a", "b"]),
        ("a b\\ c", ["a", "b c"]),
        (r'a "b\"c\d"', ["a", r'b"c\d']),
        ("a '' \"\"", ["a", "", ""]),
        ("a b # c", ["a", "b"]),
        ("a b#c", ["a", "b#c"]),
        ("a $'b\\tc'", ["a", "b\tc"]),
        ("a 2>&1 >out <in b", ["a", "b"]),
        ("a &>log", ["a"]),
        ("a '$X' '`b`' '$(c)'", ["a", "$X", "`b`", "$(c)"]),
        (r"a \$X", ["a", "$X"]),
        ("a '{\"b\": [1, 2]}'", ["a", '{"b": [1, 2]}']),
        ("a {b}", ["a", "{b}"]),
        ("a b$", ["a", "b$"]),
        ("a x~y", ["a", "x~y"]),
    ],
)
def test_words(text: str, words: list[str]) -> None:
    assert list(only(text).argv) == words


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("$X", "not set"),
        ("${X:-3}", "not set"),
        ("${X%y}", "computes"),
        ("$(cat f)", "not run"),
        ("`cat f`", "not run"),
        ("$((1+2))", "sum"),
        ("<(cat f)", "not run"),
        ("$1", "argument"),
        ("*.json", "names of files"),
        ("~/f", "home folder"),
        ("{a,b}", "braces"),
        ("<your model>", "gap"),
        ("...", "leaves out"),
        ("'{{ model }}'", "template"),
        ("$'\\x41'", "number"),
        ("'open", "never closed"),
    ],
)
def test_what_a_shell_would_compute_is_unknown(raw: str, reason: str) -> None:
    word = only(f"a {raw}").argv[1]
    ((_, why),) = find_marks(word)
    assert reason in why


def test_an_unknown_is_shown_as_it_was_written() -> None:
    assert show(only('a --port "$(cat port)x"').argv[2]) == "$(cat port)x"


def test_operators_separate_commands() -> None:
    assert argv("a; b && c || d | e & f\n(g)") == [(each,) for each in "abcdefg"]


def test_keywords_are_no_commands() -> None:
    assert argv("if a; then b; else c; fi; while d; do e; done; ! f; { g; }") == [
        (each,) for each in "abcdefg"
    ]


def test_here_documents_are_left_out() -> None:
    assert argv("cat <<EOF > f\nvllm serve x\nEOF\nb") == [("cat",), ("b",)]
    assert argv("cat <<-'E'\n\tvllm serve x\n\tE\nb <<< word") == [("cat",), ("b",)]
    assert argv("cat <<EOF\nvllm serve x") == [("cat",)]


def test_a_plain_assignment_is_put_in_and_told() -> None:
    (command,) = read_commands("M=a/b\nN='x y'\nrun $M \"$N\" ${M}-c")
    assert command.argv == ("run", "a/b", "x y", "a/b-c")
    assert [word.variables for word in command.words] == [(), ("M",), ("N",), ("M",)]


def test_an_unquoted_variable_is_taken_apart() -> None:
    assert argv("A='--x 1  --y'; run $A \"$A\"") == [("run", "--x", "1", "--y", "--x 1  --y")]


def test_arrays() -> None:
    text = 'A=(--x 1 # why\n "a b")\nA+=(--z)\nrun "${A[@]}" end'
    assert argv(text) == [("run", "--x", "1", "a b", "--z", "end")]
    assert has_mark(argv("A=(a b); run $A")[0][1])


def test_what_is_exported_reaches_the_program() -> None:
    (command,) = read_commands("A=1; export B=2 A; C=3; D=4 run")
    assert {name: word.text for name, word in command.env.items()} == {"A": "1", "B": "2", "D": "4"}
    assert list(exported_variables("export A=1\nB=2")) == ["A"]


@pytest.mark.parametrize(
    "text",
    [
        "if x; then M=a; fi; run $M",
        "M=a; if x; then M=b; else M=c; fi; run $M",
        "for M in a b; do y; done; run $M",
        "for M in a b; do run $M; done",
        "read M; run $M",
        "M=a; source env.sh; run $M",
        "M=a; eval something; run $M",
        "M=a; unset M; run $M",
        "M=$(x); run $M",
        "M+=b; run $M",
        "M=a; f() { run $M; }; M=b; f",
        "(M=a); run $M",
        "M='*'; run $M",
        "case x in a) M=1;; esac; run $M",
    ],
)
def test_an_uncertain_variable_is_unknown(text: str) -> None:
    runs = [command for command in read_commands(text) if command.argv[0] == "run"]
    assert all(has_mark(command.argv[1]) for command in runs)
    assert runs


def test_within_one_block_an_assignment_holds() -> None:
    assert ("run", "a") in argv("start() { local M=a; run $M; }")
    assert ("run", "b") in argv("if x; then M=b; run $M; fi")


def test_variables_cannot_grow_without_end() -> None:
    text = "A=xxxxxxxxxxxxxxxx\n" + "".join(
        f"{name}=${before}${before}${before}${before}\n"
        for before, name in zip("ABCDEFGHIJ", "BCDEFGHIJK", strict=True)
    )
    (command,) = read_commands(f"{text}run $K\n")
    assert has_mark(command.argv[1])
    assert len(command.argv[1]) < 1000


@given(PLAIN)
def test_plain_words_are_those_of_the_standard_library(text: str) -> None:
    """Where nothing is computed, both readers agree; theirs refuses a quote that is not closed."""
    try:
        expected = shlex.split(text, posix=True)
    except ValueError:
        return
    if "~" in text or any("=" in word or word in ("...", "…") for word in expected):
        return
    commands = read_commands(f"_ {text}")
    assert [word for command in commands for word in command.argv] == ["_", *expected]


@given(st.lists(st.text(min_size=1, max_size=20).filter(lambda s: "\0" not in s), max_size=6))
def test_quoted_words_come_back(words: list[str]) -> None:
    kept = [word.replace("\r", "") for word in words]
    kept = [word for word in kept if word not in ("...", "…") and "{{" not in word]
    kept = [word for word in kept if not set(word) & {"\x00", "\x01", "\x02"}]
    text = " ".join(shlex.quote(word) for word in kept)
    (command,) = read_commands(f"_ {text}")
    assert list(command.argv) == ["_", *kept]
