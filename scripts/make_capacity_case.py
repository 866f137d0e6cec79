"""Make a case for the tests of capacity from the log of a real start.

Run by hand, where a model was started on a GPU that is in the table of GPUs:

    python -m scripts.make_capacity_case LOG CONFIG --to tests/capacity/recorded/h200 \\
        --gpu H200 --release 0.5.17 -- --mem-fraction-static 0.7

LOG is what the engine wrote, CONFIG the model's config.json, and behind ``--`` stand the flags as
they were given, all of them: what is not there counts as left to the engine. Writes
FOLDER/NAME.json, with the lines of the log that were read, and FOLDER/models/MODEL.json. With
``--answers``, a JSON object from paths to the texts that the server answered, the release and the
size of the draft model's cache come from there. It starts nothing. Look through what it writes
before it is kept; values with a path in them are left out.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from stoker.capacity.dimensions import read_shape
from stoker.capacity.free_memory import find_row_by_word
from stoker.capacity.inputs import Speculation
from stoker.capacity.settings import read_ranks, read_settings
from stoker.engines.reprs import parse_arguments
from stoker.engines.resolved import read_answer, read_resolved
from stoker.evaluate.capacity_flags import read_flags
from stoker.evaluate.logs import recognise
from stoker.knowledge.capacity import GIB
from stoker.knowledge.engines import engine_kinds
from stoker.knowledge.releases import load_table_for
from stoker.model.engine_table import EngineTable
from stoker.model.facts import Plain
from stoker.model.resolved import Resolved, ResolvedValue

GB = 10**9
#: What a case calls a value that the log tells, and the bytes of its unit (0: a count as it is).
LOGGED: Mapping[str, tuple[str, int]] = {
    "avail_before_weights_gib": ("free_before_weights_bytes", GIB),
    "avail_after_weights_gib": ("free_after_weights_bytes", GIB),
    "avail_after_pool_gib": ("free_after_cache_bytes", GIB),
    "available_gpu_mem_gib": ("free_bytes", GIB),
    "mem_fraction": ("memory_fraction", 0),
    "weights_gib": ("weight_bytes", GIB),
    "draft_weights_gib": ("draft_weight_bytes", GIB),
    "kv_tokens": ("kv_tokens", 0),
    "kv_gib": ("kv_bytes", GIB),
    "window_tokens": ("window_tokens", 0),
    "mamba_slots": ("state_slots", 0),
    "mamba_gib": ("state_bytes", GIB),
    "graph_gib": ("graph_bytes", GIB),
    "host_tokens": ("host_cache_tokens", 0),
    "host_gbdec": ("host_cache_bytes", GB),
    "max_running_requests": ("max_running_requests", 0),
    "context_len": ("context_tokens", 0),
    "available_kv_gib": ("kv_bytes", GIB),
}
#: Only one of the two engines tells the pool before it is made.
_OF_ONE_ENGINE = {"available_kv_gib": "vllm"}
_DECIMALS = 4
_NAME = re.compile(r"[a-z0-9][a-z0-9.-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """What a person hands in: texts, and the words that no log tells."""

    lines: tuple[str, ...]
    engine: str
    release: str
    gpu: str
    source: str
    flags: tuple[str, ...]
    answers: Mapping[str, Plain]


class UnfitError(Exception):
    """The recording is no case; the sentence says what is missing."""


def make_case(recording: Recording, *, model: str, draft: Mapping[str, Plain]) -> dict[str, Plain]:
    """The case as JSON; ``draft`` is the config of the model that drafts tokens. Raises
    UnfitError."""
    table = load_table_for(recording.engine, recording.release or None)
    told = read_resolved(recording.lines, table)
    if "kv_tokens" not in told.values:
        raise UnfitError("the log tells no tokens: it must be of a start that made its cache")
    answered = _read_answers(recording.answers, table)
    release = recording.release or _text(answered.get("engine_version"))
    if not release:
        raise UnfitError("the release is not told: name it with --release, or hand in --answers")
    flags = list_flags(recording.flags)
    read = read_flags(recording.engine, flags)
    ranks, settings = read_ranks(recording.engine, read), read_settings(recording.engine, read)
    share = settings.memory_share
    return {
        "source": recording.source,
        "engine": recording.engine,
        "version": release,
        "gpu": recording.gpu,
        "gpu_key": recording.gpu,
        "gpu_count": ranks.tensor * ranks.pipeline * ranks.replicas,
        "tp": ranks.tensor,
        "dp": max(ranks.replicas, ranks.attention_groups),
        "pp": ranks.pipeline,
        "ep": ranks.expert,
        "model": model,
        "config": model,
        "flags": flags,
        "inputs": {"mem_fraction_explicit": share is not None}
        | ({} if share is None else {"mem_fraction_static": share})
        | _describe_draft(settings.parts.speculation, draft),
        "logged": list_logged(told, answered),
        "partial": False,
        "log": trim_log(recording.lines, table),
    }


def list_flags(words: Iterable[str]) -> list[str]:
    """One entry for each flag with its values; those whose value has a path are left out."""
    entries: list[str] = []
    for word in words:
        if word.startswith("-") or not entries:
            entries.append(word)
        else:
            entries[-1] = f"{entries[-1]} {word}"
    return [entry for entry in entries if "/" not in entry]


def _describe_draft(
    speculation: Speculation | None, draft: Mapping[str, Plain]
) -> dict[str, Plain]:
    """How tokens are drafted, and the layers of the model that does it."""
    if speculation is None:
        return {}
    shape = read_shape(draft) if draft else None
    told: dict[str, Plain] = {"spec": speculation.kind}
    if speculation.tokens is not None:
        told["draft_tokens"] = speculation.tokens
    return told if shape is None else {**told, "draft_layers": shape.layers}


def list_logged(told: Resolved, answered: Mapping[str, ResolvedValue]) -> dict[str, Plain]:
    """What the log said, in a case's words; of several ranks the value that counts, and each."""
    rows = {
        name: row
        for name, row in LOGGED.items()
        if row[0] in told.values and _OF_ONE_ENGINE.get(name, told.engine) == told.engine
    }
    found = {name: _in_unit(told.values[ours].value, unit) for name, (ours, unit) in rows.items()}
    ranks = sorted({rank for value in told.values.values() for rank in value.by_rank})
    if len(ranks) > 1:
        found["by_rank"] = {rank: _of_rank(told, rows, rank) for rank in ranks}
    draft = _find_draft_cache(told, answered)
    return found | ({"draft_kv_gib": _in_unit(draft, GIB)} if draft is not None else {})


def _of_rank(told: Resolved, rows: Mapping[str, tuple[str, int]], rank: str) -> dict[str, Plain]:
    return {
        name: _in_unit(told.values[ours].by_rank[rank], unit)
        for name, (ours, unit) in rows.items()
        if rank in told.values[ours].by_rank
    }


def _find_draft_cache(told: Resolved, answered: Mapping[str, ResolvedValue]) -> int | None:
    """The log counts both caches, the server's own answer the target's alone."""
    if "draft_weight_bytes" not in told.values or "kv_bytes" not in answered:
        return None
    both, alone = told.values["kv_bytes"].value, answered["kv_bytes"].value
    if not isinstance(both, int) or not isinstance(alone, int):
        return None
    return both - alone


def _in_unit(value: Plain, unit: int) -> Plain:
    if not unit or not isinstance(value, (int, float)):
        return value
    return round(value / unit, _DECIMALS)


def _read_answers(answers: Mapping[str, Plain], table: EngineTable) -> dict[str, ResolvedValue]:
    found: dict[str, ResolvedValue] = {}
    for path, text in answers.items():
        if not any(row.path == path for row in table.log.answers):
            continue
        document = json.loads(text) if isinstance(text, str) else text
        for name, value in read_answer(document, path, table).items():
            found.setdefault(name, value)
    return found


def _text(value: ResolvedValue | None) -> str:
    return str(value.value) if value is not None else ""


def trim_log(lines: Iterable[str], table: EngineTable) -> list[str]:
    """The lines of the last start that tell a value; of the arguments those that are read."""
    kept: list[str] = []
    patterns = [re.compile(row.pattern) for row in table.log.resolved]
    for line in (piece for each in lines for piece in each.split("\r")):
        if re.search(table.log.begin, line):
            kept = []
        if shown := _trim_arguments(line, table):
            kept.append(shown)
        elif any(pattern.search(line) for pattern in patterns):
            kept.append(line.strip())
    return kept


def _trim_arguments(line: str, table: EngineTable) -> str:
    for row in table.log.arguments:
        found = re.search(row.pattern, line)
        if found is None:
            continue
        told = parse_arguments(found["arguments"])
        kept = {name: told[name] for name in row.values if _is_kept(told.get(name))}
        return f"{line[: found.start('arguments')]}{kept!r}"
    return ""


def _is_kept(value: Plain) -> bool:
    return value is not None and "/" not in str(value)


def read_recording(options: argparse.Namespace) -> Recording:
    """The files that the command line names. Raises OSError, ValueError and UnfitError."""
    lines = tuple(options.log.read_text("utf-8", "replace").splitlines())
    engine = options.engine
    if engine is None:
        found = recognise(lines)
        if found is None:
            raise UnfitError("no engine is known that writes such a log: name it with --engine")
        engine = found.engine
    if find_row_by_word(options.gpu) is None:
        raise UnfitError(f"the table of GPUs has no {options.gpu}: add its row first")
    answers = _read(options.answers) if options.answers else {}
    return Recording(
        lines=lines,
        engine=engine,
        release=options.release,
        gpu=options.gpu,
        source=options.source,
        flags=tuple(options.flags),
        answers=answers,
    )


def write_case(options: argparse.Namespace) -> Path:
    """Write what the command line asks for. Raises OSError, ValueError and UnfitError."""
    name = options.name or options.log.stem.lower().replace("_", "-")
    model = options.model or _name_model(options.config)
    config = _read(options.config)
    draft = _read(options.draft_config) if options.draft_config else {}
    for word in (name, model):
        if not _NAME.fullmatch(word):
            raise UnfitError(f"{word!r} is no name: small letters, digits, dots and dashes")
    case = {"id": name, **make_case(read_recording(options), model=model, draft=draft)}
    models = options.to / "models"
    models.mkdir(parents=True, exist_ok=True)
    _write(models / f"{model}.json", config)
    written: Path = options.to / f"{name}.json"
    _write(written, case)
    return written


def _name_model(config: Path) -> str:
    """A file's own name; of a config.json in a model's folder that of the folder."""
    return config.resolve().parent.name if config.name == "config.json" else config.stem


def _read(path: Path) -> dict[str, Plain]:
    found = json.loads(path.read_text("utf-8"))
    if not isinstance(found, dict):
        raise UnfitError(f"{path} is no config.json: it holds no object")
    return found


def _write(path: Path, document: Plain) -> None:
    path.write_text(f"{json.dumps(document, indent=1, ensure_ascii=False)}\n", "utf-8")


def main(arguments: list[str] | None = None) -> int:
    """Write one case; the status is 1 where the recording is none."""
    words = sys.argv[1:] if arguments is None else arguments
    here = words.index("--") if "--" in words else len(words)
    parser = argparse.ArgumentParser(description="make a case of capacity from a log")
    parser.add_argument("log", type=Path, help="what the engine wrote")
    parser.add_argument("config", type=Path, help="the model's config.json")
    parser.add_argument("--to", type=Path, required=True, help="the folder of cases")
    parser.add_argument("--gpu", required=True, help="the GPU, in a word of the table of GPUs")
    parser.add_argument("--release", default="", help="the engine's release")
    parser.add_argument("--engine", choices=engine_kinds(), help="as the log is recognised")
    parser.add_argument("--name", help="of the case; the log's own")
    parser.add_argument("--model", help="the name of its file; the config's own")
    parser.add_argument("--draft-config", type=Path, help="the draft model's config.json")
    parser.add_argument("--answers", type=Path, help="paths and the texts that were answered")
    parser.add_argument("--source", default="a start of our own", help="where the log is from")
    options = parser.parse_args(words[:here])
    options.flags = words[here + 1 :]
    try:
        written = write_case(options)
    except (OSError, ValueError, UnfitError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{written}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
