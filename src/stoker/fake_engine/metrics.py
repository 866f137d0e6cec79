"""The counters of the fake engine, and /metrics as each engine writes it.

The names are those of :mod:`stoker.knowledge`'s manners and of what the engines themselves say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock

from stoker.fake_engine.replies import ACCEPTED, count_drafts
from stoker.fake_engine.script import LLAMACPP, SGLANG, SPECULATION, VLLM, Script


@dataclass(slots=True)
class Counters:
    """What was computed since the start; safe among threads."""

    prompt_tokens: int = 0
    cached_tokens: int = 0
    made_tokens: int = 0
    drafted_tokens: int = 0
    taken_tokens: int = 0
    drafts: int = 0
    requests: int = 0
    running: int = 0
    waiting: int = 0
    _lock: Lock = field(default_factory=Lock)

    def add(self, **changes: int) -> None:
        """Change some of them by so much."""
        with self._lock:
            for name, change in changes.items():
                setattr(self, name, getattr(self, name) + change)

    def add_tokens(self, tokens: int, *, is_drafted: bool) -> None:
        """Some more tokens of an answer; drafts are counted from the sum of them."""
        with self._lock:
            before, after = count_drafts(self.made_tokens), count_drafts(self.made_tokens + tokens)
            self.made_tokens += tokens
            if is_drafted:
                self.drafted_tokens += after[0] - before[0]
                self.taken_tokens += after[1] - before[1]
                self.drafts += after[2] - before[2]


Row = tuple[str, str, float]


def write_metrics(script: Script, counters: Counters) -> str:
    """The text of /metrics."""
    rows = {LLAMACPP: _llamacpp, SGLANG: _sglang, VLLM: _vllm}[script.manners](script, counters)
    labels = {
        LLAMACPP: "",
        SGLANG: f'{{engine_type="unified",model_name="{script.name}"}}',
        VLLM: f'{{engine="0",model_name="{script.name}"}}',
    }[script.manners]
    lines: list[str] = []
    for name, kind, value in rows:
        family = name.removesuffix("_total") if kind == "counter" and labels else name
        lines += [f"# HELP {name} {family}", f"# TYPE {name} {kind}", f"{name}{labels} {value}"]
    return "\n".join(lines) + "\n"


def _llamacpp(script: Script, counters: Counters) -> list[Row]:
    return [
        (
            "llamacpp:prompt_tokens_total",
            "counter",
            counters.prompt_tokens - counters.cached_tokens,
        ),
        ("llamacpp:prompt_tokens_cached_total", "counter", counters.cached_tokens),
        ("llamacpp:tokens_predicted_total", "counter", counters.made_tokens),
        ("llamacpp:n_decode_total", "counter", counters.made_tokens - counters.taken_tokens),
        ("llamacpp:spec_decode_num_draft_tokens_total", "counter", counters.drafted_tokens),
        ("llamacpp:spec_decode_num_accepted_tokens_total", "counter", counters.taken_tokens),
        ("llamacpp:spec_decode_num_drafts_total", "counter", counters.drafts),
        ("llamacpp:requests_processing", "gauge", counters.running),
        ("llamacpp:requests_deferred", "gauge", counters.waiting),
    ]


def _sglang(script: Script, counters: Counters) -> list[Row]:
    length = ACCEPTED + 1 if counters.drafts else 0
    return [
        ("sglang:num_running_reqs", "gauge", counters.running),
        ("sglang:num_queue_reqs", "gauge", counters.waiting),
        ("sglang:token_usage", "gauge", 0.0),
        ("sglang:max_total_num_tokens", "gauge", script.limits.kv_tokens),
        ("sglang:cache_hit_rate", "gauge", 0.0),
        ("sglang:spec_accept_length", "gauge", length if script.has(SPECULATION) else 0),
        ("sglang:prompt_tokens_total", "counter", counters.prompt_tokens),
        ("sglang:cached_tokens_total", "counter", counters.cached_tokens),
        ("sglang:generation_tokens_total", "counter", counters.made_tokens),
        ("sglang:num_requests_total", "counter", counters.requests),
    ]


def _vllm(script: Script, counters: Counters) -> list[Row]:
    rows: list[Row] = [
        ("vllm:num_requests_running", "gauge", counters.running),
        ("vllm:num_requests_waiting", "gauge", counters.waiting),
        ("vllm:kv_cache_usage_perc", "gauge", 0.0),
        ("vllm:prefix_cache_queries_total", "counter", counters.prompt_tokens),
        ("vllm:prefix_cache_hits_total", "counter", counters.cached_tokens),
        ("vllm:prompt_tokens_total", "counter", counters.prompt_tokens),
        ("vllm:prompt_tokens_cached_total", "counter", counters.cached_tokens),
        ("vllm:generation_tokens_total", "counter", counters.made_tokens),
    ]
    if script.has(SPECULATION):
        rows += [
            ("vllm:spec_decode_num_drafts_total", "counter", counters.drafts),
            ("vllm:spec_decode_num_draft_tokens_total", "counter", counters.drafted_tokens),
            ("vllm:spec_decode_num_accepted_tokens_total", "counter", counters.taken_tokens),
        ]
    return rows


def read_metric(text: str) -> Mapping[str, float]:
    """The values of a text of metrics by their names, labels left out; for tests."""
    lines = (line for line in text.splitlines() if line and not line.startswith("#"))
    pairs = (line.rsplit(" ", 1) for line in lines)
    return {name.partition("{")[0]: float(value) for name, value in pairs}
