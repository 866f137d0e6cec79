"""From a running server to the deployment that would start it again. Pure.

What the engine's table has a place for becomes a key of the deployment, everything else a setting
or a variable under its own name, secrets become files. What cannot be said in a deployment is an
obstacle where the result would be another server, and a note where it would not.
"""

from __future__ import annotations

import ipaddress
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from stoker.knowledge.variables import Variables
from stoker.model.comparison import Flag
from stoker.model.deployment_fields import is_secret_name
from stoker.model.engine_table import EngineTable, Option, ReservedFlag
from stoker.model.facts import Plain
from stoker.model.visible import visible
from stoker.planning.command_line import anchor, is_negative, known_default, own_name
from stoker.planning.sides import (
    KEY_FILE_KEY,
    LIBRARY_PATH,
    Reading,
    ReadText,
    Start,
    collect_keys,
    drop_own_libraries,
    key_file_flag,
    split_keys,
)

#: Rows of an engine's table that are keys of a deployment, and nothing else may set them.
_MODEL_ROWS = {"model_path": "model", "draft_path": "draft"}
_SERVING_ROWS = {"host", "port", "published_name"}

_FLAG_NAME = re.compile(r"--[A-Za-z0-9][A-Za-z0-9_.-]*")
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PUBLISHED_NAME = re.compile(r"[^\s,]{1,200}")
#: What no file of ours carries on: a terminal could take it for a command.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_HUB_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*/[A-Za-z0-9_][A-Za-z0-9._-]*")
_USER_NAME = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
#: As many digits as a number can have and still be written back as it was.
_MOST_DIGITS = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What is known beside the process itself.

    ``environment`` is the deployment's ``engine.environment``. ``listening``: address and port of
    its socket; ``published_name``: the name that it answers under; both None where that could not
    be found out. ``user``: whom the service is to run as, None for whoever runs Stoker.
    ``secrets_folder``: where the files for secrets will lie.
    """

    name: str
    environment: str
    listening: tuple[str, int] | None = None
    published_name: str | None = None
    user: str | None = None
    on_boot: bool = True
    secrets_folder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretText:
    """A secret that goes into a file of its own: what it is for, the file, and its content."""

    label: str
    path: str
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A deployment in the making: values by dotted path, and what is to be said about it.

    ``left_out`` are variables that were not taken over, by name.
    """

    values: Mapping[str, Plain] = field(default_factory=dict)
    settings: Mapping[str, Plain] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    secret_env: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[SecretText, ...] = ()
    notes: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    obstacles: tuple[str, ...] = ()

    def as_deployment(self) -> dict[str, Plain]:
        """The values as the nested mapping that a deployment is made from."""
        whole: dict[str, Plain] = {}
        for path, value in self.values.items():
            part = whole
            *groups, key = path.split(".")
            for group in groups:
                part = part.setdefault(group, {})
            part[key] = value
        engine = whole.setdefault("engine", {})
        for key in ("settings", "env", "secret_env"):
            if inner := getattr(self, key):
                engine[key] = dict(inner)
        return whole


def draft_deployment(
    start: Start,
    reading: Reading,
    table: EngineTable,
    *,
    circumstances: Circumstances,
    variables: Variables,
    read_text: ReadText,
) -> Draft:
    """Everything of the server in its most literal form; see :mod:`stoker.planning.lifting`."""
    keys, flags = split_keys(reading, table, read_text)
    hidden = [flag for flag in flags if flag.values and _is_secret(flag, table, variables)]
    plain = [flag for flag in flags if flag not in hidden]
    parts = [
        Draft(values=_constants(circumstances, table)),
        _draft_serving(plain, table, circumstances),
        _draft_models(plain, table),
        _draft_settings(plain, table),
        _draft_keys(keys, table, reading, circumstances, read_text=read_text),
        *(_draft_secret_flag(flag, table, circumstances) for flag in hidden),
        _draft_variables(start, table, circumstances, variables),
        Draft(notes=tuple(_overridden(reading)), obstacles=tuple(_loose(reading))),
    ]
    return _together(parts)


def _together(parts: Sequence[Draft]) -> Draft:
    return Draft(
        values={path: value for part in parts for path, value in part.values.items()},
        settings={name: value for part in parts for name, value in part.settings.items()},
        env={name: value for part in parts for name, value in part.env.items()},
        secret_env={name: path for part in parts for name, path in part.secret_env.items()},
        secrets=tuple(secret for part in parts for secret in part.secrets),
        notes=tuple(note for part in parts for note in part.notes),
        left_out=tuple(name for part in parts for name in part.left_out),
        obstacles=tuple(obstacle for part in parts for obstacle in part.obstacles),
    )


def _constants(circumstances: Circumstances, table: EngineTable) -> dict[str, Plain]:
    values: dict[str, Plain] = {
        "name": circumstances.name,
        "engine.kind": table.kind,
        "engine.environment": circumstances.environment,
    }
    service: dict[str, Plain] = {}
    if circumstances.user is not None and _USER_NAME.fullmatch(circumstances.user):
        service["service.user"] = circumstances.user
    if not circumstances.on_boot:
        service["service.on_boot"] = False
    return {**values, **service}


# Address, port and name.


def _draft_serving(
    flags: Sequence[Flag], table: EngineTable, circumstances: Circumstances
) -> Draft:
    given = {row: _value(flags, table, row) for row in _SERVING_ROWS}
    values: dict[str, Plain] = {}
    notes: list[str] = []
    obstacles: list[str] = []
    host = _choose_host(given["host"], circumstances) or (
        _default_host(table) if given["host"] is None else None
    )
    if host is None:
        obstacles.append(
            f"it listens on {visible(given['host'] or 'no address that can be seen')}, and a "
            "deployment listens on one numeric address"
        )
    else:
        values["serve.host"] = host
    port = _choose_port(given["port"], circumstances)
    if port is None:
        obstacles.append("the port that it listens on could not be found out")
    else:
        values["serve.port"] = port
    name = circumstances.published_name or (given["published_name"] or "").split(",")[0]
    if _PUBLISHED_NAME.fullmatch(name) and name.isprintable():
        values["serve.published_name"] = name
    else:
        notes.append(
            "the name that it publishes could not be found out or has blanks in it; the new server "
            f"will publish {circumstances.name}"
        )
    if "," in (given["published_name"] or ""):
        notes.append(
            "it publishes several names, and a deployment has one: "
            f"{visible(given['published_name'] or '')}"
        )
    return Draft(values=values, notes=tuple(notes), obstacles=tuple(obstacles))


def _choose_host(given: str | None, circumstances: Circumstances) -> str | None:
    """What was asked for if it is an address, else what the name that was asked for became."""
    if given is not None and _is_address(given):
        return given
    if given is not None and not re.fullmatch(r"[A-Za-z0-9.-]+", given):
        return None  # several addresses, or the path of a socket
    return circumstances.listening[0] if circumstances.listening else None


def _default_host(table: EngineTable) -> str | None:
    option = _find(table, _name_of(table, "host"))
    default = known_default(option) if option else None
    return default if default and _is_address(default) else None


def _choose_port(given: str | None, circumstances: Circumstances) -> int | None:
    if circumstances.listening:
        return circumstances.listening[1]
    is_port = given is not None and given.isascii() and given.isdecimal() and 0 < int(given) < 65536
    return int(given) if given is not None and is_port else None


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


# Weights.


def _draft_models(flags: Sequence[Flag], table: EngineTable) -> Draft:
    values: dict[str, Plain] = {}
    obstacles: list[str] = []
    for row, key in _MODEL_ROWS.items():
        text = _value(flags, table, row)
        if text is None:
            continue
        reference = _reference(text)
        if reference is None:
            obstacles.append(f"the {key} {visible(text)} is neither a path nor a name in the hub")
        else:
            values[key] = reference
    if "model" not in values and not obstacles:
        obstacles.append(
            "its weights are not named by their path on this machine; start it with the file that "
            "it has downloaded, or write a deployment with `stoker init`"
        )
    return Draft(values=values, obstacles=tuple(obstacles))


def _reference(text: str) -> str | None:
    if text.startswith("/") and text.isprintable():
        return f"path:{posixpath.normpath(text)}"
    return f"hf:{text}" if _HUB_NAME.fullmatch(text) else None


# Flags.


def _draft_settings(flags: Sequence[Flag], table: EngineTable) -> Draft:
    """All that no key of the deployment is for."""
    owned = {_name_of(table, row) for row in (*_MODEL_ROWS, *_SERVING_ROWS)}
    reserved = {_own_name(table, row.flag): row for row in table.reserved}
    settings: dict[str, Plain] = {}
    obstacles: list[str] = []
    for flag in (flag for flag in flags if flag.name not in owned):
        option = _find(table, flag.name)
        if flag.is_off and flag.variable and option and not _has_opposite(option):
            continue  # the variable leaves the flag out
        if flag.name in reserved:
            if not _is_at_default(flag, option):
                obstacles.append(_explain_reserved(flag, reserved[flag.name]))
            continue
        problem = _problem_with(flag, option)
        if problem:
            obstacles.append(problem)
            continue
        name = setting_name(flag, option)
        settings[name] = _gather(settings.get(name), flag)
    return Draft(settings=settings, obstacles=tuple(obstacles))


def _gather(before: Plain, flag: Flag) -> Plain:
    """The value of a setting; a list where every use of a flag counts."""
    value: Plain = typed(flag.values[0]) if flag.values else True
    if before is None:
        return value
    return [*(before if isinstance(before, list) else [before]), value]


def setting_name(flag: Flag, option: Option | None) -> str:
    """The name under ``engine.settings``: the long one, of the same sense as what was written."""
    if option is None:
        return flag.spelled.lstrip("-")
    long = [name for name in option.names if name.startswith("--")]
    alike = [name for name in long if is_negative(option, name) == flag.is_off]
    return next(iter(alike), flag.name).lstrip("-")


def typed(text: str) -> int | float | str:
    """The number that a text is, if it would be written back as the very same text."""
    if re.fullmatch(r"-?\d+", text) and len(text) <= _MOST_DIGITS and str(int(text)) == text:
        return int(text)
    if re.fullmatch(r"-?\d+\.\d+", text) and len(text) <= _MOST_DIGITS:
        number = float(text)
        return number if format(Decimal(repr(number)), "f") == text else text
    return text


def _problem_with(flag: Flag, option: Option | None) -> str:
    """Why a flag cannot be a setting; empty if it can."""
    spelled = visible(flag.spelled)
    if option is None and not _FLAG_NAME.fullmatch(flag.spelled):
        return f"{spelled} is a flag that Stoker does not know and could not write as it stands"
    if len(flag.values) > 1:
        return f"{spelled} takes {len(flag.values)} words, and a setting holds one"
    if not all(map(_is_text, flag.values)):
        return f"{spelled} has a value that is not text (bytes that are not UTF-8, or controls)"
    if is_secret_name(setting_name(flag, option)):
        return f"{spelled} is named like a secret, which does not belong into a deployment file"
    return ""


def _has_opposite(option: Option) -> bool:
    return any(is_negative(option, name) for name in option.names)


def _explain_reserved(flag: Flag, row: ReservedFlag) -> str:
    instead = f"{row.key} stands for it" if row.key else "Stoker cannot run the engine with it"
    return f"{visible(flag.spelled)}: {instead} ({row.reason})"


def _is_at_default(flag: Flag, option: Option | None) -> bool:
    default = known_default(option) if option else None
    return default is not None and flag.values == (default,)


def _overridden(reading: Reading) -> Iterator[str]:
    for flag in reading.overridden:
        yield f"{visible(flag.spelled)} is given several times; the last one counts"


def _loose(reading: Reading) -> Iterator[str]:
    if count := len(reading.loose):
        yield f"{count} of its words belong to no flag that Stoker knows"


# Secrets.


def _draft_keys(
    keys: Sequence[Flag],
    table: EngineTable,
    reading: Reading,
    circumstances: Circumstances,
    *,
    read_text: ReadText,
) -> Draft:
    """API keys: the owner's own file where there is one, else a file of their own."""
    is_plain = not reading.grammar.key_entry and len(keys) == 1
    if is_plain and keys[0].name == key_file_flag(table, reading.grammar) and keys[0].values:
        return Draft(values={KEY_FILE_KEY: keys[0].values[0]})
    found = collect_keys(keys, table, reading.grammar, read_text)
    if found is None:
        return Draft(obstacles=("the file with its API keys cannot be read",))
    if not found:
        return Draft()
    problem = next(filter(None, (_problem_with_secret("an API key", key) for key in found)), "")
    if problem:
        return Draft(obstacles=(problem,))
    path = posixpath.join(circumstances.secrets_folder, f"{circumstances.name}-api-key")
    secret = SecretText(label="API key", path=path, text="".join(f"{key}\n" for key in found))
    return Draft(values={KEY_FILE_KEY: path}, secrets=(secret,))


def _draft_secret_flag(flag: Flag, table: EngineTable, circumstances: Circumstances) -> Draft:
    """A flag with a secret behind it, which the engine also reads from a variable."""
    option = _find(table, flag.name)
    if not any(flag.values):
        return Draft()
    if option is None or option.env is None or len(flag.values) != 1:
        text = f"{visible(flag.spelled)} has a secret on the command line, and no variable for it"
        return Draft(obstacles=(text,))
    return _draft_secret_variable(option.env, flag.values[0], circumstances)


def _draft_secret_variable(name: str, value: str, circumstances: Circumstances) -> Draft:
    problem = _problem_with_secret(visible(name), value)
    if problem:
        return Draft(obstacles=(problem,))
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    path = posixpath.join(circumstances.secrets_folder, f"{circumstances.name}-{slug}")
    secret = SecretText(label=name, path=path, text=f"{value}\n")
    return Draft(secret_env={name: path}, secrets=(secret,))


def _problem_with_secret(label: str, value: str) -> str:
    """Why a secret cannot be handed over by a file of one line; empty if it can."""
    if not _is_text(value):
        return f"{label} is not text (bytes that are not UTF-8, or controls)"
    if value != value.strip() or len(value.splitlines()) != 1:
        return f"{label} has blanks around it or several lines, which no file of one line holds"
    return ""


def _is_secret(flag: Flag, table: EngineTable, variables: Variables) -> bool:
    option = _find(table, flag.name)
    names = option.names if option else (flag.spelled,)
    # An empty one is no secret, and no setting either.
    value = " ".join(flag.values) or "empty"
    return any(variables.is_secret(name.lstrip("-"), value) for name in (*names, flag.variable))


# Variables.


def _draft_variables(
    start: Start, table: EngineTable, circumstances: Circumstances, variables: Variables
) -> Draft:
    """What an engine reads; the rest is named where it is not every login's."""
    for_flags = {option.env for option in table.catalogue.options if option.env}
    env: dict[str, str] = {}
    secrets: list[Draft] = []
    left_out: list[str] = []
    for name, value in sorted(start.env.items()):
        if variables.is_own(name) or name in for_flags:
            continue
        if not variables.matters(name) or not _VARIABLE_NAME.fullmatch(name):
            left_out += [] if variables.is_usual(name) else [visible(name)]
        elif variables.is_secret(name, value):
            secrets.append(_draft_secret_variable(name, value, circumstances))
        elif not _is_text(value) or is_secret_name(name):
            left_out.append(visible(name))
        else:
            env |= _kept(name, value, start, variables)
    return _together([Draft(env=env, left_out=tuple(left_out)), *secrets])


def _kept(name: str, value: str, start: Start, variables: Variables) -> dict[str, str]:
    """The variable as a deployment keeps it; none where the launcher itself made it."""
    kept = drop_own_libraries(value, start) if name == LIBRARY_PATH else value
    if value and not kept:
        return {}
    if variables.holds_paths(name):
        kept = ":".join(anchor(part, start.directory) for part in kept.split(":"))
    return {name: kept}


# The engine's table.


def _value(flags: Iterable[Flag], table: EngineTable, row: str) -> str | None:
    """What the flags say about a row of the table; several uses with commas between."""
    name = _name_of(table, row)
    values = [value for flag in flags if flag.name == name for value in flag.values if value]
    return ",".join(values) if values else None


def _name_of(table: EngineTable, row: str) -> str:
    """The own name of the flag of a row, empty if the table has none."""
    found = table.settings.get(row)
    # What is one entry of a flag's object is said by the whole flag.
    return _own_name(table, found.flag) if found and not found.entry else ""


def _own_name(table: EngineTable, flag: str) -> str:
    option = table.catalogue.find(flag)
    return own_name(option) if option else flag


def _find(table: EngineTable, name: str) -> Option | None:
    return next((each for each in table.catalogue.options if own_name(each) == name), None)


def _is_text(value: str) -> bool:
    """Whether it can stand in a file: UTF-8 without control characters, line ends apart."""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return _CONTROL.search(value) is None
