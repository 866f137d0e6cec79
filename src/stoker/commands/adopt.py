"""`stoker adopt`: a server that somebody started by hand becomes a deployment file.

It reads the process, writes the file and the files for secrets beside it, and touches nothing
that runs. What cannot be said in a deployment is said to the person; if the result would be
another server, nothing is written.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from stoker.commands.compared import find_table
from stoker.commands.drafting import Taken, read_as, settle
from stoker.commands.engine_flags import find_version
from stoker.commands.folders import absolute_path
from stoker.commands.init import suggest_name
from stoker.commands.placing import place_files
from stoker.commands.processes import (
    check_foreign,
    choose_server,
    find_environment,
    look_at,
    start_of_process,
)
from stoker.commands.supervising import choose_kind, using
from stoker.commands.world import World
from stoker.errors import Blocked, EndpointError, UsageError
from stoker.knowledge.engines import engine_kinds
from stoker.model.adoption import AdoptedSecret, Adoption
from stoker.model.comparison import Comparison, Difference
from stoker.model.contract import Request
from stoker.model.deployment import Deployment
from stoker.model.deployment_fields import NAME_PATTERN
from stoker.model.process import RunningProcess
from stoker.model.visible import visible
from stoker.planning.adoption import Circumstances, Draft
from stoker.planning.compare import SECRET
from stoker.planning.sides import collect_keys, read_start, split_keys
from stoker.probes.process import OWN_MOUNTS
from stoker.spec import parse_deployment, render_deployment
from stoker.state.documents import list_deployments

SECRETS_FOLDER = "secrets"
_ASKING_SECONDS = 5.0
#: Shorter texts stand in files by chance.
_SECRET_CHARACTERS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What was asked for: a process, a port or neither; and how the file shall be called.

    ``engine`` is the kind of a server under a name that nobody knows.
    """

    pid: int | None = None
    port: int | None = None
    engine: str | None = None
    name: str | None = None
    output: str | None = None


def adopt_server(world: World, wish: Wish) -> Adoption:
    """Write a deployment file for a running server.

    Raises UsageError where it is not clear which server, where it is none that can be taken over,
    or where a file is in the way, and Blocked where the deployment would be another server.
    """
    _check_wish(wish)
    taken = _take(world, wish)
    circumstances = _circumstances(world, taken, wish)
    output = wish.output or f"{circumstances.name}.yaml"
    path = absolute_path(output)
    circumstances = replace(
        circumstances, secrets_folder=posixpath.join(posixpath.dirname(path), SECRETS_FOLDER)
    )
    draft, comparison = settle(world, taken, circumstances)
    deployment = Deployment.model_validate(draft.as_deployment())
    text = f"{_header(taken)}{render_deployment(deployment)}"
    _check_text(text, deployment, draft)
    place_files(
        world.host, path, text, {secret.path: secret.text for secret in draft.secrets}, me=world.me
    )
    return _adoption(world, taken, draft, comparison, file=output)


def _check_wish(wish: Wish) -> None:
    if wish.pid is not None and wish.port is not None:
        raise UsageError("a server has a --pid or a --port to be found by, not both", "name one")
    if wish.engine is not None and wish.engine not in engine_kinds():
        known = ", ".join(engine_kinds())
        raise UsageError(f"--engine {wish.engine}: there is no such engine", f"there are: {known}")
    if wish.name is not None and not re.fullmatch(NAME_PATTERN.strip("^$"), wish.name):
        raise UsageError(
            f"--name {visible(wish.name)}: this cannot be the name of a deployment",
            "a name has lower case letters, digits and dashes inside, at most 40",
        )


def _take(world: World, wish: Wish) -> Taken:
    candidate = choose_server(world, pid=wish.pid, port=wish.port, kind=wish.engine)
    check_foreign(candidate)
    process = look_at(world.host, candidate.pid)
    _check_place(process)
    kind = candidate.server.kind
    table = find_table(kind, find_version(world.host, kind, process.argv))
    if table is None:
        raise UsageError(
            f"process {process.pid} is a server of {candidate.server.title}, which Stoker "
            "recognises and cannot yet run, so it cannot be written as a deployment",
            f"`stoker diff pid:{process.pid} OTHER` compares it with another",
        )
    start = start_of_process(world.host, process, kind=kind)
    reading = read_start(start, table)
    return Taken(candidate=candidate, process=process, start=start, reading=reading, table=table)


def _check_place(process: RunningProcess) -> None:
    if process.elsewhere in ("", OWN_MOUNTS):
        return
    raise UsageError(
        f"process {process.pid} runs in {visible(process.elsewhere)}, so the paths on its command "
        "line are not those of this machine",
        "only a server that runs on the machine itself can be taken over; for one in a container "
        "write a deployment with `stoker init`",
    )


def _circumstances(world: World, taken: Taken, wish: Wish) -> Circumstances:
    started = taken.reading.server.started
    listening = _choose_listening(taken)
    published = _ask_published_name(world, taken, listening)
    name = wish.name or suggest_name(f"served:{published or _named(taken) or 'model'}")
    if name in list_deployments(world.host, world.folders):
        raise UsageError(
            f"there is a deployment named {name} already", "choose another name with --name NAME"
        )
    return Circumstances(
        name=name,
        environment=find_environment(world.host, taken.process, started, taken.table.command),
        listening=listening,
        published_name=published,
        user=taken.process.user if world.is_root else None,
        on_boot=using(world, choose_kind(world)).supervisor.properties.starts_on_boot,
        secrets_folder="",
    )


def _choose_listening(taken: Taken) -> tuple[str, int] | None:
    """The socket of the server itself: the one on the port that it was told, or its only one."""
    row = taken.table.settings.get("port")
    named = {
        value
        for flag in taken.reading.flags
        if row and flag.name == row.flag
        for value in flag.values
    }
    sockets = taken.candidate.listening
    told = [socket for socket in sockets if str(socket[1]) in named]
    found = told or list(sockets)
    return found[0] if len({port for _, port in found}) == 1 else None


def _named(taken: Taken) -> str | None:
    """What the command line calls the model: its published name, else its path."""
    for row in ("published_name", "model_path"):
        flag_name = taken.table.settings[row].flag if row in taken.table.settings else ""
        for flag in taken.reading.flags:
            if flag.name == flag_name and flag.values:
                return flag.values[0].split(",")[0]
    return None


def _ask_published_name(
    world: World, taken: Taken, listening: tuple[str, int] | None
) -> str | None:
    """The first name in /v1/models; None for a server that does not answer, or not so."""
    if listening is None:
        return None
    read = read_as(world, taken.process)
    keys, _ = split_keys(taken.reading, taken.table, read)
    found = collect_keys(keys, taken.table, taken.reading.grammar, read)
    try:
        endpoint = world.connect(*listening, next(iter(found or ()), None))
    except (UsageError, EndpointError):
        return None
    request = Request(method="GET", path="/v1/models", timeout_seconds=_ASKING_SECONDS)
    try:
        name = json.loads(endpoint.exchange(request).body)["data"][0]["id"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    return name if isinstance(name, str) and name else None


# What is refused, and what is written.


def _header(taken: Taken) -> str:
    title = taken.candidate.server.title or taken.table.title
    return (
        f"# Written by `stoker adopt` from process {taken.process.pid}, a server of {title} that "
        "was started by hand.\n# `stoker diff` compares this file with what runs.\n"
    )


def _check_text(text: str, deployment: Deployment, draft: Draft) -> None:
    """The file says what was meant, and no secret stands in it."""
    if parse_deployment(text, "the file", engine_kinds=engine_kinds()) != deployment:
        raise Blocked("the deployment cannot be written as a file that reads the same", (), "")
    for secret in draft.secrets:
        for line in secret.text.splitlines():
            if len(line) >= _SECRET_CHARACTERS and line in text:
                raise Blocked(
                    f"the secret of {visible(secret.label)} stands in another place as well",
                    (),
                    "nothing was written; start the server with the secret in one place alone",
                )


def _adoption(
    world: World, taken: Taken, draft: Draft, comparison: Comparison, *, file: str
) -> Adoption:
    secrets = [line for secret in draft.secrets for line in secret.text.splitlines()]
    notes = (*taken.candidate.notes, *_notes(world, taken), *draft.notes)
    return Adoption(
        file=file,
        name=str(draft.values["name"]),
        engine=taken.table.kind,
        pid=taken.process.pid,
        process=taken.process.identity,
        unit=visible(taken.process.unit),
        secrets=tuple(
            AdoptedSecret(label=visible(each.label), file=each.path) for each in draft.secrets
        ),
        differences=tuple(_scrubbed(each, secrets) for each in comparison.differences),
        left_out=draft.left_out,
        notes=tuple(_scrub(note, secrets) for note in notes),
    )


def _notes(world: World, taken: Taken) -> list[str]:
    process, notes = taken.process, []
    if process.is_replaced:
        notes.append("its program was replaced or removed since it was started")
    if process.elsewhere:
        notes.append(f"it has {visible(process.elsewhere)}; its paths may mean other files here")
    if process.unit:
        notes.append(
            f"it is the systemd service {visible(process.unit)}, which would be started again: "
            f"`systemctl disable --now {visible(process.unit)}` before the new one is applied"
        )
    if process.processors:
        notes.append(
            f"it is held to the processors {visible(process.processors)}, which no deployment says"
        )
    if world.is_root and process.user.isdecimal():
        notes.append(f"its user, number {process.user}, has no name, so the file names none")
    return notes


def _scrubbed(difference: Difference, secrets: Sequence[str]) -> Difference:
    return replace(
        difference,
        a=None if difference.a is None else _scrub(difference.a, secrets),
        b=None if difference.b is None else _scrub(difference.b, secrets),
        note=_scrub(difference.note, secrets),
    )


def _scrub(text: str, secrets: Sequence[str]) -> str:
    """The text without any secret, wherever it may come from."""
    for secret in (each for each in secrets if len(each) >= _SECRET_CHARACTERS):
        text = text.replace(secret, SECRET)
    return text
