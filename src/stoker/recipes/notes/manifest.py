"""Compose files, Kubernetes manifests and an engine's own file of settings.

Called by :mod:`stoker.recipes.notes.read`. What a compose file or a cluster would put in is
unknown, unless the same manifest says it plainly.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from stoker.knowledge.notes import load_note_forms
from stoker.model.facts import Plain
from stoker.recipes.notes.budget import current_budget
from stoker.recipes.notes.excerpt import Excerpt, Found, join_excerpts
from stoker.recipes.notes.invocation import Invocation, find_invocations, invoke
from stoker.recipes.notes.settings_file import read_settings
from stoker.recipes.notes.shell import Command, Word, bound_word, read_commands
from stoker.recipes.notes.text import harmless, mark
from stoker.recipes.yaml import UnreadableYaml, read_yaml

#: The YAML library needs seconds for more, and a manifest has a few hundred lines.
MAX_CHARACTERS = 1 << 18
MAX_DOCUMENTS = 64
_DOCUMENT = re.compile(r"^---(?:[ \t].*)?$", re.MULTILINE)
_GAP = re.compile(r"\$\$|\$\{[^}]*\}?|\$[A-Za-z_]\w*|\$\([^)]*\)?|\{\{.*?\}\}|`[^`]*`?")
_IN_CLUSTER = re.compile(r"\$\(([A-Za-z_]\w*)\)")
_TOLD = (
    "shm_size",
    "ipc",
    "ulimits",
    "network_mode",
    "runtime",
    "volumes",
    "env_file",
    "privileged",
)


def read_manifest(text: str, first_line: int = 1, *, kind: str | None = None) -> Excerpt:
    """The servers that the documents of a text start. ``kind``: the engine of a settings file."""
    if len(text) > MAX_CHARACTERS:
        return Excerpt(remarks=(f"YAML of more than {MAX_CHARACTERS >> 10} KiB is not read",))
    parts = []
    for line, document in _documents(text, first_line):
        try:
            data = read_yaml(document)
        except UnreadableYaml as error:
            parts.append(Excerpt(remarks=(f"YAML from line {line} on: {error.sentence}",)))
            continue
        if isinstance(data, Mapping):
            parts.append(_read_document(data, document, line, kind))
    return join_excerpts(parts)


def _documents(text: str, first_line: int) -> Iterator[tuple[int, str]]:
    begin = 0
    for count, found in enumerate(_DOCUMENT.finditer(text)):
        if text[begin : found.start()].strip():
            yield first_line + text[:begin].count("\n"), text[begin : found.start()]
        begin = found.end()
        if count >= MAX_DOCUMENTS:
            return
    if text[begin:].strip():
        yield first_line + text[:begin].count("\n"), text[begin:]


def _read_document(
    data: Mapping[str, Plain], document: str, line: int, kind: str | None
) -> Excerpt:
    if isinstance(data.get("services"), Mapping):
        found = [*_compose(data["services"], document, line)]
        return Excerpt(found=tuple(found))
    if "apiVersion" in data and "kind" in data:
        return Excerpt(found=tuple(_cluster(data, document, line)))
    return read_settings(data, line, kind=kind)


def _line_of(name: str, document: str, line: int) -> int:
    found = re.search(rf"^[ \t-]*{re.escape(name)}[\"']?:", document, re.MULTILINE)
    return line + document[: found.start()].count("\n") if found else line


def _text(value: Plain) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (Mapping, list)):
        return harmless(json.dumps(value, separators=(",", ":"), ensure_ascii=False))
    return "" if value is None else harmless(str(value))


def _gaps(text: str, reason: str) -> str:
    return _GAP.sub(lambda found: mark(found[0], reason), text)


# Compose.


def _compose(services: Mapping[str, Plain], document: str, line: int) -> Iterator[Found]:
    for name, raw in services.items():
        service = _merged(raw)
        words = _compose_words(service)
        env = dict(_compose_variables(service.get("environment")))
        command = Command(words=words, env=env, line=_line_of(name, document, line))
        for each in find_invocations(command):
            yield _found(each, f"service {harmless(name)}", service, gpus=_compose_gpus(service))


def _found(each: Invocation, place: str, service: Mapping[str, Any], *, gpus: str) -> Found:
    told = [f"{key}: {_text(service[key])}" for key in _TOLD if key in service]
    worn = Invocation(
        server=each.server,
        command=each.command,
        image=_text(service.get("image")),
        gpus=gpus or each.gpus,
        told=(*each.told, *told),
    )
    return Found(invocation=worn, place=place, line=each.command.line)


def _merged(raw: Plain) -> Mapping[str, Plain]:
    """A mapping with what ``<<`` puts beneath it."""
    if not isinstance(raw, Mapping):
        return {}
    below = raw.get("<<")
    parts = below if isinstance(below, list) else [below]
    merged: dict[str, Plain] = {}
    for part in reversed(parts):
        merged |= _merged(part)
    return {**merged, **{key: value for key, value in raw.items() if key != "<<"}}


def _compose_words(service: Mapping[str, Plain]) -> tuple[Word, ...]:
    entry, words = (_compose_list(service.get(key)) for key in ("entrypoint", "command"))
    if entry:
        return (*entry, *words)
    image = _text(service.get("image"))
    return invoke(words, {}, image=image, line=0).words


def _compose_list(value: Plain) -> tuple[Word, ...]:
    """A list of words, or a text that is taken apart as a shell would, but by no shell."""
    if isinstance(value, str):
        commands = read_commands(harmless(value).replace("\\\n", " ").replace("\n", " "))
        return commands[0].words if commands else ()
    items = value if isinstance(value, list) else []
    return tuple(Word(text=_gaps(_text(each), "compose puts it in")) for each in items)


def _compose_variables(value: Plain) -> Iterator[tuple[str, Word]]:
    if isinstance(value, Mapping):
        pairs = [(name, None if given is None else _text(given)) for name, given in value.items()]
    else:
        texts = [_text(each) for each in value] if isinstance(value, list) else []
        split = [text.partition("=") for text in texts]
        pairs = [(name, given if sign else None) for name, sign, given in split]
    for name, given in pairs:
        if given is None:
            yield name, Word(text=mark(name, "whoever runs compose has its value"))
        else:
            yield name, Word(text=_gaps(given, "compose puts it in"))


def _compose_gpus(service: Mapping[str, Plain]) -> str:
    if "gpus" in service:
        return _text(service["gpus"])
    value: Plain = service
    for key in ("deploy", "resources", "reservations", "devices"):
        value = value.get(key) if isinstance(value, Mapping) else None
    devices = (
        [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []
    )
    for device in devices:
        ids = device.get("device_ids")
        if isinstance(ids, list):
            return f"device={','.join(map(_text, ids))}"
        if "count" in device:
            return _text(device["count"])
    return ""


# Kubernetes.


def _cluster(data: Mapping[str, Plain], document: str, line: int) -> Iterator[Found]:
    for container in _containers(data):
        variables = dict(_cluster_variables(container.get("env")))
        words = _cluster_words(container, variables)
        name = _text(container.get("name"))
        place = _line_of("containers", document, line)
        command = Command(words=words, env=variables, line=place)
        for each in find_invocations(command):
            yield _found(each, f"container {name}", container, gpus=_cluster_gpus(container))


def _containers(data: Plain) -> Iterator[Mapping[str, Plain]]:
    """The items of every list ``containers``, however deep it lies."""
    if isinstance(data, Mapping):
        for key, value in data.items():
            if key == "containers" and isinstance(value, list):
                yield from (each for each in value if isinstance(each, Mapping))
            else:
                yield from _containers(value)
    elif isinstance(data, list):
        for value in data:
            yield from _containers(value)


def _cluster_words(
    container: Mapping[str, Plain], variables: Mapping[str, Word]
) -> tuple[Word, ...]:
    command, arguments = (
        tuple(_cluster_word(_text(each), variables) for each in _list(container.get(key)))
        for key in ("command", "args")
    )
    if command:
        return (*command, *arguments)
    return invoke(arguments, {}, image=_text(container.get("image")), line=0).words


def _list(value: Plain) -> Sequence[Plain]:
    return value if isinstance(value, list) else ()


def _cluster_word(text: str, variables: Mapping[str, Word]) -> Word:
    """``$(NAME)`` is put in by the cluster; a script keeps its dollars for its own shell."""
    names: list[str] = []

    def put(found: re.Match[str]) -> str:
        value = variables.get(found[1])
        if value is None:
            return mark(found[0], "the cluster puts it in, or a shell runs it")
        if not current_budget().put_in(len(value.text)):
            return mark(found[0], "it is too long")
        names.append(found[1])
        return value.text

    is_script = bool(re.search(r"\s", text.strip()))
    done = text if is_script else _IN_CLUSTER.sub(put, text)
    if not is_script and not names:
        done = _gaps(done, "nobody puts it in here") if "\x00" not in done else done
    return Word(text=bound_word(done), variables=tuple(dict.fromkeys(names)))


def _cluster_variables(value: Plain) -> Iterator[tuple[str, Word]]:
    for row in _list(value):
        if isinstance(row, Mapping) and isinstance(row.get("name"), str):
            name = harmless(row["name"])
            if "value" in row:
                yield name, Word(text=_gaps(_text(row["value"]), "the cluster puts it in"))
            else:
                yield name, Word(text=mark(name, "the cluster has its value"))


def _cluster_gpus(container: Mapping[str, Plain]) -> str:
    resources = container.get("resources")
    for key in ("limits", "requests"):
        part = resources.get(key) if isinstance(resources, Mapping) else None
        for name in load_note_forms().gpus.resource:
            if isinstance(part, Mapping) and name in part:
                return _text(part[name])
    return ""
