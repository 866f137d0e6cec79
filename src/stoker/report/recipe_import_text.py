"""What was read of a note, as a person reads it: taken, withheld, not known, and where it went."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from stoker.model.note import NotedCommand, NotedSetting, NoteImport, Verdict
from stoker.model.visible import visible

_TITLES = (
    (Verdict.TAKEN, "Taken"),
    (Verdict.WITHHELD, "Withheld until you name it (--consent NAME)"),
    (Verdict.SECRET, "Secrets, which are not kept"),
    (Verdict.ELSEWHERE, "Said elsewhere in a deployment (--consent NAME takes it with --into)"),
    (Verdict.UNKNOWN, "Not taken, for the text does not say the value"),
    (Verdict.FOREIGN, "Not taken, for this release has nothing of the kind"),
    (Verdict.OVERRIDDEN, "Given again later in the same command"),
)
_MOST_SHOWN = 60


def render_import(imported: NoteImport) -> str:
    """The whole answer; ends with what to do where nothing was kept."""
    lines = [f"{visible(imported.source.where)} ({imported.source.date})", ""]
    lines += _commands(imported)
    if imported.engine:
        lines += _settings(imported)
    lines += [f"note: {visible(remark)}" for remark in imported.remarks]
    lines += ["", _ending(imported)]
    return "\n".join(_without_double_gaps(lines)) + "\n"


def _commands(imported: NoteImport) -> Iterator[str]:
    if not imported.commands:
        yield "No engine command stands in this text."
        yield ""
        return
    for command in imported.commands:
        if imported.chosen in (None, command.number):
            yield from _command(command)
    yield ""


def _command(command: NotedCommand) -> Iterator[str]:
    model = visible(command.model) or "a model that is not named"
    yield f"{command.number}. {command.title} for {model}, line {command.line} ({command.place})"
    yield f"     {visible(command.shown)}"
    told = [f"GPUs {command.gpus}"] if command.gpus else []
    told += [f"image {command.image}"] if command.image else []
    if told:
        yield f"     {visible(', '.join(told))}"
    for word in command.told:
        yield f"     around it, not taken: {visible(word)}"


def _settings(imported: NoteImport) -> Iterator[str]:
    yield f"Judged by the flags of {imported.engine} {imported.release}:"
    everything = (*imported.settings, *imported.loose)
    for verdict, title in _TITLES:
        yield from _group(title, [each for each in everything if each.verdict is verdict])
    left = [each for each in imported.loose if each.verdict is Verdict.LEFT]
    yield from _group("Named in sentences, not in the command (--take NAME takes it)", left)
    yield ""


def _group(title: str, settings: list[NotedSetting]) -> Iterator[str]:
    if not settings:
        return
    yield f"  {title}:"
    for each in settings[:_MOST_SHOWN]:
        yield f"    {visible(_phrase(each))}"
    if len(settings) > _MOST_SHOWN:
        yield f"    and {len(settings) - _MOST_SHOWN} more (--json tells all)"


def _phrase(noted: NotedSetting) -> str:
    sign = "=" if noted.kind == "env" else " "
    value = " ".join(noted.values)
    head = f"{noted.name}{sign}{value}" if noted.values else noted.name
    said = [f"written {noted.written}; {noted.renamed}"] if noted.renamed else []
    said += [noted.reason] if noted.reason else []
    if noted.variables:
        names = ", ".join(f"${name}" for name in dict.fromkeys(noted.variables))
        said.append(f"put in from {names} of the same text")
    line = f"line {noted.line}"
    return f"{head}  ({'; '.join([*said, line])})"


def _ending(imported: NoteImport) -> str:
    if imported.into:
        return (
            f"Wrote {visible(imported.into)}. Read it, then: stoker plan {visible(imported.into)}"
        )
    if imported.recipe:
        return (
            f"Kept as the recipe {visible(imported.recipe)}, untested.\n"
            f"To use it write into a deployment file: recipe: {visible(imported.recipe)}"
        )
    if imported.chosen is None and len(imported.commands) > 1:
        return "Several commands stand in this text: choose one with --command N."
    if imported.loose and not imported.commands:
        return "Nothing was taken: name what you want of the sentences with --take NAME."
    return "Nothing was taken."


def _without_double_gaps(lines: Iterable[str]) -> Iterator[str]:
    before = ""
    for line in lines:
        if line or before:
            yield line
        before = line
