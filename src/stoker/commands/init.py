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
from stoker.knowledge.engines import engine_kinds, load_engine_table
from stoker.model.deployment_fields import MODEL_PATTERN, NAME_PATTERN
from stoker.model.facts import Facts, Plain, Unknown
from stoker.model.units import format_bytes
from stoker.ports import Host
from stoker.probes.model import parse_model, read_model
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
class Wish:
    """What the person asked for; None is left to us."""

    model: str | None = None
    engine: str | None = None
    environment: str | None = None
    name: str | None = None
    output: str = "deployment.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The two files that were written."""

    path: str
    schema: str


def init_deployment(world: World, wish: Wish) -> Written:
    """Write the file, and the schema for editors beside it.

    What is not named is taken from the embedded example. Raises UsageError when the file is there
    already, when the model is not, or when no engine could load it; SpecError for an environment
    that is none.
    """
    output, path = wish.output, absolute_path(wish.output)
    example = parse_deployment(load_embedded_example(), "", engine_kinds=engine_kinds())
    model, engine = wish.model or example.model.ref, wish.engine or example.engine.kind
    _check_options(model, engine, wish.name)
    _check_engine(world.host, model, engine, wish)
    if world.host.stat(path) is not None:
        raise UsageError(f"{output} is there already", "choose another with --output FILE")
    if world.host.stat(posixpath.dirname(path)) is None:
        raise UsageError(f"the folder of {output} is not there", "make it first")
    facts = read_facts(world)
    values: dict[str, Plain] = {
        "name": wish.name or suggest_name(model),
        "model": model,
        "engine.kind": engine,
        **({"engine.environment": wish.environment} if wish.environment else {}),
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
        raise UsageError(
            f"--engine {engine}: there is no such engine", f"there are: {', '.join(kinds)}"
        )
    if not re.fullmatch(MODEL_PATTERN.strip("^$"), model):
        raise UsageError(
            f"{model} does not name a model",
            "hf:ORG/NAME@REVISION, path:/absolute/path or package:NAME[==VERSION]",
        )
    if name is not None and not re.fullmatch(NAME_PATTERN.strip("^$"), name):
        raise UsageError(
            f"--name {name}: a name has lower case letters, digits and dashes, at most 40"
        )


def _check_engine(host: Host, model: str, engine: str, wish: Wish) -> None:
    """Raises UsageError for a model that is not there, or that this engine does not load."""
    table = load_engine_table(engine)
    kind, _, path = model.partition(":")
    if kind == "path":
        found = parse_model(read_model(host, path))
        shape = found["format"]
        if shape == "missing":
            raise UsageError(f"there is nothing at {path}", "name the model's file or folder")
        if shape == "unknown":
            raise UsageError(f"no model is seen at {path}: {found['reason']}")
        if shape not in table.formats:
            raise UsageError(
                f"the model is {shape}, and {table.title} loads {' or '.join(table.formats)}",
                _suggest_engines(shape),
            )
    if table.embedded is None and wish.environment is None:
        raise UsageError(
            f"Stoker installs no {table.title} itself",
            "name yours: --environment path:/the/virtual/environment, or system",
        )


def _suggest_engines(shape: str) -> str:
    """Which engines load this format, as options."""
    able = [kind for kind in engine_kinds() if shape in load_engine_table(kind).formats]
    options = " or ".join(f"--engine {kind}" for kind in able)
    return f"take {options}, with --environment path:/the/virtual/environment" if able else ""


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
