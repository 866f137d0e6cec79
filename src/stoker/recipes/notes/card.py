"""A model's card as what it asks for: engines' releases and changes, quantization, sizes, commands.

Called by the command layer. Pure. A sentence is taken as a demand only where it says so; a change
by its number is mapped to a release only where that is written down with a source. What is not
known stays unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from markdown_it import MarkdownIt

from stoker.knowledge.changes import AskedPackage, load_asked
from stoker.knowledge.notes import load_note_forms
from stoker.knowledge.versions import parse_version, parse_version_range, version_is_in
from stoker.model.facts import Unknown
from stoker.model.finding import Source
from stoker.model.model_card import CardRequirement, CardRequirements
from stoker.model.note import NoteImport, Verdict
from stoker.recipes.notes.budget import open_budget
from stoker.recipes.notes.flag_names import find_option, open_book
from stoker.recipes.notes.markdown import front_matter
from stoker.recipes.notes.read import Wish, import_commands, import_note
from stoker.recipes.notes.secrets import hide_secrets
from stoker.recipes.notes.text import clean
from stoker.recipes.yaml import UnreadableYaml, read_yaml

_SENTENCE = re.compile(r"(?<=[.!?;])\s+(?=[A-Z*_`\[>(-])|\n\s*(?=[-*+>|]\s)")
_NUMBER = r"v?(\d+(?:\.\d+)+(?:\.?post\d+)?|b\d{4,6})"
_SIGN = r"(>=|≥|=>|==|~=|>|=)"
_NEEDS = re.compile(
    r"requir|need|must|support|landed|includ|after|since|merged|built (?:from|with)|build that|"
    r"install|upgrade|minimum|at least|depends|use (?:the|a|an)\b",
    re.IGNORECASE,
)
_UNRELEASED = re.compile(
    r"\bnightly\b|\bmain branch\b|\bfrom source\b|\bmain\b(?= (?:after|with|branch|build|is))|"
    r"not (?:yet )?in (?:a|any) (?:stable )?release|install from main|latest main",
    re.IGNORECASE,
)
_URL_CHANGE = re.compile(r"github\.com/([\w.-]+/[\w.-]+)/pull/(\d{2,6})\b")
_NAMED_CHANGE = re.compile(r"([\w.-]+/[\w.-]+)#(\d{2,6})\b")
_BARE_CHANGE = re.compile(r"(?:\bPR|pull request|\bchange)s?\s*#?\s*(\d{3,6})\b", re.IGNORECASE)
_NEAR_CHANGE = re.compile(r"(?<![\w/])#(\d{3,6})\b")
_TENSOR = re.compile(
    r"\bTP\s?[=-]?\s?(\d{1,3})\b"
    r"|tensor[- ]parallel(?:[- ](?:size|degree))?\s*(?:of|=|:)?\s*(\d{1,3})\b",
    re.IGNORECASE,
)
_CONTEXT = re.compile(
    r"context(?:[ -](?:length|window|size))?[^.\d\n]{0,40}?"
    r"(\d{1,3}(?:,\d{3})+|\d{4,8}|\d+(?:\.\d+)?\s?[KkMm])\b"
)
_INSTALL = re.compile(r"\b(?:pip|uv|conda)\b.*\binstall\b")
#: A card is read once as a whole, and once for its commands.
_READINGS = 2
_MAX_SENTENCES = 2000
_MAX_SENTENCE_CHARACTERS = 2000
_MAX_TEXT_CHARACTERS = 200_000
_MAX_SHOWN = 200
_CONTEXT_ROW = "context_tokens"


def parse_card(text: str, *, origin: str = "README.md") -> CardRequirements:
    """Everything that a card asks for. Raises UsageError for a text that is too large."""
    with open_budget(readings=_READINGS):
        return _parse_card(clean(text, origin), origin)


def _parse_card(cleaned: str, origin: str) -> CardRequirements:
    noted = _read_commands(cleaned, origin)
    sentences = list(_sentences(cleaned))[:_MAX_SENTENCES]
    front = _front(cleaned)
    flat = " ".join(text for _, text in sentences)[:_MAX_TEXT_CHARACTERS]
    return CardRequirements(
        commands=noted.commands,
        requirements=_demands(sentences),
        precisions=_precisions(front, flat),
        tensor_sizes=tuple(dict.fromkeys((*_sizes(cleaned, noted), *_said_sizes(flat)))),
        context_tokens=tuple(dict.fromkeys(_said_contexts(flat))),
        base_models=_listed(front.get("base_model")),
        remarks=noted.remarks,
    )


def parse_requirements(text: str, *, origin: str = "README.md") -> tuple[CardRequirement, ...]:
    """What a card asks of engines and packages alone, which takes moments. Raises as above."""
    return _demands(list(_sentences(clean(text, origin)))[:_MAX_SENTENCES])


def _demands(sentences: Sequence[tuple[int, str]]) -> tuple[CardRequirement, ...]:
    found = (each for line, sentence in sentences for each in _requirements(sentence, line))
    return tuple(_without_repeats(found))


def is_met(requirement: CardRequirement, releases: Mapping[str, str | Unknown]) -> bool | Unknown:
    """Whether an installed package meets a demand.

    ``releases`` are the installed versions by package, Unknown where one was built from a commit
    that no release names. Unknown with the reason where the card or the version does not tell.
    """
    installed = releases.get(requirement.package)
    if installed is None:
        return Unknown(reason=f"which {requirement.package} is installed is not known")
    if isinstance(installed, Unknown):
        return installed
    wanted = parse_version_range(requirement.versions) if requirement.versions else None
    version = parse_version(installed)
    if wanted is None:
        return Unknown(reason=requirement.reason or "the card names no release")
    if version is None:
        return Unknown(reason=f"{installed} is no release of {requirement.package}")
    return version_is_in(version, wanted)


# Commands.


def _read_commands(text: str, origin: str) -> NoteImport:
    source = Source(kind="documented", where=origin, date="0000-00-00")
    return import_note(text, name="README.md", source=source, wish=Wish())


def _sizes(text: str, noted: NoteImport) -> Iterator[int]:
    """The tensor-parallel sizes of the commands."""
    name = f"--{load_note_forms().gpus.sizes[0]}"
    for judged in import_commands(text, name="README.md", source=noted.source):
        option = find_option(open_book(judged.engine, judged.release).catalogue, name)
        for each in judged.settings:
            is_size = option is not None and each.name in option.names
            if is_size and each.verdict is Verdict.TAKEN and each.values[0].isdecimal():
                yield int(each.values[0][:6])


# Sentences.


def _sentences(text: str) -> Iterator[tuple[int, str]]:
    """The sentences outside of code, with the line in which their paragraph begins; and lines of
    code that install something."""
    parser = MarkdownIt("zero").enable(
        ["fence", "code", "blockquote", "list", "heading", "paragraph", "backticks", "escape"]
    )
    front = text[: len(text) - len(_without_front(text))].count("\n")
    for token in parser.parse(_without_front(text)):
        line = (token.map[0] if token.map else 0) + 1 + front
        if token.type == "inline":
            for sentence in _SENTENCE.split(token.content):
                yield line, " ".join(sentence[:_MAX_SENTENCE_CHARACTERS].split())
        elif token.type in ("fence", "code_block"):
            yield from _installs(token.content, line + 1)


def _installs(code: str, line: int) -> Iterator[tuple[int, str]]:
    """The lines of code that install something."""
    for number, written in enumerate(code.split("\n"), line):
        if _INSTALL.search(written):
            yield number, written.strip()[:_MAX_SENTENCE_CHARACTERS]


def _without_front(text: str) -> str:
    found = re.match(r"\A---\n(?:[^\n]*\n)*?---(?:\n|\Z)", text)
    return text[found.end() :] if found else text


def _requirements(sentence: str, line: int) -> Iterator[CardRequirement]:
    changes = [*_changes(sentence)] if _NEEDS.search(sentence) else []
    for package, number in changes:
        yield _change(package, number, sentence, line)
    for package in load_asked().package:
        word = rf"\b(?:{'|'.join(package.words)})\b"
        if not re.search(word, sentence, re.IGNORECASE):
            continue
        ranges = dict.fromkeys(_ranges(word, sentence))
        for versions in ranges:
            yield _demand(package, "release", sentence, line, versions=versions)
        asks = not ranges and not changes and package.kind and _NEEDS.search(sentence)
        if asks and _UNRELEASED.search(sentence):
            yield _demand(
                package,
                "unreleased",
                sentence,
                line,
                reason="the card asks for a build from source, which no release stands for",
            )


def _ranges(word: str, sentence: str) -> Iterator[str]:
    """The releases that a sentence asks for, as ranges."""
    between = r"[\s*`\"'(\[\]):]{0,6}(?:version\b|release\b)?[\s*`\"':]{0,4}"
    for found in re.finditer(
        rf"{word}(?:\[[\w,-]*\])?{between}{_SIGN}\s*{_NUMBER}", sentence, re.IGNORECASE
    ):
        # A command installs one release, which says only that this one is new enough.
        exact = ">=" if _INSTALL.search(sentence) else "=="
        sign = {"≥": ">=", "=>": ">=", "=": exact, "==": exact, "~=": ">="}.get(found[1], found[1])
        yield f"{sign}{found[2]}"
    later = (
        r"[\s*`\"')]{0,4}(?:\+|or (?:later|newer|above|higher|greater)|and (?:later|newer|above))"
    )
    for found in re.finditer(rf"{word}{between}{_NUMBER}{later}", sentence, re.IGNORECASE):
        yield f">={found[1]}"
    asks = r"(?:requires?|needs?|at least|minimum(?: of)?|since|from)"
    least = rf"{asks}[\s*`]{{1,4}}(?:at least )?{word}"
    for found in re.finditer(rf"{least}{between}{_NUMBER}", sentence, re.IGNORECASE):
        yield f">={found[1]}"


def _changes(sentence: str) -> Iterator[tuple[AskedPackage, int]]:
    """The numbered changes that a sentence names, each with its package."""
    packages = {row.repository.lower(): row for row in load_asked().package}
    found: dict[tuple[str, int], AskedPackage] = {}
    for pattern in (_URL_CHANGE, _NAMED_CHANGE):
        for repository, number in pattern.findall(sentence):
            if row := packages.get(repository.lower()):
                found[row.name, int(number)] = row
    known = {number for _, number in found}
    named = [
        row
        for row in packages.values()
        if row.kind and re.search(rf"\b(?:{'|'.join(row.words)})\b", sentence, re.IGNORECASE)
    ]
    bare = {int(number) for p in (_BARE_CHANGE, _NEAR_CHANGE) for number in p.findall(sentence)}
    for number in sorted(bare - known) if len(named) == 1 else ():
        found[named[0].name, number] = named[0]
    for (_, number), row in found.items():
        yield row, number


def _change(package: AskedPackage, number: int, sentence: str, line: int) -> CardRequirement:
    known = load_asked().find_change(package.kind, number)
    if known is not None:
        return _demand(
            package, "change", sentence, line, versions=f">={known.release}", number=number
        )
    reason = f"in which release of {package.name} change {number} is, nobody has written down here"
    return _demand(package, "change", sentence, line, number=number, reason=reason)


def _demand(
    package: AskedPackage,
    kind: str,
    sentence: str,
    line: int,
    *,
    versions: str = "",
    number: int = 0,
    reason: str = "",
) -> CardRequirement:
    return CardRequirement(
        package=package.name,
        engine=package.kind,
        kind=kind,
        versions=versions,
        number=number,
        line=line,
        sentence=hide_secrets(sentence)[:_MAX_SHOWN],
        reason=reason,
    )


def _without_repeats(requirements: Iterable[CardRequirement]) -> Iterator[CardRequirement]:
    seen: set[tuple[str, str, str, int]] = set()
    for each in requirements:
        key = (each.package, each.kind, each.versions, each.number)
        if key not in seen:
            seen.add(key)
            yield each


# Weights and sizes.


def _front(text: str) -> Mapping[str, object]:
    """The front matter; empty where there is none that can be read."""
    try:
        data = read_yaml(front_matter(text))
    except UnreadableYaml:
        return {}
    return data if isinstance(data, Mapping) else {}


def _listed(value: object) -> tuple[str, ...]:
    items: Sequence[object] = value if isinstance(value, list) else [value]
    return tuple(str(each)[:_MAX_SHOWN] for each in items if isinstance(each, str))


def _precisions(front: Mapping[str, object], text: str) -> tuple[str, ...]:
    """What tags and text name, tags first."""
    tags = " ".join((*_listed(front.get("tags")), *_listed(front.get("quantization"))))
    words = load_asked().precision
    found = [
        row.word
        for part in (tags, text)
        for row in words
        if re.search(row.pattern, part, re.IGNORECASE if part is tags else 0)
    ]
    return tuple(dict.fromkeys(found))


def _said_sizes(text: str) -> Iterator[int]:
    for one, other in _TENSOR.findall(text):
        if 0 < int(one or other) <= 128:
            yield int(one or other)


def _said_contexts(text: str) -> Iterator[int]:
    for written in _CONTEXT.findall(text):
        bare = written.replace(",", "").replace(" ", "").lower()
        factor = {"k": 1 << 10, "m": 1 << 20}.get(bare[-1], 1)
        number = float(bare.rstrip("km")) * factor
        if 256 <= number <= 1 << 30:
            yield int(number)
