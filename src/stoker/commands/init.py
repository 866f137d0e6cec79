"""`stoker init MODEL`: a commented deployment file for this machine and a model."""

from __future__ import annotations

import json
import posixpath
import re
from dataclasses import dataclass

from stoker.commands.facts import read_facts
from stoker.commands.folders import absolute_path
from stoker.commands.world import World
from stoker.errors import UsageError
from stoker.knowledge.engines import engine_kinds
from stoker.model.deployment import MODEL_PATTERN, NAME_PATTERN
from stoker.model.facts import Facts, Plain, Unknown
from stoker.model.units import format_bytes
from stoker.ports import Host
from stoker.spec import (
    deployment_schema,
    load_embedded_example,
    parse_deployment,
    render_template,
)

SCHEMA_FILE = "stoker.schema.json"
FILE_MODE = 0o644
#: What a deployment file has when it names no port.
FIRST_PORT = 30000


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The two files that were written."""

    path: str
    schema: str


def init_deployment(
    world: World, *, model: str | None, engine: str | None, output: str, name: str | None
) -> Written:
    """Write the file, and the schema for editors beside it.

    What is not named is taken from the embedded example.
    Raises UsageError when the file is there already, SpecError when the model or the engine is
    none.
    """
    path = absolute_path(output)
    example = parse_deployment(load_embedded_example(), "", engine_kinds=engine_kinds())
    model, engine = model or example.model.ref, engine or example.engine.kind
    _check_options(model, engine, name)
    if world.host.stat(path) is not None:
        raise UsageError(f"{output} is there already", "choose another with --output FILE")
    if world.host.stat(posixpath.dirname(path)) is None:
        raise UsageError(f"the folder of {output} is not there", "make it first")
    facts = read_facts(world)
    values: dict[str, Plain] = {
        "name": name or suggest_name(model),
        "model": model,
        "engine.kind": engine,
        "gpus": "all" if _has_gpus(facts) else "none",
        "serve.port": _free_port(facts),
    }
    if not world.supervisor.properties.starts_on_boot:
        values["service.on_boot"] = False
    text = render_template(
        values, schema_path=f"./{SCHEMA_FILE}", notes=_notes(facts), engine_kinds=engine_kinds()
    )
    parse_deployment(text, output, engine_kinds=engine_kinds())
    schema = posixpath.join(posixpath.dirname(path), SCHEMA_FILE)
    world.host.write_file(path, text.encode(), FILE_MODE)
    _write_schema(world.host, schema)
    return Written(path=output, schema=schema)


def _check_options(model: str, engine: str, name: str | None) -> None:
    """Raises UsageError for an option that no deployment file could hold, naming the option."""
    kinds = engine_kinds()
    if engine not in kinds:
        raise UsageError(f"--engine {engine}: there is no such engine", f"there are: {kinds[0]}")
    if not re.fullmatch(MODEL_PATTERN.strip("^$"), model):
        raise UsageError(
            f"{model} does not name a model",
            "hf:ORG/NAME@REVISION, path:/absolute/path or package:NAME[==VERSION]",
        )
    if name is not None and not re.fullmatch(NAME_PATTERN.strip("^$"), name):
        raise UsageError(
            f"--name {name}: a name has lower case letters, digits and dashes, at most 40"
        )


def _free_port(facts: Facts) -> int:
    """The first port from the usual one on that nothing listens to."""
    listeners = facts.read("listeners.listeners")
    known = () if isinstance(listeners, Unknown) else listeners
    taken = {listener["port"] for listener in known}
    return next(port for port in range(FIRST_PORT, 65536) if port not in taken)


def suggest_name(model: str) -> str:
    """A deployment's name from a model reference: its last part in lower case letters."""
    reference = re.split(r"[@=]", model.partition(":")[2] or model)[0]
    last = re.sub(r"\.gguf$", "", posixpath.basename(reference.rstrip("/")), flags=re.IGNORECASE)
    name = re.sub(r"[^a-z0-9]+", "-", last.lower()).strip("-")[:40].strip("-")
    return name or "model"


def _write_schema(host: Host, path: str) -> None:
    text = json.dumps(deployment_schema(engine_kinds()), indent=2, ensure_ascii=False) + "\n"
    host.write_file(path, text.encode(), FILE_MODE)


def _has_gpus(facts: Facts) -> bool:
    gpus = facts.read("gpus.gpus")
    return not isinstance(gpus, Unknown) and bool(gpus)


def _notes(facts: Facts) -> list[str]:
    """What was found on the machine and matters for the choice of a model."""
    notes = []
    memory = facts.read("memory.usable_bytes")
    if not isinstance(memory, Unknown):
        notes.append(f"This machine has {format_bytes(memory)} of memory free.")
    gpus = facts.read("gpus.gpus")
    if isinstance(gpus, Unknown):
        notes.append(f"Its GPUs could not be read: {gpus.reason}.")
    elif gpus:
        names = sorted({str(gpu.get("name")) for gpu in gpus})
        notes.append(f"It has {len(gpus)} GPUs: {', '.join(names)}.")
    else:
        notes.append("It has no GPU that serves models.")
    return notes
