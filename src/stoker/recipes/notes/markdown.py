"""A note, a README or a model card in Markdown, or plain text: the commands in it.

Called by :mod:`stoker.recipes.notes.read`. Blocks of code and code within sentences are read, and
lines of prose that begin with a server. Only those rules of Markdown are on that decide what is
code: links, emphasis and HTML are text like any other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from markdown_it import MarkdownIt
from markdown_it.token import Token

from stoker.knowledge.servers import load_servers
from stoker.recipes.notes.excerpt import Excerpt, Loose, excerpt_of_shell, join_excerpts
from stoker.recipes.notes.shell import Command, read_commands
from stoker.recipes.notes.text import number_lines

_BLOCKS = ["fence", "code", "blockquote", "list", "heading", "paragraph"]
_SHELLS = frozenset(
    {"", "sh", "bash", "zsh", "shell", "console", "terminal", "shellsession", "shell-session"}
    | {"text", "txt", "plain", "plaintext", "cmd", "cli", "none", "command", "docker", "code"}
)
_MANIFESTS = frozenset({"yaml", "yml"})
_UNITS = frozenset({"ini", "systemd", "service", "conf", "toml", "unit"})
_CONSOLES = frozenset({"console", "terminal", "shellsession", "shell-session"})
_FRONT = re.compile(r"\A---\n(?:[^\n]*\n)*?---(?:\n|\Z)")
_PROMPT = re.compile(r"^\s*(?:\([\w.-]+\)\s*)?(?:[\w.-]+@[\w.-]+[:\s][^$#\n]{0,80})?\$\s+(?=\S)")
_ROOT_PROMPT = re.compile(r"^\s*(?:[\w.-]+@[\w.-]+[:\s][^$#\n]{0,80})?#\s+(?=\S)")
_BULLET = re.compile(r"^\s*(?:[-*+]|\d+[.)])\s+")
_ASSIGNED = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\s*=\s*\S.*|[a-z][a-z0-9_]*_[a-z0-9_]+\s+\S+")
_FLAG = re.compile(r"(?<![\w/=-])--?[A-Za-z][A-Za-z0-9_.-]*(?:=[^\s,;)]+|\s+[^\s,;()-][^\s,;()]*)?")
_MAX_INLINE_CHARACTERS = 2000
#: More loose words than this nobody reads.
MAX_LOOSE = 500

ReadText = Callable[[str, int], Excerpt]


def read_markdown(text: str, *, read_manifest: ReadText, read_unit: ReadText) -> Excerpt:
    """The commands and loose words of a text. The two readers are for blocks in other formats."""
    body, offset = _without_front_matter(text)
    parser = MarkdownIt("zero").enable([*_BLOCKS, "backticks", "escape", "newline"])
    parts: list[Excerpt] = []
    for token in parser.parse(body):
        line = (token.map[0] if token.map else 0) + 1 + offset
        if token.type == "fence":
            parts.append(_read_fence(token, line + 1, read_manifest, read_unit))
        elif token.type == "code_block":
            parts.append(_read_block(token.content, line, is_console=False))
        elif token.type == "inline":
            parts += _read_inline(token, line)
    whole = join_excerpts(parts)
    return Excerpt(found=whole.found, loose=whole.loose[:MAX_LOOSE], remarks=whole.remarks)


def front_matter(text: str) -> str:
    """The YAML above a model card, empty for none."""
    found = _FRONT.match(text)
    return found[0].strip().strip("-") if found else ""


def _without_front_matter(text: str) -> tuple[str, int]:
    """The text below the YAML at its head, and how many lines that has."""
    found = _FRONT.match(text)
    return (text[found.end() :], found[0].count("\n")) if found else (text, 0)


def _read_fence(token: Token, line: int, read_manifest: ReadText, read_unit: ReadText) -> Excerpt:
    language = (token.info.strip().split() or [""])[0].strip("{}.").lower()
    if language in _UNITS or (language in _SHELLS and "[Service]" in token.content):
        return read_unit(token.content, line)
    if language in _MANIFESTS:
        return read_manifest(token.content, line)
    if language in _SHELLS:
        return _read_block(token.content, line, is_console=language in _CONSOLES)
    return Excerpt()


def _read_block(content: str, line: int, *, is_console: bool) -> Excerpt:
    text = _without_prompts(content, is_console=is_console)
    return excerpt_of_shell(text, place="code block", first_line=line)


def _without_prompts(content: str, *, is_console: bool) -> str:
    """The lines behind prompts with what continues them; other lines are output and go blank."""
    prompts = (_PROMPT, _ROOT_PROMPT) if is_console else (_PROMPT,)
    lines = content.split("\n")
    has_prompts = any(pattern.match(line) for line in lines for pattern in prompts)
    if not has_prompts:
        return content
    kept: list[str] = []
    goes_on = False
    for line in lines:
        bare = next((p.sub("", line, count=1) for p in prompts if p.match(line)), None)
        kept.append(bare if bare is not None else line if goes_on else "")
        goes_on = kept[-1].endswith("\\")
    return "\n".join(kept)


def _read_inline(token: Token, line: int) -> Iterator[Excerpt]:
    """Code within sentences, and prose that is a command itself."""
    outside: list[str] = []
    here = line
    for child in token.children or ():
        if child.type == "code_inline":
            yield _read_code(child.content.strip(), here)
            continue
        is_text = child.type == "text"
        here += not is_text
        outside.append(child.content if is_text else "\n")
    yield from _read_prose(token.content, line)
    yield Excerpt(loose=tuple(_loose_in_prose("".join(outside), line)))


def _read_code(code: str, line: int) -> Excerpt:
    if len(code) > _MAX_INLINE_CHARACTERS:
        return Excerpt()
    if code.startswith("-"):
        return Excerpt(loose=_loose(code, line))
    if _names_a_server(code):
        found = excerpt_of_shell(code, place="code in a sentence", first_line=line, is_prose=True)
        flags = [each for each in found.found if each.invocation.server.flags]
        return Excerpt(found=tuple(flags))
    return Excerpt(loose=_loose(_joined(code), line) if _ASSIGNED.fullmatch(code) else ())


def _joined(code: str) -> str:
    """``a_field = value`` or ``a_field value`` as one word; a list of several stays one."""
    name, _, value = re.sub(r"\s*=\s*", "=", code, count=1).partition("=")
    if not value:
        name, _, value = code.partition(" ")
    return f"{name}={value.strip()}"


def _loose(code: str, line: int, *, is_code: bool = True) -> tuple[Loose, ...]:
    commands = read_commands(f"_ {code}", line)
    return tuple(
        Loose(command=Command(words=command.words[1:], line=line), line=line, is_code=is_code)
        for command in commands
        if len(command.words) > 1 and command.words[0].text == "_"
    )


def _read_prose(content: str, line: int) -> Iterator[Excerpt]:
    for first, text in _logical_lines(content.split("\n")):
        bare = _BULLET.sub("", _PROMPT.sub("", text, count=1), count=1)
        if _names_a_server(bare):
            yield excerpt_of_shell(bare, place="text", first_line=line + first, is_prose=True)


def _loose_in_prose(text: str, line: int) -> Iterator[Loose]:
    for number, each in number_lines(text):
        if not _names_a_server(each):
            for found in _FLAG.finditer(each):
                yield from _loose(found[0].rstrip(".!?:"), line + number - 1, is_code=False)


def _logical_lines(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Lines with those that a backslash continues, and the number of the first, from 0."""
    first, gathered = 0, list[str]()
    for number, line in enumerate(lines):
        if not gathered:
            first = number
        gathered.append(line)
        if not line.endswith("\\"):
            yield first, "\n".join(gathered)
            gathered = []
    if gathered:
        yield first, "\n".join(gathered)


def _names_a_server(text: str) -> bool:
    """Whether it is worth reading as a command: the name of a server stands in it."""
    return any((form.program or form.module) in text for form in load_servers().form)
