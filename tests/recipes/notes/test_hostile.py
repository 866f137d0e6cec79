"""Whatever a text is, reading it ends soon, raises nothing, and takes nothing that was computed."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stoker.errors import UsageError
from stoker.model.document import render_document
from stoker.model.note import NoteImport, Verdict
from stoker.recipes.notes.card import parse_card
from stoker.recipes.notes.text import MAX_BYTES, clean, has_mark
from tests.recipes.notes.notes import CASES, read_text

NAMES = ["note.md", "run.sh", "a.service", "compose.yaml", "x.json", "raw"]
PIECES = st.sampled_from(
    [
        *(
            "vllm serve a/b ",
            "python -m sglang.launch_server ",
            "docker run lmsysorg/sglang:v0.5.9 ",
        ),
        *(
            "--tp-size ",
            "--port ",
            "--api-key ",
            "--model-path ",
            "-tp",
            "=",
            "1 ",
            "$(id) ",
            "`id` ",
        ),
        *(
            "$X",
            "${X:-$(id)}",
            "<(id)",
            "'",
            '"',
            "\\",
            "\n",
            "```\n",
            "```yaml\n",
            "<<EOF\n",
            "EOF\n",
        ),
        *(
            "A=1 ",
            "A=(",
            ") ",
            "${A[@]} ",
            "export ",
            "bash -c ",
            "; ",
            "&& ",
            "{",
            "}",
            "*",
            "~/x ",
        ),
        *(
            "services:\n  a:\n    command: ",
            "[Service]\nExecStart=",
            "%i ",
            "- ",
            "&x ",
            "*x ",
            "\x00",
        ),
        *(
            "\x01",
            "\x02",
            "\u202e",
            "\ud800",
            "\x1b[2J",
            "if x; then ",
            "fi\n",
            "f() { ",
            "}\n",
            "|",
        ),
    ]
)
TEXTS = st.one_of(st.lists(PIECES, max_size=25).map("".join), st.text(max_size=200))
QUICK = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def values_of(note: NoteImport) -> list[str]:
    taken = (Verdict.TAKEN, Verdict.WITHHELD, Verdict.ELSEWHERE, Verdict.LEFT)
    everything = (*note.settings, *note.loose)
    return [value for each in everything if each.verdict in taken for value in each.values]


@QUICK
@given(TEXTS, st.sampled_from(NAMES))
def test_any_text_is_read(text: str, name: str) -> None:
    note = read_text(text, name=name)
    render_document(note)
    for number in range(1, len(note.commands) + 1):
        chosen = read_text(text, name=name, number=number)
        assert not any(map(has_mark, values_of(chosen)))
        assert all(
            value.replace("\n", "").replace("\t", "").isprintable() for value in values_of(chosen)
        )
        render_document(chosen)


@QUICK
@given(
    st.sampled_from(["$(id)", "`id`", "${X}", "$X", "<(id)", "$((1+1))", "${X:-1}", "$1"]),
    st.sampled_from(["{}", "x{}y", '"{}"', '"a {} b"']),
    st.sampled_from(
        ["vllm serve a/b --seed {}", "vllm serve a/b --seed={}", "A={}; vllm serve a/b --seed $A"]
    ),
)
def test_no_substitution_is_taken_as_it_stands(raw: str, around: str, command: str) -> None:
    note = read_text(f"```\n{command.format(around.format(raw))}\n```\n", number=1)
    # What a variable is taken apart into may begin with a plain word, which is no number.
    verdicts = {each.verdict for each in note.settings if each.name == "--seed"}
    assert verdicts <= {Verdict.UNKNOWN, Verdict.FOREIGN}
    assert not any("id" in value or "$" in value for value in values_of(note))


@QUICK
@given(st.text(max_size=300))
def test_no_text_can_forge_a_mark(text: str) -> None:
    assert not has_mark(clean(text, "x"))


@QUICK
@given(TEXTS)
def test_any_card_is_read(text: str) -> None:
    render_document(parse_card(text))


def test_a_mark_in_an_escape_of_yaml_is_none() -> None:
    command = '["a/b", "--seed", "\\0x\\x01y\\x02"]'
    text = f'services: {{a: {{image: "vllm/vllm-openai:v0.19.1", command: {command}}}}}'
    note = read_text(text, name="compose.yaml", number=1)
    (seed,) = [each for each in note.settings if each.name == "--seed"]
    assert (seed.verdict, seed.values) == (Verdict.UNKNOWN, ())


@pytest.mark.parametrize(
    "text",
    [
        "[" * 5000,
        "a: " * 3000,
        "{" * 5000,
        "a: &a [x, x]\nb: &b [*a, *a]\n"
        + "".join(
            f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n"
            for old, new in zip("bcdefgh", "cdefghi", strict=True)
        ),
        "services: &s\n  a: *s\n",
        "services:\n  a: &a\n    <<: *a\n    command: vllm serve x\n",
        "a: !!python/object/apply:os.system [id]\n",
        "- " * 2000,
        "%YAML 9.9\n---\na: b\n",
        "---\n" * 3000,
        "a: 1\na: 2\n",
        "? [a]\n: b\n",
    ],
)
@pytest.mark.parametrize("name", ["compose.yaml", "note.md"])
def test_hostile_yaml_becomes_nothing(text: str, name: str) -> None:
    whole = text if name == "compose.yaml" else f"```yaml\n{text}\n```\n"
    assert read_text(whole, name=name).commands == ()


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("note.md", "> " * 50),
        ("note.md", "- " * 50 + "\n"),
        ("note.md", "[" * 100),
        ("note.md", "*a_"),
        ("note.md", "`" * 7 + "a"),
        ("note.md", "`a "),
        ("note.md", "```\nvllm serve a/b --port 1\n```\n"),
        ("note.md", "`vllm serve a/b --x` and --port 3 "),
        ("note.md", "<!-- "),
        ("run.sh", "$("),
        ("run.sh", "${"),
        ("run.sh", '"$('),
        ("run.sh", "\"'"),
        ("run.sh", "{,"),
        ("run.sh", "A=$A$A\n"),
        ("run.sh", "A=xx\nA+=$A\n"),
        ("run.sh", "A=(x y)\nA+=(${A[@]} z)\nrun ${A[@]}\n"),
        ("run.sh", "cat <<E\n"),
        ("run.sh", "((((("),
        ("run.sh", "if f() { "),
        ("run.sh", "bash -c \"bash -c 'x' "),
        ("run.sh", "vllm serve a --port $X "),
        ("run.sh", "vllm serve a --nope-{} 1\n"),
        ("a.service", "ExecStart=vllm serve \\\n"),
        ("a.service", "[Service]\nExecStart='\"\n"),
        ("compose.yaml", "  a: {b: [c, d]}\n"),
        ("note.md", "vLLM requires at least PR #1 "),
    ],
)
def test_large_texts_end_in_time(name: str, unit: str) -> None:
    """A text of 32 KiB; the bounds are far above what is measured, and far below for ever."""
    count = (1 << 15) // len(unit)
    text = "".join(unit.format(number) for number in range(count)) if "{}" in unit else unit * count
    read_text(text, name=name)


def test_a_large_card_ends_in_time() -> None:
    text = "vLLM >= 0.1 needs PR #12345, context length 1,000 tokens, TP=4. " * 1000
    card = parse_card(text)
    assert card.tensor_sizes == (4,)


def test_a_text_that_is_too_large_is_refused() -> None:
    with pytest.raises(UsageError, match="larger than 1 MiB"):
        read_text("x" * (MAX_BYTES + 1))


def test_control_characters_never_come_out() -> None:
    text = "```\nvllm serve a/b --served-model-name \x1b[2J\u202eevil\u200b --seed 1\n```\n"
    note = read_text(text)
    assert "\x1b" not in render_document(note)
    assert "\u202e" not in render_document(note)


@pytest.mark.parametrize("path", sorted(CASES.iterdir()), ids=lambda path: path.name)
def test_every_case_cut_anywhere_is_read(path: object) -> None:
    text = (CASES / str(path)).read_text(encoding="utf-8")
    for end in range(0, len(text), 37):
        read_text(text[:end], name=str(path))
