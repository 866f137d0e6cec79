"""The marks by which models write calls of tools and thoughts, and who writes them so.

A server's parser takes these out of an answer. One that is left in a reply shows that the parser
is missing or reads another format, and whose format it is names the right one. Checks search
replies for them; only marks stand here that no prose holds. Pure.

The marks were read from the parsers of SGLang 0.5.23 (``srt/function_call``, ``srt/parser``) and
vLLM 0.32.0 (``vllm/tool_parsers``, ``vllm/reasoning``, ``vllm/parser``); each row says from which.
"""

# ruff: noqa: RUF001  The marks hold the characters that they hold.

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What a mark frames."""

    TOOLS = "tools"
    REASONING = "reasoning"


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """One mark. ``family``: a family of models that writes so, as Stoker's parser table names it.

    ``parsers``: the engines' parsers that read it. ``pattern``: a regular expression where the
    mark is not always the same text; ``text`` then shows one. ``where``: what documents it.
    """

    text: str
    kind: Kind
    family: str
    parsers: tuple[str, ...]
    where: str
    pattern: str = ""


def find_markers(text: str, kind: Kind | None = None) -> tuple[Marker, ...]:
    """The marks in a text, the one that tells the family most surely first; maybe of one kind."""
    return tuple(
        marker
        for marker in MARKERS
        if kind in (None, marker.kind)
        and (marker.text in text or (marker.pattern and re.search(marker.pattern, text)))
    )


#: Parsers whose format has no marks, or none that prose could not hold, and why.
UNMARKED: Mapping[str, str] = {
    "xlam": "its calls are a plain JSON list",
    "pythonic": "its calls are a plain list in Python's form",
    "granite": "its thoughts begin with a plain sentence; its calls with the mark of Granite 3",
    "olmo3": "its thoughts stand in <think>; its calls in lines within a mark",
    "llama4_json": "its calls are plain JSON",
    "response_template": "the model's own files say how it writes",
    "hf": "the model's own files say how it writes",
}

_DSML = ("deepseekv32", "deepseek_v32", "deepseekv4", "deepseek_v4", "deepseekv41", "deepseek_v41")
_HERMES = ("hermes", "qwen", "qwen25", "qwen3_json", "granite4", "ernie45", "trinity")
_GLM = ("glm", "glm45", "glm47", "ling3", "poolside_v1", "spark25", "iquest_q1")
_CODER = ("qwen3_coder", "qwen3_xml", "mimo", "nanbeige", "step3p5", "step5")
_DEEPSEEK = ("deepseekv3", "deepseek_v3", "deepseekv31", "deepseek_v31")

#: Rows for marks that frame calls: family, parsers, marks, where. The sure before the shared.
_TOOLS: tuple[tuple[str, tuple[str, ...], tuple[str, ...], str], ...] = (
    (
        "kimi-k3",
        ("kimi_k3",),
        ("<|open|>tools", "<|close|>tools", "<|open|>call", "<|close|>call", "<|close|>argument"),
        "SGLang kimik3_format.py; vLLM kimi_k3_tool_parser.py",
    ),
    # It ends its calls as Kimi does, so it comes before.
    (
        "lfm2",
        ("lfm2",),
        ("<|tool_call_start|>",),
        "SGLang lfm2_detector.py; vLLM lfm2_tool_parser.py",
    ),
    (
        "kimi-k2",
        ("kimi_k2",),
        (
            "<|tool_calls_section_begin|>",
            "<|tool_calls_section_end|>",
            "<|tool_call_section_begin|>",
            "<|tool_call_section_end|>",
            "<|tool_call_begin|>",
            "<|tool_call_end|>",
            "<|tool_call_argument_begin|>",
        ),
        "SGLang kimik2_detector.py; vLLM parser/kimi_k2.py",
    ),
    (
        "deepseek-v4.1",
        ("deepseekv41", "deepseek_v41"),
        ("<｜DSML｜ calls>", "<｜DSML｜ invoke", "<｜DSML｜ parameter"),
        "vLLM parser/deepseek_v41.py",
    ),
    (
        "deepseek-v4",
        ("deepseekv4", "deepseek_v4"),
        ("<｜DSML｜tool_calls>",),
        "SGLang deepseekv4_detector.py; vLLM parser/deepseek_v4.py",
    ),
    ("deepseek-v3.2", _DSML, ("｜DSML｜",), "SGLang deepseekv32_detector.py"),
    (
        "deepseek-v3",
        ("deepseekv3", "deepseek_v3"),
        ("<｜tool▁call▁begin｜>function<｜tool▁sep｜>",),
        "SGLang deepseekv3_detector.py; vLLM deepseekv3_tool_parser.py",
    ),
    (
        "deepseek-v3.1",
        _DEEPSEEK,
        (
            "<｜tool▁calls▁begin｜>",
            "<｜tool▁calls▁end｜>",
            "<｜tool▁call▁begin｜>",
            "<｜tool▁call▁end｜>",
            "<｜tool▁sep｜>",
        ),
        "SGLang deepseekv31_detector.py; vLLM deepseekv31_tool_parser.py",
    ),
    (
        "step-3",
        ("step3",),
        (
            "<steptml:invoke",
            "<steptml:parameter",
            "</steptml:invoke>",
            "</steptml:parameter>",
            "<｜tool_calls_begin｜>",
            "<｜tool_calls_end｜>",
            "<｜tool_call_begin｜>",
            "<｜tool_call_end｜>",
            "<｜tool_sep｜>",
        ),
        "SGLang step3_detector.py; vLLM step3_tool_parser.py",
    ),
    (
        "minimax-m3",
        ("minimax-m3", "minimax_m3"),
        ("]<]minimax[>[",),
        "SGLang minimax_m3.py; vLLM parser/minimax_m3.py",
    ),
    (
        "minimax-m2",
        ("minimax-m2", "minimax_m2"),
        ("<minimax:tool_call>", "</minimax:tool_call>"),
        "SGLang minimax_m2.py; vLLM parser/minimax_m2.py",
    ),
    (
        "dots-3",
        ("dots",),
        ("<dots_function_call>", "</dots_function_call>"),
        "SGLang dots_detector.py; vLLM dots_tool_parser.py",
    ),
    (
        "gigachat-3.5",
        ("gigachat35",),
        ("<｜GCML｜", "</｜GCML｜", "｜GCML｜"),
        "SGLang gigachat35_detector.py",
    ),
    (
        "gigachat-3",
        ("gigachat3",),
        ("<|function_call|>", "function call<|role_sep|>", "<|role_sep|>", "<|message_sep|>"),
        "SGLang gigachat3_detector.py; vLLM gigachat3_tool_parser.py",
    ),
    (
        "k2-horizon",
        ("k2_horizon",),
        ("<ifm|tool_call", "</ifm|tool_call", "<ifm|arg_", "</ifm|arg_"),
        "SGLang k2_v3_detector.py; vLLM k2_horizon_tool_parser.py",
    ),
    (
        "longcat",
        ("longcat",),
        ("<longcat_tool_call>", "</longcat_tool_call>"),
        "vLLM longcat_tool_parser.py",
    ),
    (
        "iquest-q1",
        ("iquest_q1",),
        ("<iquest_tool_call>", "</iquest_tool_call>"),
        "SGLang iquest_q1_detector.py",
    ),
    (
        "seed-oss",
        ("seed_oss",),
        ("<seed:tool_call>", "</seed:tool_call>"),
        "vLLM parser/seed_oss.py",
    ),
    (
        "muse-glimmer",
        ("muse", "muse_glimmer", "musespark1x"),
        (
            "<atem:function_calls>",
            "</atem:function_calls>",
            "<atem:invoke",
            "</atem:invoke>",
            "<atem:parameter",
            "</atem:parameter>",
        ),
        "SGLang muse_glimmer_format.py; vLLM muse_glimmer_tool_parser.py",
    ),
    (
        "inkling",
        ("inkling",),
        ("<|content_invoke_tool_json|>", "<|content_invoke_tool_text|>"),
        "SGLang inkling_tokenizer.py; vLLM parser/inkling.py",
    ),
    (
        "plamo-3",
        ("plamo3",),
        ("<|plamo:begin_tool_", "<|plamo:end_tool_"),
        "vLLM parser/plamo3.py",
    ),
    (
        "beam",
        ("beam",),
        ("<rfl:parameter", "</rfl:parameter>", "<|constrain|>xml"),
        "SGLang parser/beam.py",
    ),
    (
        "gpt-oss",
        ("gpt-oss", "openai"),
        ("<|channel|>commentary", "<|constrain|>", "<|call|>", "to=functions."),
        "SGLang gpt_oss_detector.py; vLLM parser/harmony.py",
    ),
    (
        "command-a-plus",
        ("cohere_command3", "cohere_command4"),
        ("<|START_ACTION|>", "<|END_ACTION|>", "<cofl:tool_call", "</cofl:tool_call"),
        "SGLang cohere_command4_detector.py; vLLM parser/cohere_command.py; xgrammar cohere",
    ),
    (
        "apertus",
        ("apertus2509", "apertus"),
        ("<|tools_prefix|>", "<|tools_suffix|>"),
        "SGLang apertus2509_detector.py; vLLM apertus_tool_parser.py",
    ),
    (
        "gemma-4",
        ("gemma4",),
        ("<|tool_call>", "<tool_call|>", '<|"|>'),
        "SGLang gemma4_detector.py; vLLM parser/gemma4.py",
    ),
    (
        "functiongemma",
        ("functiongemma",),
        ("<start_function_call>", "<end_function_call>"),
        "vLLM functiongemma_tool_parser.py",
    ),
    ("granite-3", ("granite",), ("<|tool_call|>",), "vLLM parser/granite.py"),
    (
        "granite-function-calling",
        ("granite-20b-fc",),
        ("<function_call>",),
        "vLLM granite_20b_fc_tool_parser.py",
    ),
    (
        "intern-s1",
        ("interns1", "internlm"),
        ("<|action_start|>", "<|action_end|>", "<|plugin|>"),
        "SGLang internlm_detector.py; vLLM internlm2_tool_parser.py",
    ),
    ("mistral", ("mistral",), ("[TOOL_CALLS]",), "SGLang mistral_detector.py"),
    ("llama-3", ("llama3", "llama3_json"), ("<|python_tag|>",), "SGLang llama32_detector.py"),
    (
        "llama-4",
        ("pythonic", "llama4_pythonic"),
        ("<|python_start|>", "<|python_end|>"),
        "SGLang pythonic_detector.py; vLLM llama4_pythonic_tool_parser.py",
    ),
    ("phi-4-mini", ("phi4_mini_json",), ("functools[",), "vLLM phi4mini_tool_parser.py"),
    (
        "olmo-3",
        ("olmo3",),
        ("<function_calls>", "</function_calls>"),
        "vLLM olmo3_tool_parser.py",
    ),
    (
        "minicpm-5",
        ("minicpm5",),
        ("<function name=", "<param name="),
        "SGLang minicpm5_detector.py; vLLM minicpm5xml_tool_parser.py",
    ),
    (
        "hy-3",
        ("hunyuan", "hy_v3", "hy_v4"),
        ("<tool_sep>", "<tool_sep:", "<tool_calls:", "<tool_call:", "<arg_key:", "<arg_value:"),
        "SGLang hunyuan_detector.py; vLLM hy_v3_tool_parser.py, hy_v4_tool_parser.py",
    ),
    (
        "hunyuan-a13b",
        ("hunyuan_a13b", "jamba", "minimax", "hunyuan", "hy_v3", "hy_v4"),
        ("<tool_calls>", "</tool_calls>"),
        "vLLM hunyuan_a13b_tool_parser.py, jamba_tool_parser.py",
    ),
    (
        "writes-like-qwen3-coder",
        _CODER,
        ("<function=", "</function>", "<parameter=", "</parameter>"),
        "SGLang qwen3_coder_detector.py; vLLM parser/qwen3.py",
    ),
    (
        "writes-like-glm",
        _GLM,
        ("<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"),
        "SGLang glm4_moe_detector.py; vLLM parser/glm47_moe.py",
    ),
    (
        "minimax-m2",
        ("minimax-m2", "minimax_m2", "minimax-m3", "minimax_m3", "dots"),
        ("<invoke name=", "</invoke>", "<parameter name="),
        "SGLang minimax_m2.py",
    ),
    (
        "writes-like-hermes",
        _HERMES,
        ("<tool_call>", "</tool_call>"),
        "SGLang hermes_detector.py; vLLM hermes_tool_parser.py",
    ),
    # Frames of all that this family writes; left alone they are what a parser forgot.
    ("kimi-k3", ("kimi_k3",), ("<|open|>", "<|close|>", "<|sep|>"), "SGLang kimik3_format.py"),
)

_THINK = (
    *("qwen3", "qwen3-thinking", "deepseek-r1", "deepseek_r1", "deepseek-v3", "deepseek_v3"),
    *("deepseek-v4", "deepseek_v4", "deepseek-v41", "deepseek_v41", "glm45", "glm47", "holo2"),
    *("granite_thinking_parser", "kimi_k2", "mimo", "minicpmv", "minimax", "minimax_m2"),
    *("minimax-append-think", "minimax_m2_append_think", "nemotron_3", "nemotron_v3", "nano_v3"),
    *("step3", "step3p5", "step5", "ernie45", "olmo3", "hunyuan", "hunyuan_a13b", "hy_v3"),
    *("hy_v4", "interns1", "iquest_q1", "ling3", "nanbeige", "poolside_v1", "dots", "gigachat35"),
)

#: Rows for marks that frame thoughts, in the same form.
_REASONING: tuple[tuple[str, tuple[str, ...], tuple[str, ...], str], ...] = (
    (
        "kimi-k3",
        ("kimi_k3",),
        ("<|open|>think", "<|close|>think", "<|open|>response", "<|close|>response"),
        "SGLang kimik3_format.py; vLLM kimi_k3_reasoning_parser.py",
    ),
    ("kimi-vl-thinking", ("kimi",), ("◁think▷", "◁/think▷"), "SGLang reasoning_parser.py"),
    ("beam", ("beam",), ("<|channel|>analysis <|constrain|>",), "SGLang parser/beam.py"),
    (
        "muse-glimmer",
        ("muse", "muse_glimmer", "musespark1x"),
        ("to=self<|message|>", "to=user<|message|>", "<|eom|>"),
        "SGLang muse_glimmer_format.py; vLLM muse_glimmer_reasoning_parser.py",
    ),
    (
        "gpt-oss",
        ("gpt-oss", "openai_gptoss"),
        ("<|channel|>analysis", "<|channel|>final", "<|start|>assistant", "assistantfinal"),
        "SGLang harmony_parser.py; vLLM parser/harmony.py",
    ),
    (
        "minimax-m3",
        ("minimax-m3", "minimax_m3"),
        ("<mm:think>", "</mm:think>"),
        "SGLang reasoning_parser.py; vLLM minimax_m3_reasoning_parser.py",
    ),
    (
        "mistral-thinking",
        ("mistral",),
        ("[THINK]", "[/THINK]"),
        "SGLang reasoning_parser.py; vLLM mistral_reasoning_parser.py",
    ),
    (
        "gemma-4",
        ("gemma4",),
        ("<|channel>", "<channel|>"),
        "SGLang reasoning_parser.py; vLLM parser/gemma4.py",
    ),
    (
        "apertus",
        ("apertus2509",),
        ("<|inner_prefix|>", "<|inner_suffix|>"),
        "SGLang reasoning_parser.py",
    ),
    (
        "command-a-plus",
        ("cohere_command3", "cohere_command4"),
        (
            "<|START_THINKING|>",
            "<|END_THINKING|>",
            "<|START_TEXT|>",
            "<|END_TEXT|>",
            "<|START_RESPONSE|>",
        ),
        "SGLang reasoning_parser.py; vLLM parser/cohere_command.py",
    ),
    (
        "k2-horizon",
        ("k2_horizon",),
        ("<ifm|think", "</ifm|think"),
        "SGLang reasoning_parser.py; vLLM k2_horizon_reasoning_parser.py",
    ),
    (
        "inkling",
        ("inkling",),
        (
            "<|content_thinking|>",
            "<|message_model|>",
            "<|content_text|>",
            "<|end_message|>",
            "<|content_model_end_sampling|>",
        ),
        "SGLang inkling_tokenizer.py; vLLM parser/inkling.py",
    ),
    (
        "plamo-3",
        ("plamo3",),
        ("<|plamo:begin_think", "<|plamo:end_think"),
        "vLLM parser/plamo3.py",
    ),
    (
        "seed-oss",
        ("seed_oss",),
        ("<seed:think>", "</seed:think>"),
        "vLLM parser/seed_oss.py",
    ),
    (
        "hy-3",
        ("hunyuan", "hy_v3", "hy_v4"),
        ("<think:", "</think:"),
        "SGLang hunyuan_detector.py; vLLM hy_v3_reasoning_parser.py",
    ),
    (
        "gpt-oss",
        ("gpt-oss", "openai_gptoss", "beam", "muse", "muse_glimmer"),
        ("<|channel|>", "<|message|>", "<|start|>", "<|return|>"),
        "SGLang harmony_parser.py; vLLM parser/harmony.py",
    ),
    ("qwen3", _THINK, ("<think>",), "SGLang reasoning_parser.py; vLLM parser/qwen3.py"),
    # Templates that open the thoughts themselves leave but this one in the answer.
    ("qwen3-thinking", _THINK, ("</think>",), "SGLang reasoning_parser.py; vLLM parser/qwen3.py"),
)

#: What is left of these marks where a server drops special tokens from its text.
_REMAINDERS = (
    Marker(
        text="functions.NAME:0",
        pattern=r"\bfunctions\.[A-Za-z_][\w-]*:\d+\s*\{",
        kind=Kind.TOOLS,
        family="kimi-k2",
        parsers=("kimi_k2",),
        where="SGLang kimik2_detector.py",
    ),
)


def _expand(
    kind: Kind, rows: tuple[tuple[str, tuple[str, ...], tuple[str, ...], str], ...]
) -> tuple[Marker, ...]:
    return tuple(
        Marker(text=text, kind=kind, family=family, parsers=parsers, where=where)
        for family, parsers, texts, where in rows
        for text in texts
    )


#: Every mark, those of calls first; the order is the one that :func:`find_markers` answers in.
MARKERS = (*_expand(Kind.TOOLS, _TOOLS), *_REMAINDERS, *_expand(Kind.REASONING, _REASONING))
