"""Asks one other estimator for the tokens of many cases: ``PYTHON THIS_FILE TOOL < asks``.

Called by :mod:`stoker.evaluate.capacity_rivals` with the interpreter of the estimator's own
environment, so it knows nothing of Stoker and uses the standard library alone. It reads a JSON list
and writes one as long: ``{"tokens": n}``, or ``{"refused": reason}`` where the tool gives none.

An ask holds ``question`` (a: the bytes of the pool are given, b: GPU, config and flags alone, c: as
b with the bytes of the weights), ``model``, ``config`` (as config.json), ``engine``, ``gpu``,
``total_bytes`` of one GPU, ``share`` of it, ``ranks``, ``kv_type``, ``context_tokens``,
``step_tokens``, ``requests``, ``draft_tokens``, ``pool_bytes`` and ``weight_bytes`` of one rank.
"""

from __future__ import annotations

import json
import math
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

_Ask = dict[str, Any]
_GIB = 1 << 30
#: What the estimators raise for what they cannot answer; RuntimeError and ValueError are the bases
#: of their own errors.
_REFUSALS = (
    *(ValueError, RuntimeError, TypeError, KeyError, IndexError, AttributeError),
    *(ArithmeticError, AssertionError, NotImplementedError, OSError),
)


class RefusedError(ValueError):
    """The tool has no way to ask this."""


def ask_vramscout(ask: _Ask) -> float:
    """VRAMScout's longest context in the mode of vLLM, whose limit of the model is left out."""
    _need_plain_ranks(ask, "pp", "groups")
    scout = import_module("vramscout.modern_v07")
    # What it reads from the hub, parameters and bytes of the checkpoint; of a folder it has none.
    total = (ask["weight_bytes"] or 0) * ask["ranks"]["tp"]
    told = (max(1, total // 2), total) if total or ask["question"] == "a" else (None, None)
    vars(import_module("vramscout.modern_v06"))["_selected_hub_metadata"] = lambda *_: told
    vars(import_module("vramscout.modern_core"))["_hub_metadata"] = lambda *_: told
    config = {key: ask["config"][key] for key in ask["config"] if key != "max_position_embeddings"}
    with _folder(config) as folder:
        plan = scout.plan_modern(
            folder,
            context=ask["context_tokens"],
            kv_dtype={8: "fp8", 16: "bf16", 32: "fp32"}[_kv_bits(ask)],
            tp=ask["ranks"]["tp"],
            dcp=ask["ranks"]["dcp"],
            vram_gib=ask["total_bytes"] / _GIB,
            prefill_chunk=ask["step_tokens"] or 8192,
            engine="vllm",
            gpu_memory_utilization=ask["share"],
        )
    if ask["question"] != "a":
        return float(plan.max_context_vram)
    beside = ("Model weights / rank", "CUDA / runtime", "Prefill scratch", "Safety reserve")
    state = sum(gib for name, gib in plan.parts_gib.items() if name not in beside)
    return float(ask["pool_bytes"] / _GIB / state * ask["context_tokens"])


def ask_kvfit(ask: _Ask) -> float:
    """Sequences of kvfit's plan, in parts of one, by their length."""
    _need_plain_ranks(ask, "pp", "groups", "dcp")
    if ask["question"] == "b":
        raise RefusedError("it reads the bytes of the weights from the hub alone")
    cache = import_module("kvfit.architectures").estimate_cache(
        ask["config"], context_tokens=ask["context_tokens"], kv_bytes=_kv_bits(ask) / 8
    )
    hardware = import_module("kvfit.hardware").Hardware(
        id="gpu", label="gpu", memory_gib=ask["total_bytes"] / _GIB
    )
    (plan,) = import_module("kvfit.planner").plan_topologies(
        cache,
        weight_bytes=(ask["weight_bytes"] or 0) * ask["ranks"]["tp"],
        hardware=hardware,
        gpus=ask["ranks"]["tp"],
        utilization=ask["share"],
        tensor_parallel=ask["ranks"]["tp"],
    )
    if not math.isfinite(plan.kv_per_sequence_per_rank_bytes):
        raise RefusedError(plan.reason)
    beside = plan.weights_per_rank_bytes + plan.fixed_cache_per_rank_bytes
    pool = plan.budget_per_rank_bytes - beside - plan.runtime_reserve_per_rank_bytes
    pool = ask["pool_bytes"] if ask["question"] == "a" else pool
    return float(pool / plan.kv_per_sequence_per_rank_bytes * ask["context_tokens"])


def ask_modelinfo(ask: _Ask) -> float:
    """modelinfo's simulation of vLLM's capacity, over all GPUs; its cache is of 16 bit."""
    _need_plain_ranks(ask, "pp", "groups", "dcp")
    if ask["engine"] != "vllm":
        raise RefusedError("it simulates vLLM alone")
    if ask["question"] == "b":
        raise RefusedError("it reads the bytes of the weights from a checkpoint or the hub alone")
    if _kv_bits(ask) != 16:
        raise RefusedError("it knows a cache of 16 bit alone")
    ranks = ask["ranks"]["tp"]
    found = import_module("modelinfo.calculator").calculate_footprint(
        {"__metadata__": {"lazy_fetch": True, "total_size": (ask["weight_bytes"] or 0) * ranks}},
        config=ask["config"],
        gpu_count=ranks,
        topology="nvlink" if ask["has_fabric"] else "pcie4",
        context_length=ask["context_tokens"],
        is_vllm=True,
        gpu_vram_bytes=ask["total_bytes"] * ranks,
        gpu_util=ask["share"],
    )
    if ask["question"] == "a":
        return float(ask["pool_bytes"] * ranks / (found["kv_cache_bytes"] / ask["context_tokens"]))
    return float(found["vllm_metrics"]["max_serving_capacity"])


def ask_ridgepoint(ask: _Ask) -> float:
    """Ridgepoint's pool by its own bytes of a token; it has no setting for the share."""
    _need_plain_ranks(ask, "pp", "groups", "dcp")
    if ask["question"] == "b":
        raise RefusedError("it counts the weights from headers on the hub alone")
    if ask["question"] == "c" and abs(ask["share"] - 0.9) > 1e-9:
        raise RefusedError("it knows a share of 0.90 alone")
    hub, core = import_module("ridgepoint.hf"), import_module("ridgepoint._core")
    ranks = ask["ranks"]["tp"]
    vars(hub)["_download_json"] = lambda *_: ask["config"]
    # Two bytes each, so that its weights are those of the log whatever their type is.
    vars(hub)["_params_from_index"] = lambda *_: max(1, (ask["weight_bytes"] or 0) * ranks // 2)
    shape = hub.fetch_shape("the/model")
    sizes = {math.ceil(ask["total_bytes"] / _GIB), round(ask["total_bytes"] / 1e9)}
    names = [f"{ask['gpu'].replace('-', '')}-{size}gb" for size in sorted(sizes)]
    # Its pool is not looked at where that of the log is given, so any GPU will do.
    names = ["b200-192gb"] if ask["question"] == "a" else names
    numbers = (shape.get(key, 0) for key in ("head_dim", "n_heads", "n_kv_heads", "d_c", "d_rope"))
    first = ("id", "layers", "kv_layers", "d_model", "n_params", "active_params", "geom")
    head = (*(shape[key] for key in first), *numbers)
    kv_type = {8: "fp8", 16: "fp16"}.get(_kv_bits(ask), "fp32")
    settings = (ranks, ask["engine"], "fp16", kv_type, ask["context_tokens"], 2048, True)
    told = json.loads(_first(lambda name: core.fit_shape(*head, name, *settings), names))
    token_bytes = told["capacity"]["bytes_per_seq"] / ask["context_tokens"]
    if ask["question"] == "a":
        return float(ask["pool_bytes"] * ranks / token_bytes)
    return float(told["memory"]["kv_pool_bytes"]["best"] / token_bytes)


def ask_aiconfigurator(ask: _Ask) -> float:
    """AIConfigurator's own model of memory, never its fallback, which knows no share of a GPU."""
    _need_plain_ranks(ask, "dcp")
    memory = import_module("aiconfigurator_core.sdk.memory")
    ranks = ask["ranks"]
    given = {
        "max_num_tokens": ask["step_tokens"] or 8192,
        "max_batch_size": ask["requests"] or 256,
        "tp_size": ranks["tp"] // ranks["groups"],
        "pp_size": ranks["pp"],
        "attention_dp_size": ranks["groups"],
        "moe_tp_size": ranks["tp"] // ranks["ep"],
        "moe_ep_size": ranks["ep"],
        "kvcache_quant_mode": {8: "fp8", 16: "bfloat16"}.get(_kv_bits(ask), "float32"),
        "nextn": ask["draft_tokens"],
    }
    config = dict(ask["config"])
    if config.get("quantization_config", {}).get("bits") == 4:
        # It reads no method of 4 bit whole numbers from a config, but has a setting for it.
        del config["quantization_config"]
        given |= {"gemm_quant_mode": "int4_wo", "moe_quant_mode": "int4_wo"}
    system = _find_system(ask["gpu"])

    def estimate(path: str) -> float:
        if ask["question"] == "a":
            made = memory.KVCacheEstimator.from_request(
                path, system, ask["engine"], "current", **given
            )
            return float(made.breakdown["tokens_from_kv_bytes"](float(ask["pool_bytes"])))
        found = memory.estimate_kv_cache(
            *(path, system, ask["engine"], "current"),
            memory_fraction_kind="of_total",
            memory_fraction_value=ask["share"],
            gpu_memory_capacity_bytes_override=ask["total_bytes"],
            **given,
        )
        return float(found["total_kv_size_tokens"])

    with _folder(config) as folder:
        # It has the whole config.json of many models; the case's own goes first.
        held = import_module("aiconfigurator_core.sdk.common").DefaultHFModels
        return float(_first(estimate, [folder, *({ask["model"]} & set(held))]))


TOOLS: dict[str, Callable[[_Ask], float]] = {
    "aiconfigurator-core": ask_aiconfigurator,
    "kvfit": ask_kvfit,
    "modelinfo-cli": ask_modelinfo,
    "ridgepoint": ask_ridgepoint,
    "vramscout": ask_vramscout,
}


def _need_plain_ranks(ask: _Ask, *names: str) -> None:
    for name in names:
        if ask["ranks"][name] > 1:
            raise RefusedError(f"it has no setting for {name} of {ask['ranks'][name]}")


def _kv_bits(ask: _Ask) -> int:
    """Bits of a value in the cache, by the engine's word or the model's type of numbers."""
    if "fp4" in ask["kv_type"]:
        raise RefusedError("it has no setting for a cache of 4 bit")
    return next((bits for bits in (32, 8) if str(bits) in ask["kv_type"]), 16)


def _first(call: Callable[[str], Any], words: list[str]) -> Any:
    """The first word that the tool takes; its last refusal where it takes none."""
    for word in words[:-1]:
        try:
            return call(word)
        except _REFUSALS:
            continue
    return call(words[-1])


def _find_system(gpu: str) -> str:
    """The tool's name of a GPU: the boards in sockets before all others."""
    package = import_module("aiconfigurator_core").__file__ or ""
    start = gpu.replace("-", "_").removesuffix("_blackwell")
    found = sorted(
        (path.stem for path in (Path(package).parent / "systems").glob(f"{start}*.yaml")),
        key=lambda name: (name != start, not name.endswith("_sxm"), name),
    )
    if not found:
        raise RefusedError(f"it does not know the GPU {gpu}")
    return found[0]


@contextmanager
def _folder(config: dict[str, Any]) -> Iterator[str]:
    """The path of a folder with a config.json."""
    with tempfile.TemporaryDirectory() as name:
        Path(name, "config.json").write_text(json.dumps(config), "utf-8")
        yield name


def answer(tool: Callable[[_Ask], float], ask: _Ask) -> dict[str, Any]:
    """One answer. A figure of nothing is a refusal: no tool means it as a pool."""
    try:
        tokens = tool(ask)
    except _REFUSALS as error:
        return {"refused": _shorten(str(error)) or type(error).__name__}
    if not math.isfinite(tokens) or tokens <= 0:
        return {"refused": "it says that nothing fits"}
    return {"tokens": tokens}


def _shorten(reason: str) -> str:
    """The first sentence, without the names of folders that no longer are."""
    first = (reason.strip().splitlines() or [""])[0].split(". ")[0]
    return re.sub(rf"{re.escape(tempfile.gettempdir())}/\w+", "the folder", first)[:200]


def main() -> None:
    """Read the asks, write the answers."""
    tool = TOOLS[sys.argv[1]]
    out = sys.stdout
    # Some of them print; that must not come between.
    sys.stdout = sys.stderr
    json.dump([answer(tool, ask) for ask in json.load(sys.stdin)], out)


if __name__ == "__main__":
    main()
