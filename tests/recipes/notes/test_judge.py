"""What becomes of single words: names, values, secrets, consent."""

from __future__ import annotations

import pytest

from stoker.errors import UsageError
from stoker.model.note import NotedSetting, Verdict
from tests.recipes.notes.notes import find, read, read_text, with_verdict


def judged(flags: str, *, engine: str = "sglang", consent: str = "") -> tuple[NotedSetting, ...]:
    command = {"sglang": "sglang serve --model-path a/b", "vllm": "vllm serve a/b"}[engine]
    return read_text(f"```\n{command} {flags}\n```\n", consent=consent).settings[1:]


def one(flags: str, *, engine: str = "sglang", consent: str = "") -> NotedSetting:
    (setting,) = judged(flags, engine=engine, consent=consent)
    return setting


@pytest.mark.parametrize(
    ("flags", "name", "values"),
    [
        ("--tp-size 2", "--tp-size", ("2",)),
        ("--tp_size=2", "--tp-size", ("2",)),
        ("--tp 2", "--tp-size", ("2",)),
        ("--disable-radix-cache", "--disable-radix-cache", ()),
        ("--cuda-graph-bs-decode 1 2 4", "--cuda-graph-bs-decode", ("1", "2", "4")),
        ("--fp8-gemm-runner-backend triton", "--fp8-gemm-backend", ("triton",)),
    ],
)
def test_names_of_one_engine(flags: str, name: str, values: tuple[str, ...]) -> None:
    found = one(flags)
    assert (found.name, found.values, found.verdict) == (name, values, Verdict.TAKEN)


@pytest.mark.parametrize(
    ("flags", "name", "values"),
    [
        ("-tp 2", "-tp", ("2",)),
        ("-O3", "--optimization-level", ("3",)),
        ("--max-model-len 16k", "--max-model-len", ("16k",)),
        (
            '--speculative-config \'{"method": "mtp"}\'',
            "--speculative-config",
            ('{"method": "mtp"}',),
        ),
        ("--kernel-config.moe_backend triton", "--kernel-config.moe_backend", ("triton",)),
        ("--no-enable-prefix-caching", "--no-enable-prefix-caching", ()),
    ],
)
def test_names_of_another(flags: str, name: str, values: tuple[str, ...]) -> None:
    found = one(flags, engine="vllm")
    assert (found.name, found.values, found.verdict) == (name, values, Verdict.TAKEN)


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ("--attention-backennd triton", "--attention-backend is spelled most like it"),
        ("--enforce-piecewise-cuda-graph", "it was there in"),
        ("--gpu-memory-utilization 0.9", "it is a flag of vllm"),
        ("--tp-size two", "takes no 'two'"),
        ("--attention-backend slow", "takes no 'slow'"),
    ],
)
def test_what_a_release_does_not_have(flags: str, says: str) -> None:
    found = one(flags)
    assert found.verdict is Verdict.FOREIGN
    assert says in found.reason


def test_words_that_belong_to_no_flag() -> None:
    by_name = {each.name: each.verdict for each in judged("--disable-radix-cache true $EXTRA")}
    assert by_name == {
        "--disable-radix-cache": Verdict.TAKEN,
        "true": Verdict.FOREIGN,
        "$EXTRA": Verdict.UNKNOWN,
    }


def test_a_flag_takes_no_more_words_than_its_own() -> None:
    by_name = {each.name: each.values for each in judged("--tp-size 2 $EXTRA --dp-size 1")}
    assert by_name["--tp-size"] == ("2",)


@pytest.mark.parametrize(
    "flags", ["--port", "--tp-size --dp-size 1", "--tp-size $(nproc)", "--tp-size a\u202eb"]
)
def test_a_value_that_is_not_there(flags: str) -> None:
    assert judged(flags)[0].verdict is Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("flags", "name"),
    [
        ("--api-key abc", "--api-key"),
        ("--api-key $KEY", "--api-key"),
        ("--admin-api-key=abc", "--admin-api-key"),
        ("--revision hf_abcdefghijklmnopqrstuvwxyz0123", "--revision"),
        ('--model-loader-extra-config \'{"api_key":"hunter2"}\'', "--model-loader-extra-config"),
        ("--download-dir s3://me:hunter2@bucket/x", "--download-dir"),
    ],
)
def test_secrets_are_named_and_not_kept(flags: str, name: str) -> None:
    note = read_text(f"```\nsglang serve --model-path a/b {flags}\n```\n")
    found = find(note, name)
    assert (found.verdict, found.values) == (Verdict.SECRET, ())
    value = "hunter2" if "hunter2" in flags else flags.replace("=", " ").split()[1]
    assert value.startswith("$") or value not in repr(note)


def test_secrets_in_what_is_unknown_are_not_shown() -> None:
    token = "hf_abcdefghijklmnopqrstuvwxyz0123"
    text = f"```\nTOKEN=x\nvllm serve a/b --seed ${{SEED:-{token}}} --nope {token} {token}\n```\n"
    assert token not in repr(read_text(text))


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ("--trust-remote-code", "trust-remote-code"),
        ("--chat-template ./x.jinja", "chat-template"),
        ("--chat-template /opt/x", "chat-template"),
        ("--tokenizer-path ~/x", None),
        ("--enable-custom-logit-processor", "enable-custom-logit-processor"),
        (
            "--model-loader-extra-config '{\"trust_remote_code\": true}'",
            "model-loader-extra-config",
        ),
        ("--dist-init-addr 0.0.0.0:5000", "dist-init-addr"),
    ],
)
def test_flags_that_need_consent(words: str, what: str | None) -> None:
    found = one(words)
    if what is None:  # the home folder is not known at all
        assert found.verdict is Verdict.UNKNOWN
        return
    assert (found.verdict, found.what) == (Verdict.WITHHELD, what)
    assert one(words, consent=what).verdict is Verdict.TAKEN


@pytest.mark.parametrize(
    "name",
    ["LD_PRELOAD", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONSTARTUP", "NCCL_TOPO_FILE", "PATH"],
)
def test_variables_that_need_consent(name: str) -> None:
    text = f"```\n{name}=x vllm serve a/b\n```\n"
    assert find(read_text(text), name).verdict is Verdict.WITHHELD
    if name != "PATH":
        assert find(read_text(text, consent=name), name).verdict is not Verdict.WITHHELD


def test_consent_is_for_one_thing_only() -> None:
    settings = judged("--trust-remote-code --chat-template ./x", consent="chat-template")
    assert with_verdict(settings, Verdict.WITHHELD) == {"--trust-remote-code": ""}


def test_every_address_is_told_and_not_taken() -> None:
    found = one("--host 0.0.0.0")
    assert (found.verdict, found.key) == (Verdict.ELSEWHERE, "serve.host")
    assert "everybody" in found.reason


def test_a_variable_that_nobody_reads_is_left_out() -> None:
    text = "```\nFOO=1 VLLM_NO_SUCH_THING=1 vllm serve a/b\n```\n"
    note = read_text(text)
    assert find(note, "FOO").verdict is Verdict.FOREIGN
    assert "declares no such variable" in find(note, "VLLM_NO_SUCH_THING").reason


def test_the_release_decides_about_names() -> None:
    old = read("nvfp4-note.md", 1, release="0.5.6")
    assert "--fp4-gemm-backend" not in with_verdict(old.settings, Verdict.TAKEN)
    with pytest.raises(UsageError, match="old"):
        read("nvfp4-note.md", 1, release="0.1.0")


def test_a_command_that_is_not_there() -> None:
    with pytest.raises(UsageError, match="there is no command 3"):
        read("nvfp4-note.md", 3)
    with pytest.raises(UsageError, match="none of the engine commands"):
        read_text("```\nvllm serve a/b\n```\n", engine="sglang")
