"""Reads the options of an engine's own argument parser, inside of the engine's environment.

Stoker runs this text with that environment's Python, 3.10 or newer, as the user that the service
has. It imports the engine, which takes seconds, and starts none. The only argument is a JSON
object:

    root     the engine's package, whose modules are told with their files
    make     addresses (module:name) of what makes an empty parser; the first one that is there
    fill     addresses of what gives it the options; may answer a parser of its own
    path     folders to import from before all others; maybe none
    stub     whether packages that are not there are made up, to read a parser of bare sources
    calm     addresses of functions whose ValueError is no matter; maybe none
    seconds  when to end at the latest, whoever still waits; maybe none
    trials   a file with a JSON list of lists of words, each to be tried on the parser; maybe none

The answer is one JSON object on the standard output: ``options``, ``files`` and ``results``; none
where the engine cannot be imported. Whatever the engine itself prints goes to the standard error,
and so does the fault.
"""

from __future__ import annotations

import argparse
import contextlib
import enum
import importlib
import importlib.abc
import importlib.machinery
import inspect
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import traceback
import types
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

#: Functions that read a value, by the word that says what they want.
READERS = {"loads": "json", "parse_dataclass": "json", "json_list_type": "json"}
PLAIN = (None, str, int, float)
#: How a reader of values may fail that was not written for a person's mistakes.
FAULTS = (
    *(ArithmeticError, AssertionError, AttributeError, ImportError, LookupError, OSError),
    *(RuntimeError, TypeError, ValueError, argparse.ArgumentError, argparse.ArgumentTypeError),
)
MOST_FILES = 4000
MOST_MADE_UP = 200
#: How Python says that a module lacks a name.
CANNOT_IMPORT = re.compile(
    r"cannot import name '(\w+)' from (?:partially initialized module )?'([\w.]+)'"
)
MOST_WORDS_SHOWN = 300
#: PR_SET_PDEATHSIG of prctl(2).
DIE_WITH_PARENT = 1


def main(text: str) -> dict[str, Any]:
    """The whole answer to one question."""
    asked = json.loads(text)
    limit(asked.get("seconds"))
    sys.path[:0] = asked.get("path", [])
    for address in asked.get("calm", []):
        calm(address)
    maker = Maker(asked["root"]) if asked.get("stub") else None
    if maker is not None:
        sys.meta_path.insert(0, maker)
        for addresses in (asked["make"], asked["fill"]):
            maker.supply(addresses)
    parser = find(asked["make"])()
    parser = find(asked["fill"])(parser) or parser
    return {
        "options": [describe(action, parser) for action in named(parser)],
        "files": list(list_files(asked["root"])),
        "results": [attempt(parser, words) for words in read_trials(asked.get("trials"))],
    }


def limit(seconds: int | None) -> None:
    """End with the one who asked, where the kernel can do that, and at the latest after a time."""
    if seconds is None:
        return
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(seconds)
    asker = os.getppid()
    with contextlib.suppress(ImportError, OSError, AttributeError):
        import ctypes  # some builds of Python lack it

        ctypes.CDLL(None).prctl(DIE_WITH_PARENT, signal.SIGKILL)
    if os.getppid() != asker:
        end()  # it was gone before the kernel was told


def calm(address: str) -> None:
    """Let a function pass where it complains of a value: of a name that is taken, for example."""
    module, _, path = address.partition(":")
    *places, name = path.split(".")
    holder: Any = importlib.import_module(module)
    for place in places:
        holder = getattr(holder, place)
    original = getattr(holder, name)

    def calmed(*given: Any, **named: Any) -> Any:
        with contextlib.suppress(ValueError):
            return original(*given, **named)

    setattr(holder, name, calmed)


def read_trials(path: str | None) -> list[list[str]]:
    """The lists of words of a file; none without one."""
    if not path:
        return []
    with open(path, encoding="utf-8") as file:
        trials: list[list[str]] = json.load(file)
        return trials


def find(addresses: Sequence[str]) -> Any:
    """The first of some addresses that is there."""
    for address in addresses:
        module, _, path = address.partition(":")
        try:
            found: Any = importlib.import_module(module)
        except ModuleNotFoundError as error:
            # Only the address itself may be missing: whatever it needs is a fault to be told.
            if error.name is None or not f"{module}.".startswith(f"{error.name}."):
                raise
            continue
        with contextlib.suppress(AttributeError):
            for name in path.split("."):
                found = getattr(found, name)
            return found
    raise LookupError("none of " + ", ".join(addresses) + " is there")


def named(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """The options of a parser, without those that print and end."""
    for action in parser._actions:
        if action.option_strings and not isinstance(action, argparse._HelpAction):
            yield action


def describe(action: argparse.Action, parser: argparse.ArgumentParser) -> dict[str, Any]:
    """One option as a row of a flag catalogue; what it does not say is left out."""
    names = spell_names(action, parser)
    row: dict[str, Any] = {"names": names, "argument": None, "type": "bool"}
    default, reason = spell(action.default)
    if default is not None:
        row["default"] = default
    if reason:
        row["unknown"] = {"default": reason}
    if is_deprecated(action, parser):
        row["deprecated_by"] = str(getattr(action, "new_flag", None) or "")
    if action.nargs != 0:
        row |= describe_values(action)
    return row


def spell_names(action: argparse.Action, parser: argparse.ArgumentParser) -> list[str]:
    """All names that the parser takes for an option, those behind that switch it off.

    Some parsers know more names than the option shows.
    """
    shown = list(action.option_strings)
    hidden = [
        name
        for name, other in parser._option_string_actions.items()
        if other is action and name not in shown
    ]
    negative = getattr(action, "negative_option_strings", ())
    names = [*shown, *hidden]
    ordered = sorted(names, key=lambda name: not name.startswith("--no-"))
    off = [name for name in ordered if name in negative or is_negative(name, names)]
    return [*(name for name in names if name not in off), *off]


def is_negative(name: str, names: Sequence[str]) -> bool:
    """Whether a name switches off what another one of the same option switches on."""
    return name.startswith("--no-") and f"--{name[5:]}" in names


def describe_values(action: argparse.Action) -> dict[str, Any]:
    """Which words an option takes behind its name."""
    inner = unwrap(action.type)
    word = type_word(inner)
    metavar = action.metavar
    is_short = isinstance(metavar, str) and len(metavar) <= 40
    row: dict[str, Any] = {"argument": metavar if is_short else word, "type": word}
    if action.nargs is not None:
        row["nargs"] = str(action.nargs)
    if isinstance(action, argparse._AppendAction):  # and _ExtendAction, which is one
        row["repeatable"] = True
    is_exact = action.nargs is None and inner in PLAIN
    also = ["None"] if is_exact and takes_none(action.type) else []
    if action.choices is not None:
        choices = action.choices
        listed = sorted(choices, key=str) if isinstance(choices, (set, frozenset)) else choices
        row["choices"] = [spelled(choice) for choice in listed]
        if also and None not in choices:  # the reader makes nothing of this word: it is no choice
            row["choices"] = [choice for choice in row["choices"] if choice != "None"]
        also = []
        if is_exact:
            row["kind"] = "choice"
    elif inner in (int, float) and is_exact:
        row["kind"] = "number"
    else:
        row |= suggest(metavar)
        also = []
    return row | ({"also": also} if also else {})


def unwrap(reader: Any) -> Any:
    """What reads a value behind functions that only let ``None`` through or word a complaint."""
    while isinstance(reader, types.FunctionType) and reader.__closure__:
        inner = inspect.getclosurevars(reader).nonlocals.get("return_type")
        if inner is None:
            break
        reader = inner
    return reader


def type_word(reader: Any) -> str:
    """A word for what turns a text into a value."""
    if reader is None:
        return "str"
    name = str(getattr(reader, "__name__", type(reader).__name__))
    return "str" if name == "<lambda>" else READERS.get(name, name)


def takes_none(reader: Any) -> bool:
    """Whether the text None is read as no value."""
    if reader in PLAIN:
        return False
    try:
        return bool(reader("None") is None)
    except (ValueError, TypeError, argparse.ArgumentTypeError):
        return False


def suggest(metavar: Any) -> dict[str, Any]:
    """The values that a help text names, where the parser takes others too."""
    if isinstance(metavar, (list, tuple)):
        return {"choices": [spelled(item) for item in metavar]}
    listed = re.match(r"\{([^{}]+)\}", metavar) if isinstance(metavar, str) else None
    return {"choices": listed[1].split(",")} if listed else {}


def is_deprecated(action: argparse.Action, parser: argparse.ArgumentParser) -> bool:
    """Whether the parser says so itself; a help text is not read here."""
    told = getattr(action, "deprecated", False) is True
    return (
        told
        or "Deprecated" in type(action).__name__
        or action in getattr(parser, "_deprecated", ())
    )


def spelled(value: Any) -> str:
    """A choice as a person writes it."""
    return str(value.value if isinstance(value, enum.Enum) else value)


def spell(value: Any) -> tuple[str | None, str]:
    """A default as a person would write it, or why that cannot be."""
    if isinstance(value, enum.Enum):
        value = value.value
    if value is None or value == argparse.SUPPRESS:
        return None, ""
    if isinstance(value, bool):
        return str(value).lower(), ""
    if isinstance(value, (str, int, float)):
        return str(value), ""
    if isinstance(value, (set, frozenset)):
        value = sorted(value, key=repr)
    try:
        return json.dumps(value, separators=(",", ":"), sort_keys=True), ""
    except (TypeError, ValueError):
        return None, f"an object of {type(value).__name__}"


def list_files(root: str) -> Iterator[list[Any]]:
    """The files of the engine's modules, each with its size and time: what the answer rests on."""
    paths = {
        path
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] == root and (path := getattr(module, "__file__", None))
    }
    for path in sorted(paths)[:MOST_FILES]:
        with contextlib.suppress(OSError):
            stat = os.stat(path)
            yield [path, stat.st_size, stat.st_mtime_ns]


def attempt(parser: argparse.ArgumentParser, words: Sequence[str]) -> str:
    """What the parser says against some words; empty if it takes them all."""
    said: list[str] = []

    def complain(message: str) -> Any:
        said.append(message)
        raise SystemExit(2)

    parser.error = complain  # type: ignore[method-assign]
    try:
        parser.parse_args(list(words))
    except SystemExit:
        return (said[-1] if said else "it ends")[:MOST_WORDS_SHOWN]
    except FAULTS as error:
        return f"{type(error).__name__}: {error}"[:MOST_WORDS_SHOWN]
    return ""


class Maker(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Makes packages up that an import cannot do without and nobody has installed.

    What is there is used, and what the engine only tries to import stays missing; of the engine's
    own package nothing is made up but its compiled parts.
    """

    def __init__(self, root: str) -> None:
        self.root = root
        self.made: set[str] = set()

    def supply(self, addresses: Sequence[str]) -> None:
        """Import the addresses, each time with one thing more that was missing."""
        for _ in range(MOST_MADE_UP):
            try:
                find(addresses)
            except ModuleNotFoundError as error:
                if error.name is None or not self.may_make(error.name):
                    raise
                self.made.add(error.name)
            except ImportError as error:
                missing = CANNOT_IMPORT.match(str(error))
                module = sys.modules.get(missing[2]) if missing else None
                if missing is None or module is None or missing[2].startswith(self.root):
                    raise
                setattr(module, missing[1], type(missing[1], (Nothing,), {}))
            else:
                return

    def may_make(self, name: str) -> bool:
        """Whether a module is another's, or a compiled part of the engine."""
        top, last = name.partition(".")[0], name.rpartition(".")[2]
        is_compiled = top == self.root and last.startswith("_")
        return is_compiled or top not in (self.root, *sys.stdlib_module_names)

    def find_spec(
        self, name: str, path: Any = None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        """See :class:`importlib.abc.MetaPathFinder`."""
        if not any(f"{name}.".startswith(f"{made}.") for made in self.made):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        """See :class:`importlib.abc.Loader`."""
        return MadeUp(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """See :class:`importlib.abc.Loader`."""


class MadeUp(types.ModuleType):
    """A module in which every name is a class that does nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made = type(name, (Nothing,), {})
        setattr(self, name, made)
        return made


class NothingType(type):
    """Classes of which every attribute is another one of them."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (Nothing,), {})


class Nothing(metaclass=NothingType):
    """Takes any call, and answers with itself or what it was given."""

    def __init__(self, *_given: Any, **_named: Any) -> None:
        """Takes anything."""

    def __call__(self, *given: Any, **_named: Any) -> Any:
        """As a decorator it leaves what it decorates as it is."""
        is_decorated = len(given) == 1 and callable(given[0])
        return given[0] if is_decorated else self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing()

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __bool__(self) -> bool:
        return False


def use_own_folder(names: Iterable[str]) -> str:
    """A home of its own: engines make caches in it while they are imported."""
    folder = tempfile.mkdtemp(prefix="stoker-flags-")
    for name in names:
        os.environ[name] = folder
    return folder


def end(*fault: Any) -> None:
    """End at once, with the fault on the standard error: what was imported may have threads."""
    if fault:
        traceback.print_exception(*fault)
    shutil.rmtree(home, ignore_errors=True)
    sys.stderr.flush()
    os._exit(1 if fault else 0)


if __name__ == "__main__":
    kept = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    home = use_own_folder(("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"))
    sys.excepthook = end
    kept.write(json.dumps(main(sys.argv[1])))
    kept.close()
    end()
