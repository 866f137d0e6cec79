"""The small files beside the weights: read within bounds, searched, never run or expanded."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.hosts.local import LocalHost
from stoker.model.facts import Target
from stoker.probes import model, model_card, model_config, safetensors, tokenizer
from stoker.probes.model import parse_model, read_model
from tests.fakes.host import MemoryHost
from tests.probes.model_files import TINY_METADATA, build_gguf, build_safetensors

WEIGHTS = build_safetensors({"a": ("BF16", (64, 8), 1024)})
CONFIG = json.dumps({"architectures": ["Qwen3ForCausalLM"], "num_hidden_layers": 2})
POINTER = (
    "version https://git-lfs.github.com/spec/v1\n"
    "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"
)


def look(files: Mapping[str, str | bytes], path: str = "/m/q") -> dict[str, Any]:
    host = MemoryHost({f"/m/q/{name}": content for name, content in files.items()})
    found = model.parse(model.read(host, Target(model_path=path)))
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    return found


def test_a_folder_with_everything() -> None:
    found = look(
        {
            "config.json": CONFIG,
            "model.safetensors": WEIGHTS,
            "README.md": "---\nlicense: mit\nbase_model: a/b\n---\n# Hello",
            "generation_config.json": '{"temperature": 0.6, "top_k": 20, "eos_token_id": [1]}',
            "hf_quant_config.json": '{"quantization": {"quant_algo": "NVFP4"}}',
            "tokenizer_config.json": json.dumps(
                {
                    "chat_template": "{% if enable_thinking %}<think>{% endif %}<tool_call>",
                    "added_tokens_decoder": {"1": {"content": "<tool_call>"}},
                }
            ),
            "modeling_x.py": "",
        }
    )
    assert found["card"]["base_models"] == ["a/b"]
    assert found["generation"] == {"temperature": 0.6, "top_k": 20}
    assert found["quantization_file"] == {"quantization": {"quant_algo": "NVFP4"}}
    template = found["template"]
    assert template["tool_markers"] == ["<tool_call>"]
    assert template["reasoning_markers"] == ["<think>"]
    assert template["variables"] == ["enable_thinking"]
    assert found["token_markers"] == ["<tool_call>"]
    assert found["code_files"] == ["modeling_x.py"]
    assert found["has_chat_template"] is True


def test_a_template_of_its_own_file_comes_first() -> None:
    found = look(
        {
            "chat_template.jinja": "<minimax:tool_call>",
            "tokenizer_config.json": json.dumps(
                {"chat_template": [{"name": "tool_use", "template": "[TOOL_CALLS]"}]}
            ),
            "model.safetensors": WEIGHTS,
        }
    )
    assert found["template"]["length"] == len("<minimax:tool_call>")
    assert found["template"]["tool_markers"] == ["<minimax:tool_call>", "[TOOL_CALLS]"]


def test_the_default_of_named_templates_is_the_first() -> None:
    rows = [{"name": "rag", "template": "rag"}, {"name": "default", "template": "default!"}]
    assert tokenizer.find_templates({"chat_template": rows}, files_of_own=()) == ["default!", "rag"]


@pytest.mark.parametrize("value", [None, 7, [], {}, [7], [{"template": 7}], ["x"], " "])
def test_what_is_no_template_is_none(value: Any) -> None:
    assert tokenizer.find_templates({"chat_template": value}, files_of_own=("",)) == []


def test_a_gguf_template_is_searched_though_it_is_long() -> None:
    text = "<think>" + "x" * 5000 + "<tool_call>"
    raw = build_gguf({**TINY_METADATA, "tokenizer.chat_template": text})
    host = MemoryHost({"/m/a.gguf": raw})
    found = model.parse(model.read(host, Target(model_path="/m/a.gguf")))
    assert found["template"]["tool_markers"] == ["<tool_call>"]
    assert found["template"]["length"] == len(text)


# What is no model, or not all of one


@pytest.mark.parametrize("name", ["model.safetensors", "model-00001-of-00002.safetensors"])
def test_a_pointer_of_git_lfs_is_told_from_weights(name: str) -> None:
    found = look({"config.json": CONFIG, name: POINTER})
    assert found["format"] == "safetensors"
    assert found["is_truncated"] is True
    assert found["pointer_files"] == [name]
    assert found["reason"] == f"{name} is a git-lfs pointer to a file of 12345 bytes"


def test_a_gguf_pointer_is_told_as_well() -> None:
    found = look({"a.gguf": POINTER}, path="/m/q/a.gguf")
    assert (found["format"], found["is_truncated"]) == ("gguf", True)
    assert found["pointer_files"] == ["a.gguf"]


def test_pickles_are_named_and_measured() -> None:
    found = look({"config.json": CONFIG, "pytorch_model.bin": b"x" * 10, "training_args.bin": b"y"})
    assert (found["format"], found["size_bytes"]) == ("pickle", 10)
    assert found["pickle_files"] == ["pytorch_model.bin"]
    assert found["block_count"] == 2


def test_an_adapter_names_its_base() -> None:
    table = {"base_model_name_or_path": "Qwen/Qwen3-8B", "peft_type": "LORA"}
    found = look({"adapter_config.json": json.dumps(table), "adapter_model.safetensors": WEIGHTS})
    assert found["adapter"] == {"base": "Qwen/Qwen3-8B", "kind": "LORA"}
    assert found["config"] is None


def test_the_layout_of_mistral() -> None:
    files: dict[str, str | bytes] = {
        "params.json": "{}",
        "consolidated.safetensors": WEIGHTS,
        "tekken.json": "{}",
    }
    assert look(files)["is_mistral_format"] is True
    assert look({"params.json": "{}", "model.safetensors": WEIGHTS})["is_mistral_format"] is False


def test_a_config_alone_is_read() -> None:
    found = look({"config.json": CONFIG}, path="/m/q/config.json")
    assert (found["format"], found["reason"]) == ("unknown", "it is a config.json without weights")
    assert found["block_count"] == 2


def test_downloads_that_have_not_ended() -> None:
    host = MemoryHost()
    root = "/hub/models--Qwen--Qwen3-8B"
    host.put(f"{root}/blobs/aa.incomplete", "x")
    host.put(f"{root}/blobs/bb", WEIGHTS)
    host.put_link(f"{root}/snapshots/c0/model-1.safetensors", f"{root}/blobs/bb")
    host.put_link(f"{root}/snapshots/c0/model-2.safetensors", f"{root}/blobs/gone")
    found = model.parse(model.read(host, Target(model_path=f"{root}/snapshots/c0")))
    assert found["unfinished_files"] == ["aa.incomplete"]
    assert (found["is_truncated"], found["reason"]) == (True, "model-2.safetensors is missing")
    local = look(
        {"model.safetensors": WEIGHTS, ".cache/huggingface/download/model.x.incomplete": "x"}
    )
    assert local["unfinished_files"] == ["model.x.incomplete"]


def test_links_in_a_circle_lead_nowhere() -> None:
    host = MemoryHost({"/m/q/config.json": CONFIG})
    host.put_link("/m/q/model.safetensors", "/m/q/other.safetensors")
    host.put_link("/m/q/other.safetensors", "/m/q/model.safetensors")
    found = model.parse(model.read(host, Target(model_path="/m/q")))
    assert (found["is_truncated"], found["reason"]) == (True, "model.safetensors is missing")


# Headers


def test_forms_count_layers_as_one_and_tell_those_behind() -> None:
    assert safetensors.form_of("model.layers.3.mlp.experts.17.up_proj.weight") == (
        "model.layers.*.mlp.experts.*.up_proj.weight"
    )
    assert safetensors.form_of("model.layers.61.mlp.experts.17.x", 61) == (
        "model.layers.+.mlp.experts.*.x"
    )
    assert safetensors.form_of("model.layers.60.x", 61) == "model.layers.*.x"
    assert safetensors.form_of("w1.conv2d.7") == "w1.conv2d.*"


def test_layers_behind_the_last_are_forms_of_their_own() -> None:
    names = [f"model.layers.{n}.mlp.up_proj.weight" for n in range(3)]
    weights = build_safetensors(dict.fromkeys(names, ("BF16", (4,), 8)))
    found = look({"config.json": CONFIG, "model.safetensors": weights})
    assert found["forms"] == [
        ["model.layers.*.mlp.up_proj.weight", "BF16", 2, 16],
        ["model.layers.+.mlp.up_proj.weight", "BF16", 1, 8],
    ]


def test_forms_without_end_are_counted_as_one() -> None:
    weights = build_safetensors({f"w{n}x": ("U8", (1,), 1) for n in range(3000)})
    forms = look({"model.safetensors": weights})["forms"]
    count, total = len(forms), sum(size for *_, size in forms)
    assert (count, total) == (2000, 3000)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"dtype": "BF16", "shape": [4], "data_offsets": [0, 4]}, "other bytes than its shape"),
        ({"dtype": "F32", "shape": [2**40], "data_offsets": [0, 4]}, "other bytes than its shape"),
        ({"dtype": "U8", "shape": [4], "data_offsets": [8, 12]}, "leave holes between them"),
        ({"dtype": "U8", "shape": [4], "data_offsets": [2, 6]}, "tensors overlap"),
    ],
)
def test_headers_that_lie_about_offsets_are_told(row: dict[str, Any], reason: str) -> None:
    first = {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}
    header = json.dumps({"a": first, "b": row}).encode()
    found = look({"model.safetensors": len(header).to_bytes(8, "little") + header + bytes(64)})
    assert found["format"] == "unknown"
    assert reason in found["reason"]


# Hostile texts


def test_a_config_of_any_size_is_kept_small() -> None:
    config = {
        "long": "x" * 100_000,
        "list": list(range(100_000)),
        "names": [f"model.layers.{n}.mlp" for n in range(1000)],
        "kinds": ["full_attention"] * 900,
        "quantized_layers": {f"l{n}": {"quant_algo": "FP8"} for n in range(70_000)},
        "odd": float("nan"),
        "deep": json.loads("[" * 50 + "]" * 50),
    }
    kept = look({"config.json": json.dumps(config), "model.safetensors": WEIGHTS})["config"]
    assert (kept["long"], kept["list"], kept["odd"]) == (None, None, None)
    assert kept["names"] == ["model.layers.*.mlp"]
    assert kept["kinds"] == ["full_attention"] * 900
    assert kept["quantized_layer_counts"] == {"FP8": 70_000}
    assert len(json.dumps(kept)) < 30_000


@pytest.mark.parametrize(
    "text", ["", "[]", "{oops", "null", "7", '"x"', "[" * 200_000, '{"a":' * 90_000, "\ufeff{}"]
)
def test_a_config_that_is_none_is_told(text: str) -> None:
    found = look({"config.json": text, "model.safetensors": WEIGHTS})
    assert found["config"] is None
    assert found["reason"].startswith("config.json cannot be read: ")
    assert found["format"] == "safetensors"


SMALL = ("config.json", "hf_quant_config.json", "generation_config.json", "adapter_config.json")
NAMES = (*SMALL, "tokenizer_config.json", "chat_template.json", "README.md", "params.json")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.floats() | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["chat_template", "quantization", "added_tokens_decoder", "content", "a"]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=6,
)


@settings(max_examples=80, deadline=None)
@given(st.dictionaries(st.sampled_from(NAMES), JSON.map(json.dumps) | st.text(max_size=40)))
def test_any_small_files_are_described_and_never_raise(files: dict[str, str]) -> None:
    assert look({**files, "model.safetensors": WEIGHTS})["format"] == "safetensors"
    assert look({**files, "x.txt": ""})["format"] == "unknown"


# Cards

BOMB = "---\na: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n---\n"


@pytest.mark.parametrize(
    ("text", "bases"),
    [
        ("---\nbase_model:\n- a/b\n- c/d\ntags: [x]\n---\nhello", ["a/b", "c/d"]),
        ("---\r\nbase_model: a/b\r\n---\r\n", ["a/b"]),
        ("\ufeff---\nmodel-index:\n- name: x\n  base_model: no\nbase_model: a/b\n---\n", ["a/b"]),
        ("---\nbase_model: !!python/object/apply:os.system [x]\n---\n", ["x"]),
        ("---\n- a\n- b\n---\n", []),
    ],
)
def test_cards_tell_what_a_model_was_made_from(text: str, bases: list[str]) -> None:
    card = model_card.parse_card(text)
    assert card is not None
    assert card["base_models"] == bases


@pytest.mark.parametrize(
    "text",
    [
        "# no front matter",
        "---\nnever: ends",
        BOMB,
        "---\na: [\n---\n",
        "---\n" + "[" * 500 + "\n---\n",
        "---\na: " + "x" * 100_000 + "\n---\n",
        "---\n%YAML 9999999999999.1\n---\n",
        "---\na: 'x\n---\n",
    ],
)
def test_cards_that_cannot_be_read_are_none(text: str) -> None:
    assert model_card.parse_card(text) is None


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet="-:[]{}&*!|>'\"\\\n ab%#?,\t", max_size=80))
def test_any_card_is_described_or_none(text: str) -> None:
    card = model_card.parse_card(f"---\n{text}\n---\n")
    assert card is None or set(card) >= {"base_models", "license"}


def test_the_names_of_files_tell_what_lies_there() -> None:
    names = ["a.bin", "optimizer.pt", "rng_state_0.pth", "x.ckpt", "a.safetensors.part", "m.py"]
    found = model_config.describe_names(names)
    assert found["pickle_files"] == ["a.bin", "x.ckpt"]
    assert found["unfinished_files"] == ["a.safetensors.part"]
    assert found["code_files"] == ["m.py"]


def test_a_config_beyond_the_limit_is_told_as_such() -> None:
    large = '{"a": "' + "x" * (16 << 20) + '"}'
    found = look({"config.json": large, "model.safetensors": WEIGHTS})
    assert found["reason"] == "config.json cannot be read: it is larger than 16 MiB"
    assert (found["format"], found["config"]) == ("safetensors", None)


@pytest.mark.parametrize("kind", ["pipe", "folder", "loop", "dangling"])
def test_a_config_that_is_no_file_is_told(tmp_path: Path, kind: str) -> None:
    config = tmp_path / "config.json"
    match kind:
        case "pipe":
            os.mkfifo(config)
        case "folder":
            config.mkdir()
        case "loop":
            config.symlink_to(config)
        case _:
            config.symlink_to("nowhere")
    (tmp_path / "model.safetensors").write_bytes(WEIGHTS)
    found = parse_model(read_model(LocalHost(), str(tmp_path)))
    assert found["reason"].startswith("config.json cannot be read: ")
    assert found["format"] == "safetensors"
