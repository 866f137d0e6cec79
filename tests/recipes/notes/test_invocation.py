"""A server is found in whatever its command is wrapped in."""

from __future__ import annotations

import pytest

from stoker.recipes.notes.invocation import Invocation, find_invocations, release_of
from stoker.recipes.notes.shell import read_commands
from stoker.recipes.notes.text import has_mark


def invocations(text: str, *, is_prose: bool = False) -> list[Invocation]:
    return [
        each
        for command in read_commands(text)
        for each in find_invocations(command, is_prose=is_prose)
    ]


@pytest.mark.parametrize(
    ("text", "kind", "flags"),
    [
        ("python -m sglang.launch_server --tp 2", "sglang", ("--tp", "2")),
        ("python3.12 -u -m sglang.launch_server --tp 2", "sglang", ("--tp", "2")),
        ("sglang serve --model-path a", "sglang", ("--model-path", "a")),
        ("vllm serve a/b --port 1", "vllm", ("a/b", "--port", "1")),
        ("python -m vllm.entrypoints.openai.api_server --model a", "vllm", ("--model", "a")),
        ("./build/bin/llama-server -m a.gguf -ngl 9", "llamacpp", ("-m", "a.gguf", "-ngl", "9")),
        ("exec env A=b C=d vllm serve x", "vllm", ("x",)),
        ("sudo -u llm -E nohup vllm serve x", "vllm", ("x",)),
        ("numactl -N 0 -m 0 vllm serve x", "vllm", ("x",)),
        ("timeout -k 5 1h vllm serve x", "vllm", ("x",)),
        ("taskset -c 0-3 vllm serve x", "vllm", ("x",)),
        ("uv run --with vllm vllm serve x", "vllm", ("x",)),
        ("bash -lc 'cd /x && exec vllm serve y'", "vllm", ("y",)),
        ("srun -N 2 --gres gpu:8 vllm serve x", "vllm", ("x",)),
        ('"$VENV/bin/python" -m sglang.launch_server --tp 1', "sglang", ("--tp", "1")),
        ("$PYTHON -m sglang.launch_server --tp 1", "sglang", ("--tp", "1")),
        ("docker run vllm/vllm-openai:v0.19.1 --model a", "vllm", ("--model", "a")),
        ("docker run -dit --rm vllm/vllm-openai a/b", "vllm", ("a/b",)),
        ("podman run --entrypoint vllm img serve a", "vllm", ("a",)),
        ("docker container run ghcr.io/ggml-org/llama.cpp:server -m a", "llamacpp", ("-m", "a")),
        (
            "docker run --gpus=all lmsysorg/sglang:latest sglang serve --tp 1",
            "sglang",
            ("--tp", "1"),
        ),
        ("docker run img bash -c 'vllm serve a'", "vllm", ("a",)),
    ],
)
def test_a_server_is_found(text: str, kind: str, flags: tuple[str, ...]) -> None:
    (found,) = invocations(text)
    assert (found.server.kind, found.server.flags) == (kind, flags)


@pytest.mark.parametrize(
    "text",
    [
        "echo vllm serve x",
        "pkill -f 'vllm serve'",
        "pip install vllm serve",
        "docker pull vllm/vllm-openai",
        "docker run nginx --model a",
        "python -m sglang.bench_serving --x",
        'bash -c "$(curl https://example.org) vllm serve"',
        "vllm bench serve",
    ],
)
def test_what_only_speaks_of_a_server_is_none(text: str) -> None:
    assert invocations(text) == []


def test_in_prose_a_server_must_come_first() -> None:
    assert invocations("Then run vllm serve x", is_prose=True) == []
    assert len(invocations("vllm serve x", is_prose=True)) == 1


def test_variables_of_all_wrappings_reach_it() -> None:
    (found,) = invocations(
        "export A=1\nB=2 docker run -e C=3 --env=D=4 -e E img env F=5 vllm serve x"
    )
    texts = {name: word.text for name, word in found.env.items()}
    assert has_mark(texts.pop("E"))
    assert texts == {"A": "1", "B": "2", "C": "3", "D": "4", "F": "5"}


def test_an_image_tells_gpus_and_release_and_what_is_around() -> None:
    (found,) = invocations(
        "docker run --gpus '\"device=0,1\"' --shm-size 8g -v /a:/b vllm/vllm-openai:v0.19.1-x86 a"
    )
    assert (found.gpus, found.image) == ('"device=0,1"', "vllm/vllm-openai:v0.19.1-x86")
    assert found.told == ("--shm-size 8g", "-v /a:/b")


@pytest.mark.parametrize(
    ("image", "release"),
    [
        ("lmsysorg/sglang:v0.5.9-cu130", "0.5.9"),
        ("docker.io/lmsysorg/sglang:v0.5.12.post1", "0.5.12.post1"),
        ("lmsysorg/sglang:latest", ""),
        ("lmsysorg/sglang", ""),
        ("registry:5000/vllm/vllm-openai:v0.25.0@sha256:0", "0.25.0"),
        ("ghcr.io/ggml-org/llama.cpp:server-cuda-b4719", "b4719"),
        ("nginx:v0.5.9", ""),
    ],
)
def test_the_release_of_an_image(image: str, release: str) -> None:
    assert release_of(image) == release


def test_shells_in_shells_end() -> None:
    text = "vllm serve x"
    for _ in range(8):
        text = f"bash -c {text!r}"
    assert invocations(text) == []
