"""`stoker adopt` of a running vLLM: its model is a word, and what is written plans the same."""

from __future__ import annotations

import pytest

from stoker.model.facts import Plain
from tests.commands.boxes import Box
from tests.commands.test_adopt import adopt, box, read

__all__ = ["box"]

MODEL = "/models/smol"


def run_vllm(box: Box, argv: list[str], *, env: dict[str, str] | None = None) -> None:
    box.host.put_folder(MODEL)
    box.host.put_folder("/v/bin")
    for name in ("python", "vllm"):
        box.host.put(f"/v/bin/{name}", "#!", mode=0o755)
    box.run(500, argv, exe="/usr/bin/python3.12", env=env or {})
    box.listen(500, 8000)


@pytest.mark.parametrize(
    ("words", "settings", "serve"),
    [
        ([], {}, {}),
        (["--max-model-len", "4096"], {}, {"context_tokens": 4096}),
        (["--max-num-seqs", "8"], {}, {"parallel_requests": 8}),
        (["--enforce-eager", "--gpu-memory-utilization=0.8"],
         {"enforce-eager": True, "gpu-memory-utilization": 0.8}, {}),
        (["--speculative-config", '{"method": "ngram", "num_speculative_tokens": 4}'],
         {"speculative-config": '{"method": "ngram", "num_speculative_tokens": 4}'}, {}),
    ],
)  # fmt: skip
def test_a_server_by_hand(
    box: Box, words: list[str], settings: dict[str, Plain], serve: dict[str, Plain]
) -> None:
    box.published = "a-model"
    argv = ["/v/bin/python", "/v/bin/vllm", "serve", MODEL, "--served-model-name", "a-model"]
    run_vllm(box, [*argv, *words])
    adopt(box)
    found = read(box)
    assert found["model"] == {"ref": f"path:{MODEL}"}
    assert found["engine"] == {
        "kind": "vllm",
        "environment": "path:/v/bin/vllm",
        **({"settings": settings} if settings else {}),
    }
    assert {key: found["serve"].get(key) for key in serve} == serve
    assert found["serve"]["port"] == 8000


def test_its_key_goes_to_a_file(box: Box) -> None:
    box.published = "a-model"
    argv = ["/v/bin/python", "/v/bin/vllm", "serve", MODEL]
    run_vllm(box, [*argv, "--api-key", "s3cret-of-mine"])
    found = adopt(box)
    assert "api_key_file" in read(box)["serve"]
    assert "s3cret-of-mine" not in str(found)


def test_one_started_as_a_module(box: Box) -> None:
    box.published = "a-model"
    run_vllm(box, ["/v/bin/python", "-m", "vllm.entrypoints.openai.api_server", "--model", MODEL])
    adopt(box)
    assert read(box)["engine"] == {"kind": "vllm", "environment": "path:/v"}


def test_sglang_by_its_newer_command_is_started_by_the_other(box: Box) -> None:
    box.published = "a-model"
    box.host.put_folder(MODEL)
    for name in ("python3", "sglang"):
        box.host.put(f"/v/bin/{name}", "#!", mode=0o755)
    argv = ["/v/bin/python3", "/v/bin/sglang", "serve", "--model-path", MODEL]
    box.run(500, argv, exe="/usr/bin/python3.12")
    box.listen(500, 30000)
    adopt(box)
    assert read(box)["engine"] == {"kind": "sglang", "environment": "path:/v"}
