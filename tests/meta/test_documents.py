"""The documents tell the truth: every verb, option and make target that they name exists."""

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import typer
from typer.exceptions import TyperException

from tests.meta.source import PROJECT, project_files

#: A command as documents write it: behind a prompt or not, with the path of the program or not.
COMMAND = re.compile(r"(?:\$ )?(?:\S*/)?(stoker|make)(?: (.*))?$")

#: Where a command ends for our purpose: the shell goes on, a comment, "and so on".
END = re.compile(r"\s+(?:[12]?>|[<|&;#]|\.\.\.|…).*")

FENCED = re.compile(r"^```.*?\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
PROJECT_PATH = re.compile(r"(?:src|tests|docs|scripts|examples|benchmarks)/[\w./-]+")
QUOTED = re.compile(r"`([^`\n]+)`")


def command_lines(text: str) -> Iterator[str]:
    """The commands of a Markdown text: lines of code blocks, and whole pieces in backquotes.

    In a block with prompts only the lines behind a prompt are commands, the rest is output.
    """
    for block in FENCED.findall(text):
        lines = block.replace("\\\n", " ").splitlines()
        yield from [line for line in lines if line.startswith("$ ")] or lines
    yield from QUOTED.findall(FENCED.sub("", text))


def parse_command(line: str) -> list[str]:
    """The program and its words; empty if the line is no command of ours."""
    match = COMMAND.match(END.sub("", line.strip()))
    brackets = str.maketrans("[]", "  ")
    return [match[1], *shlex.split((match[2] or "").translate(brackets))] if match else []


def documents() -> list[Path]:
    """The Markdown files of the project."""
    return [path.relative_to(PROJECT) for path in project_files() if path.suffix == ".md"]


def commands(program: str) -> Iterator[tuple[str, list[str]]]:
    """Every command of this program in the documents: where it stands, and its words."""
    for document in documents():
        for line in command_lines((PROJECT / document).read_text("utf-8")):
            name, *words = parse_command(line) or [""]
            if name == program:
                yield f"{document}: {line.strip()}", words


def paths_in(text: str) -> Iterator[str]:
    """The files of the project that a Markdown text names; ``NAME`` stands for any name."""
    prose = FENCED.sub("", text)
    yield from (link for link in LINK.findall(prose) if not re.match(r"[a-z]+:|#", link))
    named = (quoted for quoted in QUOTED.findall(prose) if PROJECT_PATH.fullmatch(quoted))
    yield from (re.sub(r"[A-Z]{3,}", "*", path) for path in named)


def problem_with(command: Any, words: Sequence[str], parent: Any = None) -> str:
    """What the command line would refuse in these words; empty if nothing.

    ``command`` is one of the Click commands that Typer makes; parsing runs nothing. A value that
    is left out or a placeholder is no problem: ``stoker plan``, ``--port N``.
    """
    try:
        context = command.make_context(command.name, list(words), parent=parent)
    except (typer.BadParameter, typer.Exit):
        return ""
    except TyperException as error:
        return str(error)
    verbs = getattr(command, "commands", {})
    verb, *rest = [*context._protected_args, *context.args] if verbs else [""]
    if verb and verb not in verbs:
        return f"there is no verb {verb}"
    return problem_with(verbs[verb], rest, context) if verb else ""


def test_every_stoker_command_is_understood() -> None:
    main = pytest.importorskip("stoker.cli.main")
    stoker = typer.main.get_command(main.app)
    problems = {place: problem_with(stoker, words) for place, words in commands("stoker") if words}
    assert {place: problem for place, problem in problems.items() if problem} == {}


def test_every_make_target_exists() -> None:
    makefile = (PROJECT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    named = {
        place: [word for word in words if "=" not in word] for place, words in commands("make")
    }
    assert {place: words for place, words in named.items() if not set(words) <= targets} == {}


@pytest.mark.parametrize("document", documents(), ids=str)
def test_every_file_that_is_named_exists(document: Path) -> None:
    beside = (PROJECT / document).parent
    named = set(paths_in((PROJECT / document).read_text("utf-8")))
    assert {path for path in named if not [*beside.glob(path), *PROJECT.glob(path)]} == set()


def small_command_line() -> typer.Typer:
    """A command line to try the reader of documents on."""
    app = typer.Typer()

    @app.command()
    def plan(file: Path, port: int = 8000, yes: bool = False) -> None:
        pass

    @app.command()
    def status(names: list[str]) -> None:
        pass

    return app


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("plan a.yaml --port 8001 --yes", ""),
        ("plan FILE --port N", ""),
        ("plan", ""),
        ("plan --help", ""),
        ("status a b c", ""),
        ("plan a.yaml --force", "No such option: --force"),
        ("plan a.yaml b.yaml", "Got unexpected extra argument(s) (b.yaml)"),
        ("plot a.yaml", "there is no verb plot"),
    ],
)
def test_a_wrong_command_is_found(command: str, problem: str) -> None:
    stoker = typer.main.get_command(small_command_line())
    assert problem_with(stoker, command.split()) == problem


def test_commands_are_found_in_a_text() -> None:
    text = """
    Run `stoker status NAME` or `make up`, not `stoker.yaml`.
    ```console
    $ make up PORT=8001
    stoker is a line of output here
    $ .venv/bin/stoker plan a.yaml --json | less
    ```
    ```sh
    stoker apply a.yaml --yes   # and so on
    cd elsewhere
    ```
    """
    lines = command_lines(dedent(text))
    assert [words for line in lines if (words := parse_command(line))] == [
        ["make", "up", "PORT=8001"],
        ["stoker", "plan", "a.yaml", "--json"],
        ["stoker", "apply", "a.yaml", "--yes"],
        ["stoker", "status", "NAME"],
        ["make", "up"],
    ]
