"""Which variables matter, whose they are, and which are secret."""

from __future__ import annotations

import pytest

from stoker.knowledge.variables import load_variables
from stoker.model.deployment_fields import is_secret_name

VARIABLES = load_variables()


@pytest.mark.parametrize(
    "name",
    [
        "NCCL_DEBUG", "CUDA_VISIBLE_DEVICES", "SGLANG_X", "VLLM_X", "TORCH_X", "PYTORCH_ALLOC_CONF",
        "FLASHINFER_X", "TRITON_CACHE_DIR", "LD_PRELOAD", "LD_LIBRARY_PATH", "OMP_NUM_THREADS",
        "GGML_X", "LLAMA_ARG_PORT", "HF_HOME", "UCX_NET_DEVICES", "NVIDIA_X", "TP_SOCKET_IFNAME",
        "GLOO_SOCKET_IFNAME", "SAFETENSORS_FAST_GPU", "HIP_VISIBLE_DEVICES", "https_proxy",
        "PYTHONPATH", "HUGGING_FACE_HUB_TOKEN", "MASTER_PORT",
    ],
)  # fmt: skip
def test_what_engines_read(name: str) -> None:
    assert VARIABLES.matters(name)
    assert not VARIABLES.is_own(name)


@pytest.mark.parametrize("name", ["", "NCCL", "XNCCL_DEBUG", "nccl_debug", "LD", "FOO", "PATH"])
def test_what_they_do_not(name: str) -> None:
    assert not VARIABLES.matters(name)


def test_whose_they_are() -> None:
    for name in ("STOKER_DIGEST", "INVOCATION_ID", "NOTIFY_SOCKET", "SUPERVISOR_ENABLED"):
        assert VARIABLES.is_own(name)
    for name in ("PATH", "SSH_TTY", "LC_ALL", "_", "TMUX", "BASH_FUNC_x%%"):
        assert VARIABLES.is_usual(name)
    assert not VARIABLES.is_usual("FOO")
    assert VARIABLES.holds_paths("LD_LIBRARY_PATH")
    assert not VARIABLES.holds_paths("NCCL_DEBUG")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HF_TOKEN", "x"),
        ("api-key", "x"),
        ("OPENAI_API_KEY", "x"),
        ("AWS_SECRET_ACCESS_KEY", "x"),
        ("PGPASSWORD", "x"),
        ("MY_PASSPHRASE", "x"),
        ("GITHUB_PAT", "x"),
        ("http_proxy", "http://ann:pass@host:1/"),
        ("x", "https://:token@host"),
        ("x", "use hf_0123456789abcdefghij now"),
        ("x", "sk-0123456789abcdef"),
        ("x", '{"headers": {"Authorization": "Basic eA=="}}'),
        ("x", '{"my-api-key": "v"}'),
        ("x", "Bearer abcdefgh12"),
    ],
)
def test_secrets(name: str, value: str) -> None:
    assert VARIABLES.is_secret(name, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HF_TOKEN", ""),
        ("HF_TOKEN_PATH", "/x"),
        ("ssl-key-file", "/x"),
        ("AWS_ACCESS_KEY_ID", "x"),
        ("SSH_AUTH_SOCK", "/x"),
        ("MAX_TOKENS", "5"),
        ("TOKENIZERS_PARALLELISM", "false"),
        ("HF_HOME", "/monkey/keys"),
        ("http_proxy", "http://host:1"),
        ("x", "git@host:path"),
        ("x", '{"tokenizer": "a", "max_tokens": "5"}'),
        ("x", "hf_short"),
        ("x", "task-0123456789abcdef0123"),
    ],
)
def test_no_secrets(name: str, value: str) -> None:
    assert not VARIABLES.is_secret(name, value)


def test_no_name_that_a_deployment_refuses_passes_for_harmless() -> None:
    for name in ("A_KEY_METHOD", "TOKEN_SOCK", "keys"):
        assert is_secret_name(name)
        assert VARIABLES.is_secret(name, "x")
