"""A host that answers from a recording, on any machine: how a bundle is diagnosed at a desk.

Made by the command layer from what :mod:`stoker.hosts.recording` wrote. It can only be read, and
it invents nothing: what was never recorded does not exist.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from types import UnionType
from typing import TypeVar

from stoker.errors import AccessDenied, HostError, NoSpace, NotFound
from stoker.hosts.recording import KINDS, SCHEMA, portable_argv
from stoker.model.facts import Plain
from stoker.ports import Command, CommandResult, Stat

_ERRORS = {kind.__name__: kind for kind in (HostError, NotFound, AccessDenied, NoSpace)}

Entry = Mapping[str, Plain]
_Value = TypeVar("_Value", Stat, CommandResult)

#: What an entry of each kind must say about its question, and which answers it may give.
_QUESTIONS: Mapping[str, Mapping[str, type]] = {
    "texts": {"path": str, "limit_bytes": int},
    "bytes": {"path": str, "offset": int, "length": int},
    "commands": {"name": str},
    "runs": {"argv": list},
}
_ANSWERS: Mapping[str, type | UnionType] = {
    "texts": str,
    "bytes": str,
    "folders": list,
    "links": str,
    "stats": dict | None,
    "free": int,
    "commands": str | None,
    "runs": dict,
}
#: Of the fields of Stat and CommandResult, as their annotations name them.
_FIELD_TYPES = {"str": str, "int": int, "bool": bool}


class ReplayHost:
    """The reading half of a host as it was when it was recorded.

    A shorter read of a recorded file is answered from the longer one. Raises HostError for data
    that is not a recording.
    """

    def __init__(self, recording: Mapping[str, Plain]) -> None:
        if recording.get("schema") != SCHEMA or not isinstance(recording.get("host"), str):
            raise HostError(f"this is not a recording of the schema {SCHEMA}")
        self._name: str = recording["host"]
        self._reads = {kind: _index(kind, recording.get(kind, [])) for kind in KINDS}

    @property
    def name(self) -> str:
        """The name of the host that was recorded."""
        return self._name

    def read_text(self, path: str, limit_bytes: int = 1 << 20) -> str:
        """See :meth:`stoker.ports.ReadableHost.read_text`."""

        def is_enough(entry: Entry) -> bool:
            is_whole = len(_encode(entry.get("answer", ""))) < entry["limit_bytes"]
            return is_whole or bool(entry["limit_bytes"] >= limit_bytes)

        text: str = self._find("texts", path, is_enough)["answer"]
        return _encode(text)[:limit_bytes].decode("utf-8", "replace")

    def read_bytes(self, path: str, offset: int, length: int) -> bytes:
        """See :meth:`stoker.ports.ReadableHost.read_bytes`."""

        def spans(entry: Entry) -> bool:
            begin, end = entry["offset"], entry["offset"] + entry["length"]
            return bool(begin <= offset and offset + length <= end)

        entry = self._find("bytes", path, spans)
        try:
            content = base64.b64decode(entry["answer"], validate=True)
        except ValueError as error:  # binascii.Error is one too
            raise HostError(f"the recording of {path} is damaged") from error
        begin = offset - entry["offset"]
        return content[begin : begin + length]

    def list_folder(self, path: str) -> tuple[str, ...]:
        """See :meth:`stoker.ports.ReadableHost.list_folder`."""
        return tuple(self._find("folders", path)["answer"])

    def read_link(self, path: str) -> str:
        """See :meth:`stoker.ports.ReadableHost.read_link`."""
        text: str = self._find("links", path)["answer"]
        return text

    def stat(self, path: str) -> Stat | None:
        """See :meth:`stoker.ports.ReadableHost.stat`."""
        found = self._find("stats", path)["answer"]
        return None if found is None else _build(Stat, found)

    def free_bytes(self, path: str) -> int:
        """See :meth:`stoker.ports.ReadableHost.free_bytes`."""
        count: int = self._find("free", path)["answer"]
        return count

    def find_command(self, name: str) -> str | None:
        """See :meth:`stoker.ports.ReadableHost.find_command`."""
        path: str | None = self._find("commands", name)["answer"]
        return path

    def run(self, command: Command, poll: Callable[[], None] | None = None) -> CommandResult:
        """The recorded result of the same argument vector; nothing runs and nothing is polled."""
        result = self._find("runs", portable_argv(command.argv))["answer"]
        return _build(CommandResult, {**result, "argv": command.argv})

    def _find(
        self,
        kind: str,
        subject: str | tuple[str, ...],
        fits: Callable[[Entry], bool] = lambda _: True,
    ) -> Entry:
        """The entry that answers the question; a recorded error, or NotFound, is raised."""
        for entry in self._reads[kind].get(subject, ()):
            if "error" in entry:
                raise _recorded_error(entry["error"])
            if fits(entry):
                return entry
        words = subject if isinstance(subject, str) else " ".join(subject)
        raise NotFound(f"the recording of {self._name} has nothing about {words}")


def _index(kind: str, entries: Plain) -> Mapping[str | tuple[str, ...], Sequence[Entry]]:
    """The entries of one kind by what they are about."""
    index: dict[str | tuple[str, ...], list[Entry]] = {}
    for entry in entries if isinstance(entries, list) else [entries]:
        if not _is_entry(kind, entry):
            raise HostError(f"this recording is damaged: {str(entry)[:80]} is no entry of {kind}")
        subject = next(entry[name] for name in ("path", "name", "argv") if name in entry)
        index.setdefault(tuple(subject) if kind == "runs" else subject, []).append(entry)
    return index


def _is_entry(kind: str, entry: Plain) -> bool:
    if not isinstance(entry, Mapping):
        return False
    question = _QUESTIONS.get(kind, {"path": str})
    if not all(isinstance(entry.get(name), wanted) for name, wanted in question.items()):
        return False
    if "error" in entry:
        return isinstance(entry["error"], Mapping) and _holds_words(entry.get("argv"))
    if "answer" not in entry or not isinstance(entry["answer"], _ANSWERS[kind]):
        return False
    return _holds_words(entry.get("argv")) and _holds_words(entry["answer"])


def _holds_words(value: Plain) -> bool:
    """Whether a list is one of texts; anything else is not looked into."""
    return not isinstance(value, list) or all(isinstance(word, str) for word in value)


def _build(kind: type[_Value], values: Mapping[str, Plain]) -> _Value:
    """A value from its recorded fields. Raises HostError for missing, odd or mistyped ones."""
    wanted = {field.name: _FIELD_TYPES.get(str(field.type), tuple) for field in fields(kind)}
    if values.keys() != wanted.keys():
        raise HostError(f"this recording is damaged: it has other fields than a {kind.__name__}")
    if not all(isinstance(values[name], type_) for name, type_ in wanted.items()):
        raise HostError(f"this recording is damaged: a field of a {kind.__name__} is mistyped")
    return kind(**values)


def _recorded_error(error: Mapping[str, Plain]) -> HostError:
    kind = _ERRORS.get(str(error.get("kind")), HostError)
    return kind(str(error.get("summary", "")), str(error.get("hint", "")))


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
