"""What was taken of a note, as a recipe that Stoker keeps, and as changes of a deployment file.

Called by the command layer. Pure. A recipe of a note is never more than untested: a note seldom
says on which hardware it holds, and nobody vouches for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from stoker.knowledge.notes import load_note_forms
from stoker.model.facts import Plain
from stoker.model.launch import Origin, Setting
from stoker.model.note import NotedSetting, NoteImport, Verdict
from stoker.model.recipe import Recipe, RecipeHardware, RecipeStatus
from stoker.recipes.args import make_grammar, parse_arguments
from stoker.recipes.notes.flag_names import find_option, open_book

STRATEGY = "imported"
SAID = "note"
HARDWARE = "the hardware of the note, which it does not name"
_GPU_LIST = re.compile(r"[\"']?(?:device=)?(\d+(?:,\d+)*)[\"']?")
_MOST_GPUS = 4096


def make_recipe(imported: NoteImport, *, model: str, name: str) -> Recipe:
    """The recipe of a note's command for a model. ``name`` tells it from others of that model."""
    bare = re.sub(r"[\s+]+", "-", model)
    recipe = f"note:{bare}/{name}"
    return Recipe(
        id=recipe[:400],
        engine=imported.engine,
        task="text",
        models=(model,),
        precision="",
        hardware=RecipeHardware(
            word=HARDWARE,
            status=RecipeStatus.UNTESTED,
            said=SAID,
            gpu_count=count_gpus(imported),
        ),
        strategy=STRATEGY,
        versions=_versions(imported),
        settings=make_settings(imported, recipe=recipe),
        notes=imported.remarks,
        source=imported.source,
    )


def make_settings(imported: NoteImport, *, recipe: str = "") -> tuple[Setting, ...]:
    """What was taken and belongs to no key of a deployment, as settings of that source."""
    taken = [each for each in taken_settings(imported) if not each.key]
    like = Setting(
        name="",
        value=None,
        origin=Origin.RECIPE,
        reason="",
        source=imported.source,
        rule=recipe,
    )
    flags = [each for each in taken if each.kind == "flag"]
    words = [word for each in flags for word in _words(each)]
    grammar = make_grammar([open_book(imported.engine, imported.release).catalogue])
    settings, _ = parse_arguments(words, grammar, like=like)
    reasons = {
        grammar.identify(replace(like, name=each.name.partition(".")[0])): _reason(each)
        for each in flags
    }
    explained = [
        replace(each, reason=reasons.get(grammar.identify(each), "the note has it"))
        for each in settings
    ]
    env = [
        replace(like, name=each.name, value=each.values[0], kind="env", reason=_reason(each))
        for each in taken
        if each.kind == "env"
    ]
    return (*explained, *env)


def taken_settings(imported: NoteImport) -> tuple[NotedSetting, ...]:
    """All that was taken; what the owner wants of the sentences goes before the command's own."""
    everything = (*imported.settings, *imported.loose)
    taken = [each for each in everything if each.verdict is Verdict.TAKEN]
    wanted = {each.name for each in imported.loose if each.verdict is Verdict.TAKEN}
    return tuple(each for each in taken if each.name not in wanted or each not in imported.settings)


def make_changes(imported: NoteImport) -> dict[str, Plain]:
    """What was taken as changes of a deployment file: values as text, by dotted path."""
    changes: dict[str, Plain] = {}
    for each in taken_settings(imported):
        if each.key:
            changes[each.key] = _key_value(each)
        elif each.kind == "env":
            changes[f"engine.env.{each.name}"] = each.values[0]
        else:
            path = f"engine.settings.{each.what}"
            changes[path] = _gather(changes.get(path), each, imported)
    return {path: value for path, value in changes.items() if value is not None}


def count_gpus(imported: NoteImport) -> int:
    """How many GPUs the command uses, as far as it says; 1 where it says nothing."""
    command = imported.commands[imported.chosen - 1] if imported.chosen else None
    listed = _GPU_LIST.fullmatch(command.gpus) if command else None
    if listed and "," in listed[1]:
        return min(len(listed[1].split(",")), _MOST_GPUS)
    catalogue = open_book(imported.engine, imported.release).catalogue
    count = 1
    for size in load_note_forms().gpus.sizes:
        option = find_option(catalogue, f"--{size}")
        for each in taken_settings(imported):
            is_size = option is not None and each.name in option.names
            if is_size and each.values and each.values[0].isdecimal():
                count *= max(1, int(each.values[0][:6]))
    return min(count, _MOST_GPUS)


def _versions(imported: NoteImport) -> str:
    command = imported.commands[imported.chosen - 1] if imported.chosen else None
    return f"=={command.release}" if command and command.release else ""


def _reason(noted: NotedSetting) -> str:
    line = f"line {noted.line} of the note"
    return f"{line}: {noted.renamed}" if noted.renamed else line


def _words(noted: NotedSetting) -> Iterator[str]:
    if len(noted.values) == 1:
        yield f"{noted.name}={noted.values[0]}"
    else:
        yield from (noted.name, *noted.values)


def _gather(before: Plain, noted: NotedSetting, imported: NoteImport) -> Plain:
    """The value of a setting; a list where every use of a flag counts."""
    option = find_option(open_book(imported.engine, imported.release).catalogue, noted.name)
    if len(noted.values) > 1:
        return list(noted.values)
    value: Plain = noted.values[0] if noted.values else True
    if before is None or option is None or not option.repeatable:
        return value
    return [*(before if isinstance(before, list) else [before]), value]


def _key_value(noted: NotedSetting) -> Plain:
    """The value of a deployment's key; None where the words do not fit it."""
    text = noted.values[0] if noted.values else ""
    match noted.key.rpartition(".")[2]:
        case "port":
            return int(text) if text.isdecimal() and len(text) < 6 else None
        case "model" | "draft":
            return _reference(text)
        case "gpus":
            listed = _GPU_LIST.fullmatch(text)
            return [int(each[:4]) for each in listed[1].split(",")] if listed else None
    return text or None


def _reference(text: str) -> str | None:
    if text.startswith("/"):
        return f"path:{text}"
    is_hub = re.fullmatch(r"[A-Za-z0-9_][\w.-]*/[A-Za-z0-9_][\w.-]*", text)
    return f"hf:{text}" if is_hub else None


def name_from(words: Iterable[str]) -> str:
    """A short name of letters, digits and dashes."""
    bare = re.sub(r"[^a-z0-9]+", "-", "-".join(words).lower()).strip("-")
    return bare[:60].strip("-") or "note"
