"""Every format's case becomes the commands that stand in it."""

from __future__ import annotations

import pytest

from stoker.model.note import Verdict
from stoker.recipes.notes.read import find_format
from tests.recipes.notes.notes import find, read, read_text, with_verdict


def test_a_note_with_two_commands_lists_both_and_takes_none() -> None:
    note = read("nvfp4-note.md")
    assert [(each.engine, each.model, each.line) for each in note.commands] == [
        ("sglang", "nvidia/Some-397B-NVFP4", 9),
        ("vllm", "nvidia/Some-397B-NVFP4", 22),
    ]
    assert (note.chosen, note.settings) == (None, ())
    assert note.commands[0].gpus == '"device=0,1,2,3"'
    assert note.commands[0].release == "0.5.9"
    assert "--env-file ./secrets.env" in note.commands[0].told


def test_a_note_s_command_is_judged_word_by_word() -> None:
    note = read("nvfp4-note.md", 1)
    settings = note.settings
    assert with_verdict(settings, Verdict.TAKEN) == {
        "--tp-size": "4",
        "--fp4-gemm-backend": "flashinfer_cudnn",
        "--mem-fraction-static": "0.85",
        "NCCL_P2P_LEVEL": "SYS",
    }
    assert set(with_verdict(settings, Verdict.WITHHELD)) == {
        "--trust-remote-code",
        "--chat-template",
    }
    assert with_verdict(settings, Verdict.SECRET) == {"--api-key": "", "HF_TOKEN": ""}
    assert with_verdict(settings, Verdict.OVERRIDDEN) == {"--mem-fraction-static": "0.8"}
    assert with_verdict(settings, Verdict.ELSEWHERE) == {
        "--model-path": "nvidia/Some-397B-NVFP4",
        "--host": "0.0.0.0",
        "--port": "30000",
    }


def test_a_field_s_name_becomes_the_flag_and_says_so() -> None:
    found = find(read("nvfp4-note.md", 1), "--fp4-gemm-backend")
    assert found.written == "--fp4-gemm-runner-backend"
    assert "name of a field" in found.renamed
    assert "0.5.8 to 0.5.23" in found.renamed


def test_sentences_are_loose_and_taken_only_when_named() -> None:
    note = read("nvfp4-note.md", 1)
    assert with_verdict(note.loose, Verdict.LEFT) == {
        "--moe-runner-backend": "flashinfer_cutlass",
        "--attention-backend": "triton",
        "--tp-size": "8",
    }
    assert note.remarks == ("--tp-size is 4 in the command and 8 in line 5",)
    wanted = read("nvfp4-note.md", 1, take="moe-runner-backend")
    assert with_verdict(wanted.loose, Verdict.TAKEN) == {
        "--moe-runner-backend": "flashinfer_cutlass"
    }


def test_output_behind_a_prompt_is_no_command() -> None:
    note = read("nvfp4-note.md", 2)
    assert with_verdict(note.settings, Verdict.TAKEN) == {"-tp": "4", "--max-model-len": "4096"}
    assert with_verdict(note.settings, Verdict.UNKNOWN) == {"--port": ""}


def test_a_script() -> None:
    note = read("start.sh")
    assert note.commands[0].model == "Qwen/Qwen3-8B"
    taken = with_verdict(note.settings, Verdict.TAKEN)
    assert taken == {
        "--tp-size": "2",
        "--mem-fraction-static": "0.85",
        "--reasoning-parser": "qwen3",
        "NCCL_DEBUG": "WARN",
        "SGLANG_ENABLE_SPEC_V2": "1",
    }
    unknown = with_verdict(note.settings, Verdict.UNKNOWN)
    assert set(unknown) == {"--log-level", "--dist-init-addr", "--watchdog-timeout"}
    assert find(note, "--tp-size").variables == ("ARGS", "TP")


def test_a_unit() -> None:
    note = read("engine.service")
    (command,) = note.commands
    assert (command.engine, command.model, command.gpus) == ("vllm", "Qwen/Qwen3-8B", "2,3")
    taken = with_verdict(note.settings, Verdict.TAKEN)
    assert taken == {
        "--tensor-parallel-size": "4",
        "--max-model-len": "8192",
        "VLLM_USE_DEEP_GEMM": "0",
    }
    assert find(note, "--tensor-parallel-size").variables == ("SIZE",)
    assert {"--seed", "--hf-overrides"} <= set(with_verdict(note.settings, Verdict.UNKNOWN))
    assert any("secrets.env are not read" in remark for remark in note.remarks)


def test_a_compose_file() -> None:
    note = read("compose.yaml")
    assert [(each.engine, each.place, each.model) for each in note.commands] == [
        ("sglang", "service sglang", ""),
        ("vllm", "service vllm", "Qwen/Qwen3-8B"),
        ("vllm", "service bare", "Qwen/Qwen3-4B"),
    ]
    first = read("compose.yaml", 1)
    assert first.commands[0].gpus == "device=0,1"
    assert first.release == "0.5.16"
    assert with_verdict(first.settings, Verdict.TAKEN) == {
        "--tp-size": "2",
        "--context-length": "8192",
        "NCCL_P2P_DISABLE": "1",
    }
    assert "shm_size: 16g" in first.commands[0].told
    second = read("compose.yaml", 2)
    assert set(with_verdict(second.settings, Verdict.UNKNOWN)) == {"--port"}
    assert set(with_verdict(second.settings, Verdict.SECRET)) == {"HF_TOKEN"}


def test_a_manifest_of_a_cluster() -> None:
    note = read("pod.yaml")
    assert [(each.engine, each.model, each.gpus) for each in note.commands] == [
        ("vllm", "openai/gpt-oss-120b", "4"),
        ("sglang", "Qwen/Qwen3-8B", ""),
    ]
    first = read("pod.yaml", 1)
    assert set(with_verdict(first.settings, Verdict.SECRET)) == {"--api-key", "KEY"}
    second = read("pod.yaml", 2)
    assert with_verdict(second.settings, Verdict.TAKEN) == {
        "--tp-size": "2",
        "SGLANG_ENABLE_SPEC_V2": "1",
    }


def test_an_engine_s_own_file_of_settings() -> None:
    note = read("vllm.yaml")
    assert (note.engine, note.model) == ("vllm", "Qwen/Qwen3-8B")
    assert with_verdict(note.settings, Verdict.TAKEN) == {
        "--tensor-parallel-size": "2",
        "--enable-prefix-caching": "",
        "--gpu-memory-utilization": "0.9",
        "--speculative-config": '{"method":"ngram","num_speculative_tokens":3}',
    }


def test_a_file_of_settings_in_json_with_its_engine_named() -> None:
    text = '{"model-path": "a/b", "tp-size": 2, "made-up": 1}'
    note = read_text(text, name="x.json", engine="sglang")
    assert with_verdict(note.settings, Verdict.TAKEN) == {"--tp-size": "2"}
    assert set(with_verdict(note.settings, Verdict.FOREIGN)) == {"--made-up"}
    assert read_text('{"a": 1}', name="x.json").commands == ()


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        ("x", "a.md", "markdown"),
        ("x", "a.service", "unit"),
        ("x", "a.sh", "shell"),
        ("x", "a.yml", "manifest"),
        ("#!/bin/sh\nx", "start", "shell"),
        ("[Unit]\n[Service]\n", "engine", "unit"),
        ("services:\n  a: {}\n", "compose", "manifest"),
        ("Just words", "raw", "markdown"),
    ],
)
def test_the_format(text: str, name: str, expected: str) -> None:
    assert find_format(text, name) == expected


def test_plain_words_with_a_command_on_a_line() -> None:
    note = read_text("Works for me:\n\nvllm serve a/b --max-num-seqs 4 \\\n  --port 1\n\nBye.\n")
    assert with_verdict(note.settings, Verdict.TAKEN) == {"--max-num-seqs": "4"}
    assert read_text("I would vllm serve a/b if I could, and then --port it.").commands == ()


def test_a_note_without_a_command_still_names_flags() -> None:
    text = "On SM120 set fp4 to `fp4_gemm_runner_backend=flashinfer_cudnn`, not the default."
    note = read_text(text)
    assert (note.engine, note.commands) == ("sglang", ())
    assert with_verdict(note.loose, Verdict.LEFT) == {"--fp4-gemm-backend": "flashinfer_cudnn"}


def test_a_command_may_be_chosen_by_its_engine() -> None:
    text = "```\nvllm serve a/b\n```\n```\nsglang serve --model-path a/b --tp 2\n```\n"
    assert read_text(text).chosen is None
    assert read_text(text, engine="sglang").chosen == 2


def test_the_same_command_twice_counts_once() -> None:
    assert read_text("```\nvllm serve a/b\n```\n\n```\nvllm serve a/b\n```\n").chosen == 1
