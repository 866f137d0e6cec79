"""Recorded failures with their causes, as cases: one YAML file each.

Called by :mod:`stoker.evaluate.failures`. What a diagnosis may see and what it is judged by are
read by two functions, and nothing of the second is looked at before all predictions are made. A
folder may come from anybody: a file that is no case is one sentence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from stoker.diagnosis.case_tree import Told
from stoker.errors import UsageError
from stoker.model.facts import Plain

#: A case quotes a log, it does not hold one.
_MOST_BYTES = 8 << 20
_MOST_CASES = 20_000
_ASSEMBLED = "assembled"
#: YAML's words for nothing and for yes, since every scalar is read as the text that it is.
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_YES = frozenset({"true", "True", "TRUE", "yes"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseInput:
    """What a diagnosis may see of a case. ``path`` says which file to judge it by."""

    id: str
    path: Path
    log: str
    told: Told


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseAnswer:
    """What a case is judged by. ``kinds``: the right one, and those that are right as well."""

    id: str
    kinds: tuple[str, ...]
    remedy_tokens: tuple[str, ...]
    source: str
    is_scored: bool
    is_assembled: bool


def read_inputs(folder: Path) -> tuple[tuple[CaseInput, ...], tuple[str, ...]]:
    """The inputs of all cases of a folder, by file name, and a sentence for each file that is no
    case. Raises UsageError for a folder that is none."""
    inputs: list[CaseInput] = []
    problems: list[str] = []
    for path in list_files(folder):
        try:
            inputs.append(_parse_input(_load(path), path))
        except UsageError as error:
            problems.append(error.summary)
    return tuple(inputs), tuple(problems)


def list_files(folder: Path) -> Sequence[Path]:
    """The files that may be cases. Raises UsageError."""
    try:
        found = sorted(path for path in folder.iterdir() if path.suffix in (".yaml", ".yml"))
    except OSError as error:
        raise UsageError(f"{folder} cannot be read: {error.strerror}") from error
    if not found:
        raise UsageError(f"there are no cases (*.yaml) in {folder}")
    return found[:_MOST_CASES]


def read_answer(case: CaseInput) -> CaseAnswer:
    """What a case is judged by. Raises UsageError."""
    data = _load(case.path)
    kind = _text(data.get("kind"))
    if not kind:
        raise UsageError(f"{case.path.name}: it names no kind")
    return CaseAnswer(
        id=case.id,
        kinds=(kind, *_texts(data.get("acceptable"))),
        remedy_tokens=_texts(data.get("remedy_tokens")),
        source=_text(data.get("source")),
        is_scored=_text(data.get("scored")) in _YES,
        is_assembled=_text(data.get("log_source")) == _ASSEMBLED,
    )


def _load(path: Path) -> Mapping[str, Plain]:
    """The file as texts, lists and tables: 0.10 stays what somebody wrote."""
    try:
        if not path.is_file() or path.stat().st_size > _MOST_BYTES:
            raise UsageError(f"{path.name}: it is no file, or too large for a case")
        data = YAML(typ="base", pure=True).load(path.read_bytes().decode("utf-8", "replace"))
    except OSError as error:
        raise UsageError(f"{path.name}: it cannot be read: {error.strerror}") from error
    except (YAMLError, ValueError, RecursionError) as error:
        first = str(error).strip().partition("\n")[0] or type(error).__name__
        raise UsageError(f"{path.name}: it is no YAML: {first}") from error
    if not isinstance(data, Mapping):
        raise UsageError(f"{path.name}: it is no table of a case's fields")
    return data


def _parse_input(data: Mapping[str, Plain], path: Path) -> CaseInput:
    log = data.get("log")
    if not isinstance(log, str) or not log.strip():
        raise UsageError(f"{path.name}: it has no log")
    count = _text(data.get("gpu_count"))
    return CaseInput(
        id=_text(data.get("id")) or path.stem,
        path=path,
        log=log,
        told=Told(
            engine=_text(data.get("engine")),
            engine_version=_text(data.get("engine_version")),
            gpu=_text(data.get("gpu")),
            gpu_count=int(count) if count.isascii() and count.isdecimal() else None,
            arch=_text(data.get("arch")),
            model=_text(data.get("model")),
            quantization=_text(data.get("quantization")),
            flags=_texts(data.get("flags")),
        ),
    )


def _text(value: Plain) -> str:
    return value.strip() if isinstance(value, str) and value not in _NULLS else ""


def _texts(value: Plain) -> tuple[str, ...]:
    return tuple(_list_texts(value))


def _list_texts(value: Plain) -> Iterator[str]:
    items = value if isinstance(value, list) else [value]
    return (text for text in map(_text, items) if text)
