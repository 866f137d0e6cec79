"""What is known of a failure from a few words about it, in the words of rules.

Called by whoever scores diagnoses, for a case that somebody described, and by the commands, for
what the beginning of a log tells. The paths are those of :mod:`stoker.knowledge.describe`; what
nobody said is not there, and so unknown to a condition. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from stoker.knowledge.derived.model_names import find_names
from stoker.knowledge.engines import engine_kinds
from stoker.knowledge.gpus import GpuRow, find_gpu
from stoker.knowledge.model_types import load_quantization_words
from stoker.knowledge.releases import load_table_for
from stoker.knowledge.stacks import load_stacks
from stoker.model.engine_table import FlagCatalogue, Option
from stoker.model.facts import Plain

Tree: TypeAlias = dict[str, Plain]

#: A release, and whether it is only near: a date is none.
_RELEASE = re.compile(r"\s*(?P<near>~)?\s*v?(?P<release>\d{1,4}\.\d{1,4}(?:\.\d{1,6})?[\w.]*)")
_BUILD = re.compile(r"\s*(?P<release>b\d{3,6})\b")
_VERSION = r"(?P<version>\d{1,4}(?:\.\d{1,6}){1,3}[\w.]*)"
_CUDA = re.compile(r"\b(?:cu|CUDA )(?P<major>\d\d)\.?(?P<minor>\d)\b")
_DRIVER = re.compile(rf"\bNVIDIA {_VERSION}(?: (?P<flavour>open|proprietary))?", re.IGNORECASE)
_ARCH = re.compile(r"sm_?(?P<major>\d{1,2})(?P<minor>\d)[a-z]?$", re.IGNORECASE)
_FLAG = re.compile(r"--?[A-Za-z][\w.-]*")
_ENV = re.compile(r"(?P<name>[A-Z][A-Z0-9_]{2,})=(?P<value>.*)")
#: As makers print it on the box.
_GB_BYTES = 1_000_000_000
_SWITCHES = {"true": True, "false": False}
_NUMBERS = {"int": int, "float": float}
_NOTHING = frozenset({"", "none", "null", "~", "n/a", "not stated", "unknown", "any"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """Words about a failure, each as somebody wrote it; empty for what was not said."""

    engine: str = ""
    engine_version: str = ""
    gpu: str = ""
    gpu_count: int | None = None
    arch: str = ""
    model: str = ""
    quantization: str = ""
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedCase:
    """The engine as tables know it (empty where none does), its release where it is certain, and
    the tree for conditions."""

    engine: str
    release: str
    tree: Mapping[str, Plain]


def describe_case(told: Told) -> DescribedCase:
    """What is known of a case."""
    engine = find_kind(told.engine)
    release, is_near = read_release(told.engine_version)
    settings, env = read_flags(told.flags, engine=engine, release=release)
    tree: Tree = {
        "stack": describe_stack(engine, release, told.engine_version),
        "hardware": describe_hardware(told.gpu, told.arch, told.gpu_count),
        "checkpoint": describe_model(told.model, told.quantization),
        "settings": settings,
        "env": env,
    }
    return DescribedCase(engine=engine, release="" if is_near else release, tree=tree)


def find_kind(name: str) -> str:
    """The engine that a name means: ``llama.cpp`` as well as ``llamacpp``; empty for another."""
    plain = re.sub(r"[^a-z0-9]", "", name.lower())
    return plain if plain in engine_kinds() else ""


def read_release(text: str) -> tuple[str, bool]:
    """The release that a text begins with (empty for none), and whether it is only near."""
    if found := _BUILD.match(text):
        return found["release"], False
    found = _RELEASE.match(text)
    if found is None:
        return "", False
    return found["release"].rstrip("."), found["near"] is not None


def describe_stack(engine: str, release: str, text: str) -> Tree:
    """Versions that a text names: ``0.5.10-cu130``, ``torch 2.11``, ``NVIDIA 570.144 open``."""
    stack: Tree = {"version": release} if release else {}
    if engine:
        stack["engine"] = engine
    for name in load_stacks().component:
        found = re.search(rf"\b{re.escape(name)} v?{_VERSION}", text, re.IGNORECASE)
        if found is not None:
            stack[name] = found["version"]
    if cuda := _CUDA.search(text):
        stack["cuda"] = f"{cuda['major']}.{cuda['minor']}"
    if driver := _DRIVER.search(text):
        stack["driver"] = driver["version"]
        stack |= {"driver_flavour": driver["flavour"].lower()} if driver["flavour"] else {}
    return stack


def describe_hardware(gpu: str, arch: str, count: int | None) -> Tree:
    """What a name of a GPU and of an architecture tell."""
    hardware: Tree = {"count": count} if count is not None else {}
    if not _is_nothing(gpu):
        hardware["name"] = gpu
    rows = list({row.key: row for row in filter(None, map(find_gpu, _split_names(gpu)))}.values())
    if len(rows) == 1:
        hardware |= _describe_row(rows[0])
    if found := _ARCH.match(arch):
        hardware |= _describe_capability(int(found["major"]) * 10 + int(found["minor"]))
    elif arch.lower().startswith("gfx"):
        hardware |= {"maker": "amd", "arch": arch.lower()}
    return hardware


def _split_names(gpu: str) -> Sequence[str]:
    """Several kinds in one text: ``L40 / RTX 4090``."""
    return [part for part in re.split(r"\s*[/+,]\s*|\s+and\s+|\s+or\s+", gpu) if part]


def _describe_row(row: GpuRow) -> Tree:
    sizes = {"memory_bytes": row.memory_gb[0] * _GB_BYTES} if len(row.memory_gb) == 1 else {}
    about = {"key": row.key, "words": list(row.words), "has_nvlink": row.nvlink, **sizes}
    return {**about, **_describe_capability(row.capability)}


def _describe_capability(capability: int) -> Tree:
    return {
        "maker": "nvidia",
        "arch": f"sm_{capability}",
        "capability": capability,
        "major": capability // 10,
    }


def describe_model(model: str, quantization: str) -> Tree:
    """What a model's name, and a word for how its weights are packed, tell."""
    checkpoint: Tree = {}
    if not _is_nothing(model):
        named = find_names(f"hf:{model}", {})
        checkpoint |= {key: value for key, value in named.items() if value}
    words = load_quantization_words()
    plain = quantization.strip().lower()
    word = words.methods.get(plain) or (plain if plain in words.methods.values() else None)
    # "none" is written for what is not known as well, so it tells nothing.
    word = word or checkpoint.get("named_quantization")
    return {**checkpoint, "quantization": word} if word else checkpoint


def _is_nothing(text: str) -> bool:
    return text.strip().lower() in _NOTHING


# --- settings ---


def read_flags(flags: Iterable[str], *, engine: str, release: str) -> tuple[Tree, dict[str, str]]:
    """Settings and variables out of ``--tp 4`` and ``NAME=value``, under all spellings."""
    catalogue = load_table_for(engine, release or None).catalogue if engine else None
    settings: Tree = {}
    env: dict[str, str] = {}
    for text in flags:
        if found := _ENV.fullmatch(text.strip()):
            env[found["name"]] = found["value"].strip("'\"")
            continue
        for name, words in _split_flags(text):
            settings |= _spell(name, words, catalogue)
    return settings, env


def describe_arguments(arguments: Mapping[str, Plain], *, engine: str, release: str) -> Tree:
    """Settings as an engine prints its own arguments, ``tp_size=2``, under all spellings.

    None is a flag that is not set.
    """
    catalogue = load_table_for(engine, release or None).catalogue
    settings: Tree = {}
    for name, value in arguments.items():
        option = catalogue.find_whole(name.replace("_", "-"))
        names = [each.lstrip("-") for each in option.names] if option else [name.replace("_", "-")]
        settings |= dict.fromkeys(names, value)
    return settings


def _split_flags(text: str) -> Iterator[tuple[str, list[str]]]:
    """Each flag of a text with the words behind it."""
    name = ""
    words: list[str] = []
    for word in text.replace("=", " ", 1).split() if text.startswith("-") else ():
        if _FLAG.fullmatch(word):
            if name:
                yield name, words
            name, words = word, []
        else:
            words.append(word)
    if name:
        yield name, words


def _spell(name: str, words: Sequence[str], catalogue: FlagCatalogue | None) -> Tree:
    option = catalogue.find_written(name) if catalogue else None
    if option is None:
        return {name.lstrip("-"): _as_value(words, None)}
    value = _as_value(words, option)
    # The beginning of a flag stands for it.
    return {each.lstrip("-"): value for each in (*option.names, name)}


def _as_value(words: Sequence[str], option: Option | None) -> Plain:
    if not words:
        return True
    if len(words) > 1 and option is not None and (option.nargs in ("*", "+") or option.repeatable):
        return [_typed(word, option) for word in words]
    return _typed(" ".join(words), option)


def _typed(word: str, option: Option | None) -> Plain:
    kind = option.type if option else ""
    try:
        if kind in _NUMBERS:
            return _NUMBERS[kind](word)
        return _SWITCHES.get(word.lower(), _number(word)) if option is None else word
    except ValueError:
        return word


def _number(word: str) -> Plain:
    if re.fullmatch(r"-?\d{1,18}", word):
        return int(word)
    return float(word) if re.fullmatch(r"-?\d{1,18}\.\d{1,18}", word) else word
