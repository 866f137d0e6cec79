"""`stoker adopt` on machines in memory: which server, what is written, what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stoker.commands.adopt import Wish, adopt_server
from stoker.commands.world import World
from stoker.errors import Blocked, StokerError, UsageError
from stoker.knowledge.engines import engine_kinds
from stoker.model.adoption import Adoption
from stoker.model.document import render_document
from stoker.report.adoption_text import render_adoption
from stoker.spec import parse_deployment
from tests.commands.boxes import ENGINE, MODEL, Box

FILE = "/home/ann/here/a.yaml"
SECRETS = "/home/ann/here/secrets"
TOKEN = "hf_0123456789abcdefghij"


@pytest.fixture
def box() -> Box:
    made = Box()
    made.host.put_folder("/home/ann/here")
    return made


def adopt(box: Box, **wish: Any) -> Adoption:
    return adopt_server(box.world(), Wish(**{"output": FILE, **wish}))


def read(box: Box, path: str = FILE) -> Mapping[str, Any]:
    """The deployment that was written, without what it leaves out."""
    text = box.host.read_text(path)
    deployment = parse_deployment(text, path, engine_kinds=engine_kinds())
    found: Mapping[str, Any] = deployment.model_dump(exclude_unset=True)
    return found


def refuse(box: Box, **wish: Any) -> StokerError:
    """It must refuse, write nothing and show no secret."""
    before = box.host.snapshot()
    with pytest.raises((UsageError, Blocked)) as caught:
        adopt(box, **wish)
    assert box.host.snapshot() == before
    return caught.value


# What is written.


def test_what_the_table_knows_becomes_keys_and_all_else_settings(box: Box) -> None:
    box.published = "a-model"
    box.serve("--port", "8080", "-c", "8192", "-np", "4", "-t", "3", "-ngl", "-1", "-fa", "on")
    found = adopt(box, port=8080)
    assert read(box) == {
        "name": "a-model",
        "model": {"ref": f"path:{MODEL}"},
        "engine": {
            "kind": "llamacpp",
            "environment": f"path:{ENGINE}",
            "settings": {"threads": 3, "gpu-layers": -1, "flash-attn": "on"},
        },
        "serve": {
            "host": "127.0.0.1",
            "port": 8080,
            "published_name": "a-model",
            "context_tokens": 2048,
            "parallel_requests": 4,
        },
        "service": {"user": "root", "on_boot": False},
    }
    assert [each.name for each in found.differences] == ["--alias", "--metrics"]
    assert all(each.note for each in found.differences)
    assert (found.pid, found.name, found.secrets, found.left_out) == (500, "a-model", (), ())


def test_what_stoker_would_choose_by_itself_is_left_out(box: Box) -> None:
    box.serve()
    adopt(box)
    assert read(box)["engine"]["settings"] == {"threads": False}


@pytest.mark.parametrize(
    ("flags", "settings", "serve"),
    [
        (("-c", "1000", "-np", "3"), {"ctx-size": 1000}, {"parallel_requests": 3}),
        (("-c", "0"), {"ctx-size": 0}, {}),
        (("-np", "-1"), {"parallel": -1}, {}),
        (("-c", "4096"), {}, {"context_tokens": 4096}),
        (("--ctx_size", "32", "-np", "4"), {"ctx-size": 32}, {"parallel_requests": 4}),
    ],
)
def test_context_and_slots_are_keys_only_where_they_mean_the_same(
    box: Box, flags: tuple[str, ...], settings: Mapping[str, int], serve: Mapping[str, int]
) -> None:
    box.serve("-t", "1", *flags)
    adopt(box)
    found = read(box)
    assert found["engine"]["settings"] == {"threads": 1, **settings}
    keys = {key: found["serve"].get(key) for key in ("context_tokens", "parallel_requests")}
    assert {key: value for key, value in keys.items() if value is not None} == serve


@pytest.mark.parametrize(
    ("flags", "settings"),
    [
        (("--temp", "0.70"), {"temp": "0.70"}),
        (("--temp", "0.7"), {"temp": 0.7}),
        (("--seed", "00"), {"seed": "00"}),
        (("--top-k", "-0"), {"top-k": "-0"}),
        (("--cache-ram", "99999999999999999999"), {"cache-ram": "99999999999999999999"}),
        (("--tags", ""), {"tags": ""}),
        (("--tags", "true"), {"tags": "true"}),
        (("--tags", "null"), {"tags": "null"}),
        (("--tags", "- a: [b] #c"), {"tags": "- a: [b] #c"}),
        (("--grammar", "root ::= \"a\"\n\tb 'c' \\ $HOME `x`"), None),
        (("--reverse-prompt", "ünï→", "-r", "--port"), {"reverse-prompt": ["ünï→", "--port"]}),
        (("--no-jinja",), {"no-jinja": True}),
        (("-nkvo",), {"no-kv-offload": True}),
        (("-nr", "--repack"), {"repack": True}),
        (("-fa", "off", "--flash-attn", "auto"), {"flash-attn": "auto"}),
        (("--mlock-it",), {"mlock-it": True}),
        (("--mlock-it", "2", "--slots"), {"mlock-it": 2, "slots": True}),
        (("--mlock-it", "-2"), {"mlock-it": -2}),
        (("--api-prefix", ""), {}),
        (("--mmproj", "mm.gguf", "--lora", "x.gguf,/y.gguf"), None),
    ],
)
def test_values_stay_what_they_are(
    box: Box, flags: tuple[str, ...], settings: Mapping[str, Any] | None
) -> None:
    box.serve("-t", "1", *flags)
    found = adopt(box)
    if settings is not None:
        assert read(box)["engine"]["settings"] == {"threads": 1, **settings}
    assert {each.name for each in found.differences} == {"--alias", "--metrics", "--port"}


def test_relative_paths_are_seen_from_the_root(box: Box) -> None:
    box.host.put("/home/ann/b.gguf", "GGUF")
    box.run(
        500,
        ["bin/llama-server", "-m", "./x/../b.gguf", "--mmproj", "mm.gguf", "-t", "1"],
        {"LD_LIBRARY_PATH": "lib:/usr/lib:"},
        exe="/home/ann/bin/llama-server",
    )
    box.listen(500, 8080)
    adopt(box)
    found = read(box)
    assert found["model"] == {"ref": "path:/home/ann/b.gguf"}
    assert found["engine"]["environment"] == "path:/home/ann/bin/llama-server"
    assert found["engine"]["settings"]["mmproj"] == "/home/ann/mm.gguf"
    assert found["engine"]["env"] == {"LD_LIBRARY_PATH": "/home/ann/lib:/usr/lib:"}


def test_a_name_that_leads_elsewhere_is_not_believed(box: Box) -> None:
    box.run(500, ["/tmp/llama-server", "-m", MODEL], exe=ENGINE)
    box.listen(500, 8080)
    adopt(box)
    assert read(box)["engine"]["environment"] == f"path:{ENGINE}"


def test_a_link_to_the_program_is_kept(box: Box) -> None:
    box.host.put_link("/usr/local/bin/llama-server", ENGINE)
    box.run(500, ["/usr/local/bin/llama-server", "-m", MODEL])
    box.listen(500, 8080)
    adopt(box)
    assert read(box)["engine"]["environment"] == "path:/usr/local/bin/llama-server"


def test_a_launcher_that_an_interpreter_runs(box: Box) -> None:
    """Its own folder of libraries is its own doing, and so is the shell script beside it."""
    python, launcher = "/env/bin/python3.12", "/env/bin/llama-server"
    box.host.put_link(python, "/usr/bin/python3.12")
    box.host.put("/usr/bin/python3.12", "ELF", mode=0o755)
    box.host.put(launcher, f"#!/bin/sh\nexec {python} '{launcher}.py' \"$@\"\n", mode=0o755)
    env = {"LD_LIBRARY_PATH": "/env/lib/omp:/opt/cuda/lib"}
    box.run(
        500,
        [python, "-u", f"{launcher}.py", "-m", MODEL, "-t", "1"],
        env,
        exe="/usr/bin/python3.12",
    )
    box.listen(500, 8080)
    found = adopt(box)
    assert read(box)["engine"]["environment"] == f"path:{launcher}"
    assert read(box)["engine"]["env"] == {"LD_LIBRARY_PATH": "/opt/cuda/lib"}
    assert {each.what for each in found.differences} == {"flag"}


def test_a_variable_that_stands_for_a_flag_is_that_flag(box: Box) -> None:
    env = {
        "LLAMA_ARG_THREADS": "7",
        "LLAMA_ARG_CTX_SIZE": "64",
        "LLAMA_ARG_JINJA": "0",
        "LLAMA_ARG_ENDPOINT_METRICS": "1",
        "LLAMA_ARG_ENDPOINT_PROPS": "off",
    }
    box.serve("-c", "128", env=env)
    found = adopt(box)
    engine = read(box)["engine"]
    assert engine["settings"] == {"threads": 7, "no-jinja": True, "metrics": True}
    assert read(box)["serve"]["context_tokens"] == 128
    assert "env" not in engine
    assert "--metrics" not in {each.name for each in found.differences}


def test_counters_that_a_variable_switched_off_are_switched_on(box: Box) -> None:
    box.serve("-t", "1", env={"LLAMA_ARG_ENDPOINT_METRICS": "0"})
    shown = {each.name: (each.a, each.b) for each in adopt(box).differences}
    assert shown["--metrics"] == ("off", "on")


def test_variables_are_taken_by_what_reads_them(box: Box) -> None:
    env = {
        "NCCL_DEBUG": "WARN",
        "CUDA_MODULE_LOADING": "LAZY",
        "SGLANG_X": "1",
        "VLLM_X": "2",
        "TORCH_X": "3",
        "OMP_NUM_THREADS": "4",
        "LD_PRELOAD": "/x.so",
        "GGML_X": "",
        "PATH": "/bin",
        "HOME": "/root",
        "SSH_TTY": "/dev/pts/0",
        "TMUX_PANE": "%1",
        "MY_FLAG": "1",
        "BAD\x1b[2J": "1",
        "NCCL_\x1b]0;x": "1",
        "INVOCATION_ID": "abc",
        "JOURNAL_STREAM": "1:2",
    }
    box.serve("-t", "1", env=env)
    found = adopt(box)
    taken = (
        "NCCL_DEBUG",
        "CUDA_MODULE_LOADING",
        "SGLANG_X",
        "VLLM_X",
        "TORCH_X",
        "OMP_NUM_THREADS",
        "LD_PRELOAD",
        "GGML_X",
    )
    assert read(box)["engine"]["env"] == {name: env[name] for name in taken}
    assert found.left_out == ("BAD\\x1b[2J", "MY_FLAG", "NCCL_\\x1b]0;x")
    assert "\x1b" not in render_adoption(found) + render_document(found)


@pytest.mark.parametrize(
    ("value", "gpus", "env"),
    [
        ("GPU-1a,GPU-2b", ["GPU-1a", "GPU-2b"], None),
        ("0,1", None, {"CUDA_VISIBLE_DEVICES": "0,1"}),
        ("", None, {"CUDA_VISIBLE_DEVICES": ""}),
        ("0,0", None, {"CUDA_VISIBLE_DEVICES": "0,0"}),
    ],
)
def test_gpus_by_number_only_where_the_order_is_certain(
    box: Box, value: str, gpus: list[str] | None, env: Mapping[str, str] | None
) -> None:
    box.serve("-t", "1", env={"CUDA_VISIBLE_DEVICES": value})
    adopt(box)
    assert read(box).get("gpus") == gpus
    assert read(box)["engine"].get("env") == env


def test_gpus_by_number_in_the_order_of_the_bus(box: Box) -> None:
    box.serve("-t", "1", env={"CUDA_VISIBLE_DEVICES": "2,0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"})
    adopt(box)
    assert read(box)["gpus"] == [2, 0]
    assert "env" not in read(box)["engine"]


def test_no_gpu(box: Box) -> None:
    box.serve("-t", "1", "-dev", "none", "--spec-type", "none")
    adopt(box)
    assert read(box)["gpus"] == "none"
    assert read(box)["engine"]["settings"] == {"threads": 1, "spec-type": "none"}


def test_a_draft_drafts_as_it_does_now(box: Box) -> None:
    box.host.put("/models/d.gguf", "GGUF")
    box.serve("-t", "1", "-md", "/models/d.gguf")
    adopt(box)
    assert read(box)["draft"] == {"ref": "path:/models/d.gguf"}
    assert read(box)["engine"]["settings"] == {"threads": 1, "spec-type": False}


# Where it listens, and what it is called.


@pytest.mark.parametrize(
    ("flags", "socket", "host"),
    [
        (("--host", "0.0.0.0"), "00000000", "0.0.0.0"),
        (("--host", "localhost"), "0100007F", "127.0.0.1"),
        (("--host", "this.machine"), "0501A8C0", "192.168.1.5"),
        ((), "0100007F", "127.0.0.1"),
    ],
)
def test_a_host_is_an_address(box: Box, flags: tuple[str, ...], socket: str, host: str) -> None:
    box.run(500, [ENGINE, "-m", MODEL, *flags])
    box.listen(500, 1234, address=socket)
    adopt(box)
    serve = read(box)["serve"]
    assert (serve["host"], serve["port"]) == (host, 1234)


def test_of_two_sockets_the_one_on_its_port_is_meant(box: Box) -> None:
    box.serve("--port", "8080")
    box.listen(500, 9090)
    adopt(box, port=9090)
    assert read(box)["serve"]["port"] == 9090
    other = "/home/ann/here/b.yaml"
    adopt(box, pid=500, output=other)
    assert read(box, other)["serve"]["port"] == 8080


def test_the_server_is_asked_for_its_name_with_its_key(box: Box) -> None:
    box.published = "org/Big_Model:8B"
    box.serve("--api-key", "first-key,second-key")
    found = adopt(box)
    assert box.asked == [("127.0.0.1", 8080, "first-key")]
    assert found.name == "big-model-8b"
    assert read(box)["serve"]["published_name"] == "org/Big_Model:8B"


@pytest.mark.parametrize("published", [None, "with blank", "esc\x1bape"])
def test_a_name_that_cannot_be_had_is_said(box: Box, published: str | None) -> None:
    box.published = published
    box.serve()
    found = adopt(box, name="mine")
    assert found.name == "mine"
    assert "published_name" not in read(box)["serve"]
    assert any("the name that it publishes" in note for note in found.notes)


def test_an_answer_that_nobody_can_read_is_none(box: Box) -> None:
    box.raw = "[" * 100_000
    box.serve()
    assert "published_name" not in (adopt(box), read(box)["serve"])[1]


def test_several_names_are_said(box: Box) -> None:
    box.published = "x"
    box.serve("--alias", "x,y")
    found = adopt(box)
    assert read(box)["serve"]["published_name"] == "x"
    assert any("several names" in note for note in found.notes)
    assert ("x,y", "x") in {(each.a, each.b) for each in found.differences}


# Secrets.


def test_secrets_go_to_files_and_nowhere_else(box: Box) -> None:
    secrets = {
        "HF_TOKEN": TOKEN,
        "HF_ENDPOINT": "https://ann:pa55word@mirror.example/hf",
        "AWS_SECRET_ACCESS_KEY": "aws-secret-value",
        "GITHUB_TOKEN": "not-for-an-engine",
    }
    box.serve("--api-key", "key-number-one", "-t", "1", env={**secrets, "NCCL_DEBUG": "INFO"})
    found = adopt(box, name="a")
    written = read(box)
    names = {
        "HF_TOKEN": "hf-token",
        "HF_ENDPOINT": "hf-endpoint",
        "AWS_SECRET_ACCESS_KEY": "aws-secret-access-key",
    }
    files = {name: f"{SECRETS}/a-{slug}" for name, slug in names.items()}
    assert written["engine"]["secret_env"] == files
    assert written["serve"]["api_key_file"] == f"{SECRETS}/a-api-key"
    for name, path in files.items():
        assert box.host.read_text(path) == f"{secrets[name]}\n"
        assert box.host.nodes[path].mode == 0o600
    assert box.host.read_text(f"{SECRETS}/a-api-key") == "key-number-one\n"
    assert box.host.nodes[SECRETS].mode == 0o700
    assert found.left_out == ("GITHUB_TOKEN",)
    shown = box.host.read_text(FILE) + render_adoption(found) + render_document(found)
    for secret in (*secrets.values(), "key-number-one", "pa55word"):
        assert secret not in shown
        assert secret not in repr(found)
    assert {each.what for each in found.differences} == {"flag"}


def test_secrets_are_written_before_the_file_that_names_them(box: Box) -> None:
    box.serve("--api-key", "key-number-one")
    adopt(box, name="a")
    writes = [each for each in box.host.effects if each.startswith("write:")]
    assert writes == [f"write:{SECRETS}/a-api-key", f"write:{FILE}"]


def test_a_key_file_of_the_owner_stays_where_it_is(box: Box) -> None:
    box.host.put("/home/ann/keys", "one\ntwo\n", mode=0o600)
    box.serve("--api-key-file", "keys")
    found = adopt(box)
    assert read(box)["serve"]["api_key_file"] == "/home/ann/keys"
    assert found.secrets == ()


def test_keys_from_everywhere_are_one_file(box: Box) -> None:
    box.host.put("/home/ann/keys", "from-file\n", mode=0o600)
    box.serve(
        "--api-key",
        "one,two",
        "--api-key-file",
        "keys",
        "--api-key",
        "one",
        env={"LLAMA_API_KEY": "from-variable"},
    )
    adopt(box, name="a")
    text = box.host.read_text(f"{SECRETS}/a-api-key")
    assert sorted(text.split()) == ["from-file", "from-variable", "one", "two"]


def test_an_empty_key_is_none(box: Box) -> None:
    box.serve("--api-key", "", "--hf-token", "", env={"OPENAI_API_KEY": ""})
    adopt(box)
    assert "api_key_file" not in read(box)["serve"]
    assert not [path for path in box.host.nodes if path.startswith(SECRETS)]


def test_a_token_on_the_command_line_becomes_its_variable(box: Box) -> None:
    box.serve("-t", "1", "-hft", TOKEN)
    found = adopt(box, name="a")
    assert read(box)["engine"]["secret_env"] == {"HF_TOKEN": f"{SECRETS}/a-hf-token"}
    assert "--hf-token" not in {each.name for each in found.differences}


@pytest.mark.parametrize(
    "flags",
    [
        ("--admin-api-key", "the-secret-value"),
        ("--mcp-servers-json", '{"a": {"api_key": "the-secret-value"}}', "--x"),
        ("--override-kv", "u=https://ann:the-secret-value@x/"),
        ("--api-key", " the-secret-value"),
        ("--api-key", "the-secret-\nvalue"),
        ("--hf-token", "the-secret-value "),
    ],
)
def test_a_secret_without_a_file_to_be_in_is_refused(box: Box, flags: tuple[str, ...]) -> None:
    box.serve(*flags)
    if flags[0] == "--mcp-servers-json":  # the engine reads it from a variable as well
        found = adopt(box, name="a")
        assert list(read(box)["engine"]["secret_env"]) == ["LLAMA_ARG_MCP_SERVERS_JSON"]
        assert "the-secret-value" not in box.host.read_text(FILE) + render_document(found)
        return
    error = refuse(box)
    assert isinstance(error, Blocked)
    assert "the-secret" not in f"{error.summary} {error.reasons} {error.hint}"


def test_a_secret_that_stands_elsewhere_too_is_refused(box: Box) -> None:
    box.serve("--api-key", "s3cret-key", "--tags", "s3cret-key")
    error = refuse(box)
    assert "stands in another place" in error.summary
    assert "s3cret-key" not in str(error)


def test_a_secret_that_is_told_by_mistake_is_hidden(box: Box) -> None:
    box.published = "x"
    box.serve("--api-key", "s3cret-key", "--alias", "x,s3cret-key")
    found = adopt(box)
    shown = box.host.read_text(FILE) + render_adoption(found) + render_document(found)
    assert "s3cret-key" not in shown
    assert any(note.endswith("x,***") for note in found.notes)


def test_root_reads_no_file_that_the_process_could_not(box: Box) -> None:
    """A command line may name any file, and root would copy it for the service to read."""
    box.host.put("/etc/shadow", "root:hash\n", mode=0o600)
    box.run(500, [ENGINE, "-m", MODEL, "--api-key-file", "/etc/shadow"], uid=1001)
    box.listen(500, 8080, uid=1001)
    error = refuse(box)
    assert isinstance(error, Blocked)
    assert "cannot be read as its user's own" in error.reasons[0]
    box.run(500, [ENGINE, "-m", MODEL, "--api-key-file", "/etc/shadow", "--api-key", "k"], uid=1001)
    refuse(box)
    box.host.put("/home/eve/key", "the-key\n", mode=0o600, owner="eve")
    box.run(500, [ENGINE, "-m", MODEL, "--api-key-file", "/home/eve/key"], uid=1001)
    adopt(box)
    assert read(box)["serve"]["api_key_file"] == "/home/eve/key"
    assert read(box)["service"]["user"] == "eve"


# Files that are in the way.


def test_nothing_is_overwritten(box: Box) -> None:
    box.serve("--api-key", "key-number-one")
    box.host.put(FILE, "mine")
    assert "is there already" in refuse(box).summary
    box.host.remove_file(FILE)
    box.host.put_link(FILE, "/nowhere")
    assert "is there already" in refuse(box).summary
    box.host.remove_file(FILE)
    box.host.put(f"{SECRETS}/a-api-key", "old", mode=0o600)
    box.host.set_mode(SECRETS, 0o700)
    assert "a-api-key is there already" in refuse(box, name="a").summary
    assert adopt(box, name="b").secrets[0].file == f"{SECRETS}/b-api-key"


@pytest.mark.parametrize(
    "damage",
    [
        *("mode", "owner", "file", "link", "open parent", "parent of another", "open to a group"),
        *("open above", "link in an open folder", "no folder"),
    ],
)
def test_secrets_lie_where_nobody_else_can_reach(box: Box, damage: str) -> None:
    box.serve("--api-key", "key-number-one")
    match damage:
        case "mode":
            box.host.put_folder(SECRETS, mode=0o755)
        case "owner":
            box.host.put_folder(SECRETS, mode=0o700, owner="eve")
        case "file":
            box.host.put(SECRETS, "x")
        case "link":
            box.host.put_folder("/home/eve/theirs", mode=0o700)
            box.host.put_link(SECRETS, "/home/eve/theirs")
        case "open parent":
            box.host.put_folder("/home/ann/here", mode=0o777)
        case "parent of another":
            box.host.put_folder("/home/ann/here", owner="ann")
        case "open to a group":
            box.host.put_folder("/home/ann/here", mode=0o775)
        case "open above":
            box.host.put_folder("/home", mode=0o777)
        case "link in an open folder":
            box.host.put_folder("/tmp", mode=0o1777)
            box.host.put_link("/tmp/here", "/home/ann/here")
            assert "alone" in refuse(box, output="/tmp/here/a.yaml").summary
            adopt(box)
            return
        case "no folder":
            refuse(box, output="/home/ann/nowhere/a.yaml")
            return
    refuse(box)


def test_below_a_sticky_folder_secrets_are_safe(box: Box) -> None:
    box.serve("--api-key", "key-number-one")
    box.host.put_folder("/tmp", mode=0o1777)
    box.host.put_folder("/tmp/mine", mode=0o755)
    assert adopt(box, output="/tmp/mine/a.yaml").secrets
    assert adopt(box, output="/tmp/b.yaml", name="b").secrets


def test_a_group_is_a_matter_of_its_user(box: Box) -> None:
    box.run(500, [ENGINE, "-m", MODEL, "--api-key", "key-number-one"], uid=1000)
    box.listen(500, 8080)
    box.host.user = "ann"
    box.host.put_folder("/home/ann", owner="ann", mode=0o775)
    box.host.put_folder("/home/ann/here", owner="ann", mode=0o775)
    world = replace(box.world(), is_root=False, me="ann")
    assert adopt_server(world, Wish(output=FILE)).secrets


def test_secrets_go_again_if_the_file_cannot_be_written(box: Box) -> None:
    box.serve("--api-key", "key-number-one")
    box.host.free = 200  # enough for the secret, too little for the file
    with pytest.raises(UsageError, match="nothing was written"):
        adopt(box)
    assert not [path for path in box.host.nodes if path.startswith(f"{SECRETS}/")]


def test_a_name_that_is_taken_is_refused(box: Box) -> None:
    box.serve()
    box.host.put("/var/lib/stoker/deployments/a/current.json", "{}")
    assert "--name" in refuse(box, name="a").hint
    assert "--name" in refuse(box, name="-x").summary
    assert "--engine" in refuse(box, engine="nothing").summary
    assert "not both" in refuse(box, pid=1, port=2).summary


def test_the_file_is_called_after_the_name(
    box: Box, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    box.host.put_folder(str(tmp_path))
    box.published = "A/Model_1"
    box.serve()
    assert adopt(box, output=None).file == "model-1.yaml"
    assert read(box, f"{tmp_path}/model-1.yaml")["name"] == "model-1"


# What is refused: the result would be another server.


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (("--api-prefix", "/x"), "--api-prefix: Stoker cannot run the engine with it"),
        (("--ssl-key-file", "/k"), "--ssl-key-file: Stoker cannot"),
        (("--host", "127.0.0.1,::1"), "one numeric address"),
        (("--host", "/run/a.sock"), "one numeric address"),
        (("--control-vector-layer-range", "1", "5"), "takes 2 words"),
        (("-zz", "1"), "-zz is a flag that Stoker does not know"),
        (("--alias", "a", "loose"), "belong to no flag"),
        (("--grammar", b"\xff"), "not text"),
        (("--grammar", "\x1b[2J"), "not text"),
        (("--x", "a", "b"), "belong to no flag"),
        (("--use-token",), "named like a secret"),
    ],
)
def test_obstacles(box: Box, flags: tuple[str | bytes, ...], reason: str) -> None:
    box.serve(*flags)
    error = refuse(box)
    assert isinstance(error, Blocked)
    assert any(reason in each for each in error.reasons), error.reasons
    assert "\x1b" not in str(error.reasons)


def test_weights_that_the_engine_fetched_are_refused(box: Box) -> None:
    box.run(500, [ENGINE, "-hf", "ggml-org/gemma:Q4"])
    box.listen(500, 8080)
    error = refuse(box)
    assert isinstance(error, Blocked)
    assert any("not named by their path" in each for each in error.reasons)


def test_no_port_to_be_found(box: Box) -> None:
    box.run(500, [ENGINE, "-m", MODEL])
    error = refuse(box, pid=500)
    assert isinstance(error, Blocked)
    assert "the port that it listens on could not be found out" in error.reasons


# Which server.


def test_several_are_listed(box: Box) -> None:
    box.serve("--api-key", "key-number-one")
    box.run(600, ["/opt/\x1b[2J/llama-server", "-m", "/b"], uid=1001, exe="/opt/x")
    box.listen(600, 9090, uid=1001)
    error = refuse(box)
    assert error.exit_code == 2
    assert "2 servers run here" in error.summary
    assert "process 500 of root, llama.cpp on port 8080" in error.summary
    assert "process 600 of eve, llama.cpp on port 9090" in error.summary
    assert "--pid 500" in error.hint
    assert "key-number-one" not in str(error)
    assert "\x1b" not in str(error)
    assert adopt(box, port=8080).pid == 500


def test_workers_and_the_one_that_listens_are_one(box: Box) -> None:
    words = [ENGINE, "-m", MODEL, "-t", "1"]
    box.run(500, words)
    box.run(501, words, parent=500, group=500)
    box.run(502, [ENGINE, "--worker"], parent=501, group=500)
    box.run(503, words, parent=1, group=500)  # its parent has gone
    box.listen(501, 8080)
    assert adopt(box).pid == 500
    for number, pid in enumerate((501, 502)):
        found = adopt(box, pid=pid, output=f"/home/ann/here/{number}.yaml")
        assert found.pid == 500
        assert found.notes[0] == f"process {pid} belongs to process 500, which is taken"


def test_two_servers_of_one_script_are_two(box: Box) -> None:
    box.run(400, ["/bin/bash", "start.sh"], exe="/bin/bash")
    for pid, port in ((500, 8080), (501, 8081)):
        box.run(pid, [ENGINE, "-m", MODEL, "--port", str(port)], parent=400, group=400)
        box.listen(pid, port)
    assert "2 servers" in refuse(box).summary
    assert "no server that Stoker knows" in refuse(box, pid=400).summary
    adopt(box, port=8081)
    assert read(box)["serve"]["port"] == 8081


def test_what_a_shell_started_is_meant_by_the_shell(box: Box) -> None:
    box.run(400, ["/bin/sh", "-c", "llama-server ..."], exe="/bin/sh")
    box.run(500, [ENGINE, "-m", MODEL], parent=400)
    box.listen(500, 8080)
    found = adopt(box, pid=400)
    assert found.pid == 500
    assert found.notes[0] == "process 400 has started process 500, which is taken"


def test_stokers_own_are_refused(box: Box) -> None:
    box.serve(env={"STOKER_DEPLOYMENT": "mine\x1b", "STOKER_HOME": "/x"})
    for wish in ({}, {"pid": 500}, {"port": 8080}):
        error = refuse(box, **wish)
        assert "is already run by Stoker as mine" in error.summary
        assert "\x1b" not in error.summary


def test_nothing_there(box: Box) -> None:
    assert "no server runs here" in refuse(box).summary
    assert "nothing listens on port 81" in refuse(box, port=81).summary
    assert "there is no process 77" in refuse(box, pid=77).summary
    box.listen(0, 82, uid=1000)
    assert "held by a process of ann" in refuse(box, port=82).summary
    box.run(500, ["/usr/sbin/nginx"], exe="/usr/sbin/nginx")
    box.listen(500, 80)
    assert "process 500 (nginx) is no server that Stoker knows" in refuse(box, port=80).summary


def test_a_process_that_may_not_be_read(box: Box) -> None:
    box.serve()
    box.host.denied.add("/proc/500/environ")
    assert "may not be looked at by this user" in refuse(box, pid=500).summary


def test_a_server_under_another_name(box: Box) -> None:
    box.run(500, ["/opt/server-cuda", "-m", MODEL, "-t", "1"], exe="/opt/server-cuda")
    box.listen(500, 8080)
    assert "--engine" in refuse(box, port=8080).hint
    adopt(box, port=8080, engine="llamacpp")
    assert read(box)["engine"]["environment"] == "path:/opt/server-cuda"


def test_one_in_a_container_is_refused(box: Box) -> None:
    box.run(500, [ENGINE, "-m", MODEL], mounts="mnt:[2]", cgroup="0::/docker/0123456789ab\n")
    box.listen(500, 8080)
    assert "runs in the container docker 0123456789ab" in refuse(box, pid=500).summary


def test_what_would_start_it_again_is_said(box: Box) -> None:
    box.run(500, [ENGINE, "-m", MODEL], mounts="mnt:[2]", cgroup="0::/system.slice/llm.service\n")
    box.listen(500, 8080)
    found = adopt(box)
    assert found.unit == "llm.service"
    assert any("systemctl disable --now llm.service" in note for note in found.notes)
    assert any("a mount namespace of its own" in note for note in found.notes)


def test_who_is_not_root_names_no_user(box: Box) -> None:
    box.serve()
    world: World = replace(box.world(), is_root=False, me="root")
    adopt_server(world, Wish(output=FILE))
    assert "user" not in read(box).get("service", {})


def test_the_next_steps_are_said(box: Box) -> None:
    box.serve()
    box.host.put_folder("/root/my files")
    found = adopt(box, output="/root/my files/a.yaml")
    assert "stoker plan '/root/my files/a.yaml'\n" in render_adoption(found)
    text = render_adoption(adopt(box))
    assert text.endswith(f"  stoker plan {FILE}\n  stoker apply {FILE} --end-holders 500\n")
