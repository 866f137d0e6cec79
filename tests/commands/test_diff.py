"""`stoker diff` on machines in memory: what counts as a difference, and what names a side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from stoker.commands.diff import diff_sides
from stoker.errors import StateError, StokerError, UsageError
from stoker.model.comparison import Comparison
from stoker.model.document import render_document
from stoker.model.launch import Launch, Readiness, SecretFile
from stoker.model.layout import run_plan_path
from stoker.planning.plan import plan_id
from stoker.report.comparison_text import render_comparison
from tests.commands.boxes import ENGINE, MODEL, Box
from tests.laws.worlds import FOLDERS, NAME, Machine, apply_variant, make_generation

TOKEN = "hf_0123456789abcdefghij"
BASE = (ENGINE, "-m", MODEL)
SGLANG = ("/v/bin/python", "-m", "sglang.launch_server")
#: A difference in short: what, name, A, B.
Row = tuple[str, str, str | None, str | None]


@pytest.fixture
def box() -> Box:
    return Box()


def compare(
    box: Box,
    a: Sequence[str],
    b: Sequence[str],
    env_a: Mapping[str, str] | None = None,
    env_b: Mapping[str, str] | None = None,
) -> Comparison:
    """Two processes of root's."""
    box.run(500, a, env_a)
    box.run(600, b, env_b)
    return diff_sides(box.world(), "pid:500", "pid:600")


def rows(comparison: Comparison) -> list[Row]:
    return [(each.what, each.name, each.a, each.b) for each in comparison.differences]


# What is the same.


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((), ()),
        (("-c", "512", "-t", "1"), ("-t", "1", "--ctx-size", "512")),
        (("--ctx_size", "512"), ("-c", "512")),
        (("-c", "1", "-c", "512"), ("-c", "512")),
        (("--temp", "0.50"), ("--temp", "0.5")),
        (("-nkvo",), ("--no-kv-offload",)),
        (("--jinja", "--no-jinja"), ("--no-jinja",)),
        (("--mmproj", "x/../mm.gguf"), ("--mmproj", "/home/ann/mm.gguf")),
        (("--lora", "a,./b"), ("--lora", "/home/ann/a,/home/ann/b")),
        (("--lora-scaled", "a:0.5"), ("--lora-scaled", "/home/ann/a:0.5")),
        (("-r", "a", "-r", "b"), ("--reverse-prompt", "a", "--reverse-prompt", "b")),
        (("--api-key", "k1,k2"), ("--api-key", "k2", "--api-key", "k1")),
        (("--tags", "--port"), ("--tags", "--port")),
    ],
)
def test_the_same_in_other_words(box: Box, a: tuple[str, ...], b: tuple[str, ...]) -> None:
    found = compare(box, (*BASE, *a), (*BASE, *b))
    assert rows(found) == []
    assert found.is_same
    assert found.same_by_default == ()


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        (("--jinja",), ("--jinja",)),
        (("-b", "2048.0"), ("--batch-size",)),
        (("-c", "0"), ("--ctx-size",)),
        (("-ctk", "f16"), ("--cache-type-k",)),
        (("--cache-ram", "8192"), ("--cache-ram",)),
        (("-np", "-1"), ("--parallel",)),
        (("--host", "127.0.0.1"), ("--host",)),
    ],
)
def test_a_default_that_is_written_down(
    box: Box, flags: tuple[str, ...], names: tuple[str, ...]
) -> None:
    found = compare(box, BASE, (*BASE, *flags))
    assert (rows(found), found.same_by_default) == ([], names)
    assert compare(box, (*BASE, *flags), BASE).same_by_default == names
    assert names[0] in render_comparison(found)


@pytest.mark.parametrize(
    "flags",
    [
        ("--no-jinja",),
        ("-b", "2049"),
        ("--slot-save-path", "disabled"),
        ("--threads-batch", "same as --threads"),
        ("--cors-methods", "GET"),
        ("--api-key", "none"),
        ("--nobody-knows", "1"),
    ],
)
def test_what_is_no_default(box: Box, flags: tuple[str, ...]) -> None:
    found = compare(box, BASE, (*BASE, *flags))
    assert len(found.differences) == 1
    assert found.same_by_default == ()


def test_a_variable_in_a_flags_stead(box: Box) -> None:
    env = {"LLAMA_ARG_THREADS": "2", "LLAMA_ARG_JINJA": "false", "LLAMA_API_KEY": "a-key-of-ours"}
    flags = ("--threads", "2", "--no-jinja", "--api-key", "a-key-of-ours")
    assert compare(box, BASE, (*BASE, *flags), env).is_same
    found = compare(box, BASE, (*BASE, "-t", "3"), {"LLAMA_ARG_THREADS": "2"})
    assert rows(found) == [("flag", "--threads", "2", "3")]
    found = compare(box, (*BASE, "-t", "3"), (*BASE, "-t", "3"), {"LLAMA_ARG_THREADS": "2"})
    assert found.is_same


def test_keys_are_compared_wherever_they_are(box: Box) -> None:
    box.host.put("/home/ann/keys", "k1-k1-k1\nk2-k2-k2\n")
    file, words = ("--api-key-file", "keys"), ("--api-key", "k2-k2-k2,k1-k1-k1")
    assert compare(box, (*BASE, *file), (*BASE, *words)).is_same
    box.host.put("/home/ann/keys", "k1-k1-k1\n")
    found = compare(box, (*BASE, *file), (*BASE, *words))
    assert rows(found) == [("flag", "--api-key", "***", "***")]
    assert found.differences[0].note == "the secrets differ"
    box.host.remove_file("/home/ann/keys")
    found = compare(box, (*BASE, *file), (*BASE, *file))
    assert found.differences[0].note == "its file cannot be read; its file cannot be read"


# What differs.


def test_every_kind_of_difference(box: Box) -> None:
    box.run(500, (*BASE, "-t", "1", "--slots", "-r", "a", "-r", "b"), {"NCCL_DEBUG": "INFO"})
    box.run(
        600,
        ("/opt/b/llama-server", "-m", MODEL, "-t", "2", "-r", "b", "-r", "a", "--props"),
        {"OMP_NUM_THREADS": "", "NCCL_DEBUG": "WARN"},
        exe="/opt/b/llama-server",
        uid=1000,
    )
    found = diff_sides(box.world(), "pid:500", "pid:600")
    assert rows(found) == [
        ("program", "program", ENGINE, "/opt/b/llama-server"),
        ("user", "user", "root", "ann"),
        ("flag", "--props", None, "on"),
        ("flag", "--reverse-prompt", "a, b", "b, a"),
        ("flag", "--threads", "1", "2"),
        ("variable", "NCCL_DEBUG", "INFO", "WARN"),
        ("variable", "OMP_NUM_THREADS", None, '""'),
    ]
    assert (found.equal_count, found.same_by_default) == (2, ("--slots",))
    text = render_comparison(found)
    assert "NAME              A: pid:500               B: pid:600" in text
    assert '$OMP_NUM_THREADS  (not set)                ""' in text
    assert text.endswith(
        "7 different, 2 equal.\nSame by default, written on one side only: --slots\n"
    )


def test_only_what_engines_read_unless_all_is_asked_for(box: Box) -> None:
    box.run(500, BASE, {"TERM": "xterm", "NCCL_X": "1", "INVOCATION_ID": "a", "STOKER_DIGEST": "1"})
    box.run(600, BASE, {"TERM": "tmux", "NCCL_X": "1", "NOTIFY_SOCKET": "/x"})
    assert diff_sides(box.world(), "pid:500", "pid:600").is_same
    found = diff_sides(box.world(), "pid:500", "pid:600", compares_all=True)
    assert rows(found) == [("variable", "TERM", "xterm", "tmux")]


def test_secrets_are_compared_and_never_shown(box: Box) -> None:
    env = {
        "HF_TOKEN": TOKEN,
        "S3_SECRET_ACCESS_KEY": "one-secret",
        "http_proxy": "http://ann:pass-word-1@proxy:1",
    }
    other = {
        "HF_TOKEN": f"{TOKEN}x",
        "S3_SECRET_ACCESS_KEY": "other-secret",
        "http_proxy": "http://proxy:1",
    }
    flags = ("--admin-api-key", "admin-one", "--tags", TOKEN)
    found = compare(box, (*BASE, *flags), (*BASE, "--admin-api-key", "admin-two"), env, other)
    assert rows(found) == [
        ("flag", "--admin-api-key", "***", "***"),
        ("flag", "--hf-token", "***", "***"),
        ("flag", "--tags", "***", None),
        ("variable", "S3_SECRET_ACCESS_KEY", "***", "***"),
        ("variable", "http_proxy", "***", "http://proxy:1"),
    ]
    shown = render_comparison(found) + render_document(found) + repr(found)
    for secret in (TOKEN, "one-secret", "other-secret", "pass-word-1", "admin-one", "admin-two"):
        assert secret not in shown
    assert compare(box, (*BASE, *flags), (*BASE, *flags), env, env).is_same


def test_nothing_reaches_the_terminal_as_a_command(box: Box) -> None:
    argv = (*BASE, "--x\x1b]0;", "\x9b2J\u202e", "--grammar", "a\nb")
    box.run(500, argv, {"NCCL_\x1b[2J": "\x07"})
    box.run(600, [*BASE, b"\xff\xfe", "--grammar", b"\xc3("], uid=1001)
    found = diff_sides(box.world(), "pid:500", "pid:600")
    text = render_comparison(found) + render_document(found)
    assert all(each.isprintable() or each == "\n" for each in text), ascii(text)
    assert ("flag", "--x\\x1b]0;", "\\x9b2J\\u202e", None) in rows(found)
    assert ("flag", "--grammar", "a\\nb", "\\xc3(") in rows(found)
    assert ("variable", "NCCL_\\x1b[2J", "\\x07", None) in rows(found)


def test_long_values_stand_below_their_name(box: Box) -> None:
    found = compare(box, (*BASE, "--grammar", "x" * 60), (*BASE, "--grammar", "x" * 60 + "y"))
    lines = render_comparison(found).splitlines()
    assert lines[:3] == ["--grammar", f"  A: {'x' * 60}", f"  B: {'x' * 60}y"]


# Engines without a table, and programs that nobody knows.


def test_an_engine_without_a_table_is_compared_as_it_is_written(box: Box) -> None:
    a = (
        *SGLANG,
        "--model-path",
        "org/m",
        "--tp_size=2",
        "--trust-remote-code",
        "--x",
        "-1",
        "--api-key",
        "the-first-key",
        "--served-model-name",
        "a",
        "b",
        "--mem-fraction-static=0.8",
    )
    b = (
        *SGLANG,
        "--tp-size",
        "2",
        "--mem-fraction-static",
        "0.9",
        "--served-model-name",
        "a",
        "b",
        "--x=-1",
        "--api-key=the-other-key",
        "--model-path",
        "org/m",
        "--trust-remote-code",
    )
    box.run(500, a, exe="/usr/bin/python3")
    box.run(600, b, exe="/usr/bin/python3")
    found = diff_sides(box.world(), "pid:500", "pid:600")
    assert rows(found) == [
        ("flag", "--api-key", "***", "***"),
        ("flag", "--mem-fraction-static", "0.8", "0.9"),
    ]


def test_a_model_may_be_a_path_or_a_name(box: Box) -> None:
    box.host.put_folder("/home/ann/org/here")
    for name, same in (("org/here", True), ("org/there", False)):
        box.run(500, (*SGLANG, "--model-path", name), exe="/usr/bin/python3")
        box.run(600, (*SGLANG, "--model-path", f"/home/ann/{name}"), exe="/usr/bin/python3")
        assert diff_sides(box.world(), "pid:500", "pid:600").is_same == same


def test_the_first_word_of_vllm_is_the_model(box: Box) -> None:
    box.run(500, ("/v/bin/python", "/v/bin/vllm", "serve", "org/m"), exe="/usr/bin/python3")
    box.run(600, ("/v/bin/python", "/v/bin/vllm", "serve", "--model=org/n"), exe="/usr/bin/python3")
    found = diff_sides(box.world(), "pid:500", "pid:600")
    assert rows(found) == [("flag", "--model", "org/m", "org/n")]


def test_different_engines(box: Box) -> None:
    box.run(500, BASE)
    box.run(600, (*SGLANG, "--model-path", "a/b"), exe="/usr/bin/python3")
    found = diff_sides(box.world(), "pid:500", "pid:600")
    assert rows(found)[:2] == [
        ("engine", "engine", "llamacpp", "sglang"),
        ("program", "program", ENGINE, "/v/bin/python -m sglang.launch_server"),
    ]


def test_a_program_that_nobody_knows(box: Box) -> None:
    box.run(500, ("/usr/bin/tool", "--port", "1", "word"), exe="/usr/bin/tool")
    box.run(600, ("/usr/bin/tool", "--port=2"), exe="/usr/bin/tool")
    found = diff_sides(box.world(), "pid:500", "pid:600")
    assert rows(found) == [("flag", "--port", "1, word", "2")]
    assert "no server that Stoker knows" in found.notes[0]


def test_an_engine_under_another_name_is_what_its_deployment_says(box: Box, tmp_path: Path) -> None:
    file = tmp_path / "d.yaml"
    file.write_text(
        f"name: d\nmodel: path:{MODEL}\nservice: {{user: root}}\n"
        "engine: {kind: llamacpp, environment: 'path:/opt/cuda-server', settings: {threads: 1}}\n"
    )
    box.host.put("/opt/cuda-server", "ELF", mode=0o755)
    words = ("-m", MODEL, "-a", "d", "--port", "30000", "--metrics", "-t", "2")
    box.run(500, ("/opt/cuda-server", *words), exe="/opt/cuda-server")
    found = diff_sides(box.world(), str(file), "pid:500")
    assert rows(found) == [("flag", "--threads", "1", "2")]
    assert found.notes == ()


def test_two_programs_of_which_one_is_known(box: Box) -> None:
    box.run(500, BASE)
    box.run(600, ("/usr/bin/tool", "-c", "1"), exe="/usr/bin/tool")
    found = diff_sides(box.world(), "pid:500", "pid:600")
    assert ("flag", "-c", None, "1") in rows(found)
    assert found.notes[0].startswith("pid:600: no server that Stoker knows")


def test_interpreters_are_told_apart(box: Box) -> None:
    for number in ("11", "12"):
        box.host.put(f"/usr/bin/python3.{number}", "ELF", mode=0o755)
    box.host.put("/v/llama-server", "#!/usr/bin/python3.12 -I\n", mode=0o755)
    box.run(500, ("/x/python3.11", "/v/llama-server", "-m", MODEL), exe="/usr/bin/python3.11")
    box.run(600, ("/x/python3", "-I", "/v/llama-server", "-m", MODEL), exe="/usr/bin/python3.12")
    found = diff_sides(box.world(), "pid:500", "pid:600")
    assert rows(found) == [
        ("interpreter", "interpreter", "/usr/bin/python3.11", "/usr/bin/python3.12")
    ]


# What names a side.


def deployed(box: Box) -> Box:
    """Generation 1, then generation 2 in force, and a run of each."""
    for variant in ("one", "two"):
        apply_variant(variant)(Machine.world(box))
    return box


def test_generations(box: Box) -> None:
    world = deployed(box).world()
    assert diff_sides(world, NAME, f"{NAME}@2").is_same
    found = diff_sides(world, f"{NAME}@1", NAME)
    assert rows(found) == [("flag", "--variant", "one", "two")]
    assert (found.a, found.b) == (f"{NAME}@1", f"{NAME}@2")


def test_documents_and_runs(box: Box, tmp_path: Path) -> None:
    world = deployed(box).world()
    runs = sorted(world.host.list_folder("/var/lib/stoker/runs"))
    assert rows(diff_sides(world, f"run:{runs[0]}", f"run:{runs[1]}")) == [
        ("flag", "--variant", "one", "two")
    ]
    generation = make_generation(world, "three")
    paths = []
    for name, value in (("g.json", generation), ("l.json", generation.launch)):
        paths.append(str(tmp_path / name))
        (tmp_path / name).write_text(render_document(value))
    plan = world.host.read_text(run_plan_path(FOLDERS, runs[0]))
    (tmp_path / "p.json").write_text(plan)
    assert diff_sides(world, *paths).is_same
    assert "the user is not known" in diff_sides(world, *paths).notes[0]
    found = diff_sides(world, str(tmp_path / "p.json"), paths[0])
    assert rows(found) == [("flag", "--variant", "one", "three")]
    assert plan_id(changes=(), activations=(), preparations=())  # a plan's identity plays no part


def test_a_deployment_file_against_what_it_starts(box: Box, tmp_path: Path) -> None:
    file = tmp_path / "d.yaml"
    file.write_text(
        f"name: d\nmodel: path:{MODEL}\n"
        f"engine: {{kind: llamacpp, environment: 'path:{ENGINE}', settings: {{threads: false}},\n"
        "  env: {NCCL_DEBUG: WARN, MY_OWN: '1'}, secret_env: {HF_TOKEN: /root/hf}}\n"
        "serve: {host: 0.0.0.0, port: 9000, api_key_file: /root/key, context_tokens: 64,\n"
        "  parallel_requests: 2}\nservice: {user: root}\n"
    )
    box.host.put("/root/hf", f"{TOKEN}\n", mode=0o600)
    argv = (
        *BASE,
        "--host",
        "0.0.0.0",
        "--port",
        "9000",
        "-a",
        "d",
        "-c",
        "128",
        "-np",
        "2",
        "--metrics",
        "--api-key",
        "secret-1",
    )
    env = {"HF_TOKEN": TOKEN, "NCCL_DEBUG": "WARN", "MY_OWN": "1", "OTHER": "2"}
    box.run(500, argv, env)
    found = diff_sides(box.world(), str(file), "pid:500")
    assert rows(found) == []
    assert found.same_by_default == ("--jinja",)
    box.run(500, argv[:-3], {**env, "HF_TOKEN": "x", "MY_OWN": "2", "CUDA_X": "1"})
    found = diff_sides(box.world(), str(file), "pid:500")
    assert rows(found) == [
        ("flag", "--api-key", "***", None),
        ("flag", "--hf-token", "***", "***"),
        ("flag", "--metrics", "on", None),
        ("variable", "CUDA_X", None, "1"),
        ("variable", "MY_OWN", "1", "2"),
    ]
    assert found.differences[2].note.startswith("Stoker sets it: ")


def test_a_secret_variable_is_secret_whatever_its_name(box: Box, tmp_path: Path) -> None:
    file = tmp_path / "d.yaml"
    file.write_text(
        f"name: d\nmodel: path:{MODEL}\nservice: {{user: root}}\n"
        f"engine: {{kind: llamacpp, environment: 'path:{ENGINE}',\n"
        "  secret_env: {LLAMA_ARG_TAGS: /root/a, NCCL_X: /root/b, NCCL_Y: /root/c}}\n"
    )
    box.host.put("/root/a", "\n  value-a  \nmore\n", mode=0o600)
    box.host.put("/root/b", "value-b\n", mode=0o600)
    box.host.put("/root/c", "value-c\n", mode=0o600)
    box.run(500, BASE, {"LLAMA_ARG_TAGS": "value-a", "NCCL_X": "value-b", "NCCL_Y": "y"})
    found = diff_sides(box.world(), str(file), "pid:500")
    told = [row for row in rows(found) if row[1] in ("--tags", "NCCL_X", "NCCL_Y")]
    assert told == [
        ("flag", "--tags", "***", "value-a"),
        ("variable", "NCCL_X", "***", "value-b"),
        ("variable", "NCCL_Y", "***", "y"),
    ]
    assert "value-a" not in render_comparison(diff_sides(box.world(), str(file), str(file)))


def test_a_key_in_a_file_of_settings(box: Box, tmp_path: Path) -> None:
    """As for engines that read their key from such a file alone: the copy, and what runs of it."""
    copy = "/opt/stoker/services/law/x/key.yaml"
    words = (*SGLANG, "--model-path", "/m")
    launch = Launch(
        engine="sglang",
        engine_build="0",
        argv=(*words, "--config", copy),
        secrets=(SecretFile(source_path="/root/key", path=copy, entry="api-key"),),
        host="127.0.0.1",
        port=1,
        published_name="x",
        readiness=Readiness(path="/health", timeout_seconds=1),
        stop_timeout_seconds=1,
    )
    (tmp_path / "l.json").write_text(render_document(launch))
    box.host.put("/root/key", 'the-"key"\n')
    box.host.put(copy, 'api-key: "the-\\"key\\""\n')
    for argv in ((*words, "--api-key", 'the-"key"'), (*words, "--config", copy)):
        box.run(500, argv, exe="/usr/bin/python3")
        assert rows(diff_sides(box.world(), str(tmp_path / "l.json"), "pid:500")) == []
    box.host.put("/home/ann/own.yaml", "tp-size: 2\n")
    box.run(500, (*words, "--config", "own.yaml"), exe="/usr/bin/python3")
    assert rows(diff_sides(box.world(), str(tmp_path / "l.json"), "pid:500")) == [
        ("flag", "--api-key", "***", None),
        ("flag", "--config", None, "/home/ann/own.yaml"),
    ]


def test_a_guard_stands_for_its_engine(box: Box) -> None:
    guard = ("/g/bin/python", "-I", "-m", "stoker.guard", "/x/guard.json")
    box.run(400, guard, exe="/usr/bin/python3")
    box.run(401, guard, parent=400, exe="/usr/bin/python3")  # its watcher
    with pytest.raises(UsageError, match="no engine runs under it"):
        diff_sides(box.world(), "pid:400", "pid:400")
    box.run(500, BASE, {"STOKER_GUARD": "400:1"}, parent=400)
    box.listen(500, 8080)
    box.run(600, BASE)
    found = diff_sides(box.world(), "pid:400", "pid:600")
    assert (found.a, found.is_same) == ("pid:400 (pid:500)", True)
    assert diff_sides(box.world(), "port:8080", "pid:400").is_same


def test_a_file_without_a_dot(box: Box, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    generation = make_generation(box.world(), "one")
    (tmp_path / "mine").write_text(render_document(generation))
    box.host.put(str(tmp_path / "mine"), "")
    assert diff_sides(box.world(), "mine", "./mine").is_same


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("pid:", "has no number"),
        ("pid:x", "has no number"),
        ("port:-1", "has no number"),
        ("pid:4711", "there is no process 4711"),
        ("port:4711", "nothing listens on port 4711"),
        ("run:nothing", "there is no run nothing"),
        ("run:../../x", "is not the name of a run"),
        ("nobody", "there is no deployment named nobody"),
        (f"{NAME}@9", "has no generation 9"),
        ("missing.yaml", "missing.yaml cannot be read"),
    ],
)
def test_words_that_name_nothing(box: Box, words: str, says: str) -> None:
    world = deployed(box).world()
    with pytest.raises(UsageError, match=says) as caught:
        diff_sides(world, NAME, words)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"schema": "facts/1"}', "holds no launch"),
        ('{"no": "schema"}', "holds no launch"),
        ("{nonsense", "is no JSON document"),
        ('{"schema": "launch/99"}', "newer Stoker"),
    ],
)
def test_files_that_hold_no_launch(box: Box, tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "x.json"
    file.write_text(text)
    with pytest.raises(StokerError, match=says) as caught:
        diff_sides(box.world(), str(file), str(file))
    assert isinstance(caught.value, UsageError | StateError)
