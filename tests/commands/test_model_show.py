"""What `stoker model show` tells of a folder, a file, a hub's folder and of nothing."""

from __future__ import annotations

import json

import pytest

from stoker.commands.model_show import show_model
from stoker.errors import HostError, UsageError
from stoker.model.document import render_document
from stoker.model.shown_model import RankShare, ShownModel
from stoker.report.model_text import render_model
from tests.commands.boxes import Box
from tests.knowledge import model_configs as configs
from tests.probes.model_files import build_gguf, build_safetensors

WEIGHTS = build_safetensors(
    {
        "model.embed_tokens.weight": ("BF16", (64, 8), 1024),
        "model.layers.0.self_attn.k_proj.weight": ("BF16", (64, 8), 1024),
        "model.layers.0.mlp.experts.3.up_proj.weight": ("F8_E4M3", (64, 64), 4096),
        "model.norm.weight": ("BF16", (8,), 16),
    }
)
TEMPLATE = "{% if tools %}<tool_call>{% endif %}<think>"


@pytest.fixture
def box() -> Box:
    box = Box()
    box.host.put("/m/Org/Name/config.json", json.dumps(configs.LATENT))
    box.host.put("/m/Org/Name/chat_template.jinja", TEMPLATE)
    box.host.put("/m/Org/Name/model.safetensors", WEIGHTS)
    return box


def test_a_folder(box: Box) -> None:
    shown = show_model(box.world(), "/m/Org/Name")
    assert (shown.format, shown.is_whole, shown.reason) == ("safetensors", True, None)
    assert shown.known["names"] == ["Org/Name", "Name"]
    assert shown.known["weight_classes"] == {
        "experts": 4096,
        "keys": 1024,
        "vocabulary": 1024,
        "norms": 16,
    }
    assert [share.tensor for share in shown.shares] == [1, 2, 4, 8, 16]
    assert shown.shares[1].weight_bytes == 2048 + 512 + 512 + 16
    assert not set(shown.known) & set(shown.unknown)


def test_a_division_that_was_asked_for(box: Box) -> None:
    shown = show_model(box.world(), "/m/Org/Name", tensor=4, expert=8)
    held = 4096 // 8 + 1024 // 4 + 1024 // 4 + 16
    assert shown.shares == (RankShare(tensor=4, expert=8, weight_bytes=held),)


def test_the_text_names_what_matters(box: Box) -> None:
    text = render_model(show_model(box.world(), "/m/Org/Name", tensor=2))
    assert "safetensors, DeepseekV32ForCausalLM, deepseek_v32, bfloat16" in text
    assert "mla, 128 heads, 128 key-value heads, 192 wide, 512 of latent" in text
    assert "to chosen tokens only" in text
    assert "fp8-block, called fp8, blocks of 128 x 128" in text
    assert "calls <tool_call>; thoughts <think>; switches tools" in text
    assert "2   1   3.0 KiB" in text
    assert all(line == line.rstrip() for line in text.splitlines())


def test_what_is_not_known_is_named_with_its_reason(box: Box) -> None:
    config = {key: value for key, value in configs.PLAIN.items() if key != "num_key_value_heads"}
    box.host.put("/m/Org/Name/config.json", json.dumps(config))
    shown = show_model(box.world(), "/m/Org/Name")
    assert shown.unknown["kv_heads"] == "config.json gives no num_key_value_heads"
    text = render_model(shown)
    assert "  config.json gives no num_key_value_heads: kv_heads, attention" in text


def test_a_config_alone(box: Box) -> None:
    shown = show_model(box.world(), "/m/Org/Name/config.json")
    assert (shown.format, shown.known["attention"]) == ("unknown", "mla")
    assert shown.shares == ()
    assert "it is a config.json without weights" in render_model(shown)


def test_a_single_file_of_weights(box: Box) -> None:
    shown = show_model(box.world(), "/m/Org/Name/model.safetensors")
    assert shown.format == "safetensors"
    assert shown.unknown["layers"] == "there is no config.json beside the weights"
    assert shown.shares[0].weight_bytes == 6160


def test_a_gguf_file(box: Box) -> None:
    box.host.put("/m/tiny.gguf", build_gguf())
    shown = show_model(box.world(), "/m/tiny.gguf")
    assert (shown.format, shown.known["layers"], shown.shares) == ("gguf", 2, ())
    assert "gguf, llama" in render_model(shown)


def test_a_folder_of_the_hub_is_followed_to_its_snapshot(box: Box) -> None:
    root = "/hub/models--Qwen--Qwen3-8B"
    first, second = "a" * 40, "b" * 40
    box.host.put(f"{root}/snapshots/{first}/config.json", json.dumps(configs.PLAIN))
    shown = show_model(box.world(), root)
    assert shown.path == f"{root}/snapshots/{first}"
    assert (shown.known["names"], shown.known["commit"]) == (["Qwen/Qwen3-8B"], first)
    box.host.put(f"{root}/snapshots/{second}/config.json", json.dumps(configs.PLAIN))
    with pytest.raises(UsageError, match="has 2 snapshots"):
        show_model(box.world(), root)
    box.host.put(f"{root}/refs/main", f"{second}\n")
    assert show_model(box.world(), root).path == f"{root}/snapshots/{second}"


def test_nothing_is_an_error(box: Box) -> None:
    with pytest.raises(UsageError, match="there is nothing at /m/nope"):
        show_model(box.world(), "/m/nope")


def test_a_closed_folder_is_an_error(box: Box) -> None:
    box.host.denied.add("/m/Org")
    with pytest.raises(HostError):
        show_model(box.world(), "/m/Org/Name")


def test_what_a_terminal_would_obey_is_not_printed(box: Box) -> None:
    config = {**configs.PLAIN, "model_type": "evil\x1b[2J\nname"}
    box.host.put("/m/Org/Name/config.json", json.dumps(config))
    shown = show_model(box.world(), "/m/Org/Name")
    assert "evil?[2J?name" in render_model(shown)
    assert "\x1b" not in render_model(shown)


def test_the_document_is_json_with_its_schema(box: Box) -> None:
    document = json.loads(render_document(show_model(box.world(), "/m/Org/Name")))
    assert document["schema"] == ShownModel.SCHEMA
    assert document["known"]["experts"] == 256
    assert document["shares"][0] == {
        "tensor": 1,
        "expert": 1,
        "weight_bytes": 6160,
        "uneven": "",
    }


def test_the_card_of_the_model_is_told(box: Box) -> None:
    card = "Requires SGLang >= 0.5.9.\n\n```\nvllm serve a/b --tensor-parallel-size 4\n```\n"
    box.host.put("/m/Org/Name/README.md", card)
    shown = show_model(box.world(), "/m/Org/Name")
    assert shown.card == ("sglang >=0.5.9", "a tensor size of 4")
    assert "card names    sglang >=0.5.9; a tensor size of 4" in render_model(shown)


def test_a_size_that_does_not_come_out_even_is_marked(box: Box) -> None:
    shown = show_model(box.world(), "/m/Org/Name", tensor=3)
    (share,) = shown.shares
    assert "128 attention heads cannot be divided among 3 GPUs" in share.uneven
    assert "(does not come out even: 128 attention heads cannot be" in render_model(shown)
