"""The known estimators on the very same cases: their errors beside Stoker's.

Called by :mod:`stoker.evaluate.capacity` with ``--rivals``. Each is installed into a folder of its
own and asked all cases in one child process, by :mod:`stoker.evaluate.capacity_rivals_ask`. Of each
tool and question: how many cases it answered, its errors, and Stoker's on exactly these.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import tomllib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from functools import lru_cache, partial
from pathlib import Path

from ruamel.yaml import YAML

from stoker.capacity.fraction import default_share
from stoker.capacity.free_memory import find_row, total_mib
from stoker.capacity.inputs import Inputs
from stoker.errors import HostError
from stoker.evaluate.capacity_answers import Answer, find_percentile
from stoker.evaluate.capacity_cases import is_file
from stoker.evaluate.rivals import Package, install, last_line
from stoker.hosts.local import LocalHost
from stoker.knowledge.capacity import load_vllm, need_row
from stoker.model.facts import Plain
from stoker.ports import Command
from stoker.report.table import render_table

_ASKING = Path(__file__).with_name("capacity_rivals_ask.py")
_ASK_SECONDS = 180.0
_CONTEXT_TOKENS = 8192
#: Of llama.cpp the tokens are told and the bytes are found, which none of the tools predicts.
_ENGINES = ("sglang", "vllm")
_CASE_FILES = (".yaml", ".yml", ".json")
#: How a collection of cases calls types of weights, and how a config.json does.
_METHODS = (
    ("nvfp4", {"quant_method": "modelopt", "quant_algo": "NVFP4"}),
    ("mxfp4", {"quant_method": "mxfp4"}),
    ("fp8", {"quant_method": "fp8"}),
    ("int4", {"quant_method": "awq", "bits": 4, "group_size": 128}),
)


_OURS = ("STOKER'S MEDIAN", "P95", "REFUSED")
_NUMBER_TYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rival:
    """An estimator. ``asked``: how, in a sentence; ``questions`` that it has an answer to."""

    name: str
    version: str
    module: str
    questions: str
    asked: str


@lru_cache
def load_rivals() -> tuple[Rival, ...]:
    """Those that are run."""
    names = [field.name for field in fields(Rival)]
    return tuple(Rival(**{name: row[name] for name in names}) for row in _load()["rival"])


def _load() -> dict[str, Plain]:
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))


@lru_cache
def _load_model_types() -> dict[str, str]:
    return {row["architecture"]: row["word"] for row in _load()["model_type"]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One tool, one engine, one question. Errors are fractions; None where nothing was answered.

    ``ours_refused``: of what the tool answered, how often Stoker gave no figure.
    """

    tool: str
    engine: str
    question: str
    answered: int
    refused: int
    median: float | None
    p95: float | None
    ours_median: float | None
    ours_p95: float | None
    ours_refused: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """All tools that were asked, their most frequent refusals, and those that could not run."""

    rows: tuple[Row, ...]
    refusals: Mapping[str, Mapping[str, int]]
    not_run: tuple[str, ...]


def compare(answers: Sequence[Answer], folder: Path, models: Path) -> Compared:
    """Ask every tool the whole cases that Stoker was asked."""
    asked = [answer for answer in answers if answer.case.is_whole and _can_ask(answer)]
    configs = {name: read_config(folder, name, models) for name in {each.case.id for each in asked}}
    known = [answer for answer in asked if configs[answer.case.id] is not None]
    asks = [make_ask(answer, configs[answer.case.id] or {}) for answer in known]
    rows: list[Row] = []
    refusals: dict[str, dict[str, int]] = {}
    not_run: list[str] = []
    with ThreadPoolExecutor(max_workers=len(load_rivals())) as pool:
        told = list(pool.map(partial(ask_all, asks=asks), load_rivals()))
    for rival, (found, reason) in zip(load_rivals(), told, strict=True):
        if found is None:
            not_run.append(reason)
            continue
        rows += sum_up(rival, known, found)
        refusals[rival.name] = _count_refusals(found)
    return Compared(rows=tuple(rows), refusals=refusals, not_run=tuple(not_run))


def _can_ask(answer: Answer) -> bool:
    """Of question a only what tells the pool: none of the tools takes free memory."""
    inputs = answer.case.question(answer.question)
    if inputs is None or answer.case.tokens is None or inputs.engine not in _ENGINES:
        return False
    return inputs.readings.pool_bytes is not None or answer.question in ("b", "c")


def ask_all(
    rival: Rival, asks: Sequence[dict[str, Plain]]
) -> tuple[list[dict[str, Plain]] | None, str]:
    """Its answers, or why there are none."""
    check = ("-c", f"import {rival.module}")
    python, reason = install(Package(name=rival.name, version=rival.version, check=check))
    if not python:
        return None, reason
    wanted = [ask for ask in asks if ask["question"] in rival.questions]
    command = Command(
        argv=(python, str(_ASKING), rival.name),
        timeout_seconds=_ASK_SECONDS,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
        stdin=json.dumps(wanted),
    )
    try:
        ran = LocalHost().run(command)
        if ran.exit_status:
            return None, f"{rival.name}: not run ({last_line(ran.stderr)})"
        found = iter(json.loads(ran.stdout))
    except HostError as error:
        return None, f"{rival.name}: not run ({error.summary})"
    except ValueError:
        return None, f"{rival.name}: not run (its answers could not be read)"
    none: dict[str, Plain] = {}
    return [next(found) if ask["question"] in rival.questions else none for ask in asks], ""


def sum_up(
    rival: Rival, answers: Sequence[Answer], found: Sequence[Mapping[str, Plain]]
) -> list[Row]:
    """The rows of one tool: ``found`` are its answers, one for each of ours."""
    rows = []
    pairs = list(zip(answers, found, strict=True))
    for engine in sorted({answer.case.engine for answer in answers}):
        for question in rival.questions:
            here = [
                (answer, told)
                for answer, told in pairs
                if (answer.case.engine, answer.question) == (engine, question)
            ]
            if here:
                rows.append(_make_row((rival.name, engine, question), here))
    return rows


def _make_row(of: tuple[str, str, str], here: Sequence[tuple[Answer, Mapping[str, Plain]]]) -> Row:
    given = [
        (answer, min(told["tokens"], answer.case.inputs.settings.most_tokens or math.inf))
        for answer, told in here
        if "tokens" in told
    ]
    theirs = [abs(tokens / (answer.case.tokens or 1) - 1) for answer, tokens in given]
    ours = [abs(answer.error) for answer, _ in given if answer.error is not None]
    return Row(
        tool=of[0],
        engine=of[1],
        question=of[2],
        answered=len(given),
        refused=len(here) - len(given),
        median=statistics.median(theirs) if theirs else None,
        p95=find_percentile(theirs, 0.95) if theirs else None,
        ours_median=statistics.median(ours) if ours else None,
        ours_p95=find_percentile(ours, 0.95) if ours else None,
        ours_refused=len(given) - len(ours),
    )


def _count_refusals(found: Sequence[Mapping[str, Plain]]) -> dict[str, int]:
    """Its own words and how often, the most frequent first."""
    counts: dict[str, int] = {}
    for told in found:
        if "refused" in told:
            counts[told["refused"]] = counts.get(told["refused"], 0) + 1
    return dict(sorted(counts.items(), key=lambda item: -item[1]))


def read_config(folder: Path, name: str, models: Path) -> dict[str, Plain] | None:
    """The model's config.json with the type of weights that the case ran; None: there is none."""
    paths = (folder / f"{name}{suffix}" for suffix in _CASE_FILES)
    path = next(each for each in paths if each.is_file())
    case = YAML(typ="safe").load(path.read_text("utf-8"))
    file = models / f"{str(case.get('config')).removesuffix('.json')}.json"
    if not is_file(file):
        return None
    config = {
        key: value
        for key, value in json.loads(file.read_text("utf-8")).items()
        if not key.startswith("_")
    }
    own = config.pop("quantization", None) or config.pop("quantization_config", None)
    said = case.get("inputs") or {}
    kind = said.get("quant") if "arguments" not in case else None
    method = own if "arguments" in case else None
    for word, made in _METHODS:
        if isinstance(kind, str) and word in kind:
            # The model's own table tells more, where it is of this type.
            method = own if isinstance(own, Mapping) and word in str(own).lower() else made
            break
    config.setdefault("model_type", _find_model_type(config))
    number_type = (
        said.get("weight_dtype")
        or _NUMBER_TYPES.get(kind or "")
        or config.get("torch_dtype")
        or config.get("dtype")
    )
    config["torch_dtype"] = number_type or "bfloat16"
    config["_name_or_path"] = str(case["config"]).replace("__", "/", 1)
    return config if method is None else {**config, "quantization_config": method}


def _find_model_type(config: Mapping[str, Plain]) -> str:
    names = config.get("architectures") or [""]
    return _load_model_types().get(names[0], "")


def make_ask(answer: Answer, config: Mapping[str, Plain]) -> dict[str, Plain]:
    """One case and question as :mod:`stoker.evaluate.capacity_rivals_ask` reads it."""
    inputs = answer.case.question(answer.question)
    if inputs is None:
        raise ValueError(f"case {answer.case.id} cannot be asked {answer.question}")
    ranks, batch, drafting = (
        inputs.ranks,
        inputs.settings.parts.batch,
        inputs.settings.parts.speculation,
    )
    row = find_row(inputs.gpus[0])
    mib = total_mib(inputs.gpus[0])
    return {
        "question": answer.question,
        "model": config["_name_or_path"],
        "config": config,
        "engine": inputs.engine,
        "gpu": inputs.gpus[0].key or "",
        "has_fabric": row is not None and row.fabric,
        # Question a needs no GPU; what a tool says of one there is not looked at.
        "total_bytes": int((mib or 1 << 30) * (1 << 20)),
        "share": _find_share(inputs, mib) or 0.9,
        "ranks": {
            "tp": ranks.tensor,
            "pp": ranks.pipeline,
            "ep": ranks.expert,
            "dcp": ranks.context,
            "groups": ranks.attention_groups,
        },
        "kv_type": inputs.settings.kv_type or str(config["torch_dtype"]),
        "context_tokens": _find_context(inputs, config),
        "step_tokens": batch.batch_tokens or batch.chunk_tokens,
        "requests": batch.requests,
        "draft_tokens": (drafting.tokens or 0) if drafting is not None else 0,
        "pool_bytes": inputs.readings.pool_bytes,
        "weight_bytes": inputs.readings.weight_bytes,
    }


def _find_context(inputs: Inputs, config: Mapping[str, Plain]) -> int:
    limit = config.get("max_position_embeddings")
    return inputs.settings.context_tokens or (limit if isinstance(limit, int) else _CONTEXT_TOKENS)


def _find_share(inputs: Inputs, mib: float | None) -> float | None:
    """What the case says, else the default of the engine's release: the tools are told it."""
    if inputs.settings.memory_share is not None:
        return inputs.settings.memory_share
    if inputs.engine == "vllm":
        return need_row(load_vllm().share, inputs.release).share
    return default_share(inputs, mib) if inputs.engine == "sglang" and mib else None


def render(compared: Compared) -> str:
    """The table, how each was asked, and what was not run."""
    head = ("TOOL", "ENGINE", "Q", "ANSWERED", "REFUSED", "MEDIAN", "P95", *_OURS)
    rows = [
        (
            *(row.tool, row.engine, row.question, str(row.answered), str(row.refused)),
            *map(_percent, (row.median, row.p95, row.ours_median, row.ours_p95)),
            str(row.ours_refused),
        )
        for row in compared.rows
    ]
    lines = [
        "",
        "The same cases by other tools, and Stoker on exactly those that the tool answered.",
        "Question a here: the pool of vLLM's log is given, the tool's bytes of a token are tried.",
        render_table(head, rows),
        *(f"{rival.name} {rival.version}: {rival.asked}" for rival in load_rivals()),
        "",
        *(line for tool in compared.refusals for line in _render_refusals(tool, compared)),
        "",
        *compared.not_run,
        *(f"{row['name']}: not run ({row['reason']})" for row in _load()["not_asked"]),
    ]
    return "\n".join(lines) + "\n"


def _render_refusals(tool: str, compared: Compared) -> list[str]:
    most = list(compared.refusals[tool].items())[:3]
    return [f"{tool} refused {count}: {reason}" for reason, count in most]


def describe(compared: Compared) -> dict[str, Plain]:
    """The same as plain data."""
    rows = [
        {name: getattr(row, name) for name in Row.__dataclass_fields__} for row in compared.rows
    ]
    asked = {rival.name: f"{rival.version}: {rival.asked}" for rival in load_rivals()}
    others = [f"{row['name']}: {row['reason']}" for row in _load()["not_asked"]]
    not_run = [*compared.not_run, *others]
    refusals = {name: dict(counts) for name, counts in compared.refusals.items()}
    return {"rows": rows, "asked": asked, "refusals": refusals, "not_run": not_run}


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.2%}"
