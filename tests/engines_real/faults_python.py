"""Faults of SGLang and vLLM: the model's files, the words, the network, and what the system denies.

A start of either takes some ten seconds before it reads the first of its own words.
"""

from __future__ import annotations

import json
import os
import re
import signal
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

from tests.engines_real.faults import (
    Bench,
    Start,
    fault,
    listening,
    of_sglang,
    of_vllm,
    small_disk,
    with_env,
)
from tests.weights.hub_server import COMMIT, REPOSITORY, Answering, Hub, tree_entry

_MIB = 1 << 20
_API = f"/api/models/{REPOSITORY}"
_MAIN = f"/{REPOSITORY}/resolve/main/"


def change_config(folder: Path, **changes: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def own_weights(folder: Path) -> Path:
    """The weights of a copied model as a file of its own."""
    path = folder / "model.safetensors"
    content = path.resolve().read_bytes()
    path.unlink()
    path.write_bytes(content)
    return path


def kill_child(name: str) -> Callable[[int], None]:
    """End a process of the engine's session by force: the one whose title begins so."""

    def strike(session: int) -> None:
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                title = (folder / "cmdline").read_bytes().decode(errors="replace")
                own = os.getsid(int(folder.name)) == session
            except (OSError, ProcessLookupError):
                continue
            if own and title.startswith(name):
                os.kill(int(folder.name), signal.SIGKILL)

    return strike


@contextmanager
def hub(bench: Bench, *, certificate: Path | None = None) -> Iterator[str]:
    """A hub on the loopback with the small model's files; with a certificate it speaks TLS."""
    shown = Hub(files={f.name: f.read_bytes() for f in bench.model.iterdir()})

    class Handler(Answering):
        def do_GET(self) -> None:  # noqa: N802
            self.path = self.path.replace(_MAIN, _MAIN.replace("main", COMMIT))
            path = urlsplit(self.path).path
            if path.startswith(f"/{REPOSITORY}/"):
                known = Path(path).name in shown.files
            else:
                known = re.fullmatch(rf"{_API}(/tree/\w+|/revision/\w+)?", path) is not None
            if not known:
                self.send_json({"error": "none"}, 404, {"X-Error-Code": "EntryNotFound"})
            elif "/tree/" in path:
                self.send_json([tree_entry(*item) for item in shown.files.items()])
            elif path.startswith(_API):
                files = [{"rfilename": name} for name in shown.files]
                self.send_json({"id": REPOSITORY, "sha": COMMIT, "siblings": files})
            else:
                super().do_GET()

    Handler.shown = shown
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
    # A client that refuses the certificate breaks the connection: nothing to be told here.
    server.handle_error = lambda request, client_address: None  # type: ignore[method-assign]
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    scheme = "http" if certificate is None else "https"
    try:
        yield f"{scheme}://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def make_certificate(folder: Path, *, begins: str, ends: str) -> Path:
    """A certificate of the loopback, signed by itself, with its key in one file."""
    key, request, config = folder / "key.pem", folder / "request.pem", folder / "ca.cnf"
    (folder / "index.txt").touch()
    config.write_text(
        f"[ca]\ndefault_ca=own\n[own]\ndir={folder}\ndatabase={folder}/index.txt\n"
        f"new_certs_dir={folder}\nserial={folder}/serial\ndefault_md=sha256\npolicy=any\n"
        "x509_extensions=names\n[any]\ncommonName=supplied\n"
        "[names]\nsubjectAltName=IP:127.0.0.1\nbasicConstraints=critical,CA:true\n"
    )
    new = ("req", "-new", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=127.0.0.1")
    _openssl(*new, "-keyout", str(key), "-out", str(request))
    made = folder / "certificate.pem"
    sign = ("ca", "-batch", "-notext", "-selfsign", "-create_serial", "-config", str(config))
    dates = ("-startdate", begins, "-enddate", ends)
    _openssl(*sign, *dates, "-keyfile", str(key), "-in", str(request), "-out", str(made))
    both = folder / "both.pem"
    both.write_text(key.read_text() + made.read_text())
    return both


def _openssl(*words: str) -> None:
    subprocess.run(("openssl", *words), check=True, capture_output=True, timeout=60)


def of_hub(start: Start, url: str, cache: Path, **more: str) -> Start:
    """The same with a hub of ours and a cache of its own."""
    env = {"HF_ENDPOINT": url, "HF_HOME": str(cache), "HF_HUB_OFFLINE": "", **more}
    return with_env(start, **env)


# --- both engines alike ---


def on(engine: str, bench: Bench, *words: str, model: str = "") -> Start:
    return {"sglang": of_sglang, "vllm": of_vllm}[engine](bench, *words, model=model)


def both(make: Callable[[str, Bench], Iterator[Start]]) -> None:
    """One fault for each of the two engines."""
    for engine in ("sglang", "vllm"):
        name = make.__name__.removeprefix("make_")

        def prepare(bench: Bench, engine: str = engine) -> Iterator[Start]:
            yield from make(engine, bench)

        prepare.__name__ = name
        fault(engine)(prepare)


@both
def make_port_in_use(engine: str, bench: Bench) -> Iterator[Start]:
    with listening() as port:
        # SGLang does not end by itself then.
        yield replace(on(engine, replace(bench, port=port)), until="address already in use")


@both
def make_bad_flag(engine: str, bench: Bench) -> Iterator[Start]:
    yield on(engine, bench, "--max-context", "4096")


@both
def make_wrong_tool_parser(engine: str, bench: Bench) -> Iterator[Start]:
    more = ("--enable-auto-tool-choice",) if engine == "vllm" else ()
    yield on(engine, bench, *more, "--tool-call-parser", "qwen9")


@both
def make_wrong_reasoning_parser(engine: str, bench: Bench) -> Iterator[Start]:
    yield on(engine, bench, "--reasoning-parser", "qwen9")


@both
def make_template_missing(engine: str, bench: Bench) -> Iterator[Start]:
    yield on(engine, bench, "--chat-template", str(bench.place / "gone.jinja"))


@both
def make_tensor_parallel(engine: str, bench: Bench) -> Iterator[Start]:
    # On a processor SGLang pads the heads, and what does not fit is the binding of its threads.
    yield on(engine, bench, "--tensor-parallel-size", "2")


@both
def make_truncated_shard(engine: str, bench: Bench) -> Iterator[Start]:
    folder = bench.copy_model()
    path = own_weights(folder)
    os.truncate(path, path.stat().st_size // 2)
    yield on(engine, bench, model=str(folder))


@both
def make_shard_is_a_page(engine: str, bench: Bench) -> Iterator[Start]:
    folder = bench.copy_model()
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").write_text("<!DOCTYPE html><html>sign in</html>" * 40)
    yield on(engine, bench, model=str(folder))


@both
def make_shard_missing(engine: str, bench: Bench) -> Iterator[Start]:
    folder = bench.copy_model()
    (folder / "model.safetensors").unlink()
    yield on(engine, bench, model=str(folder))


@both
def make_wrong_dtype(engine: str, bench: Bench) -> Iterator[Start]:
    yield on(engine, bench, "--dtype", "fp4")


@both
def make_tokenizer_missing(engine: str, bench: Bench) -> Iterator[Start]:
    folder = bench.copy_model()
    for path in folder.glob("tokenizer*"):
        path.unlink()
    yield on(engine, bench, model=str(folder))


@both
def make_config_corrupt(engine: str, bench: Bench) -> Iterator[Start]:
    folder = bench.copy_model()
    path = folder / "config.json"
    path.write_text(path.read_text()[:300])
    yield on(engine, bench, model=str(folder))


@both
def make_config_missing(engine: str, bench: Bench) -> Iterator[Start]:
    folder = bench.copy_model()
    (folder / "config.json").unlink()
    yield on(engine, bench, model=str(folder))


@both
def make_unknown_architecture(engine: str, bench: Bench) -> Iterator[Start]:
    folder = bench.copy_model()
    change_config(folder, architectures=["Futura9ForCausalLM"], model_type="futura9")
    yield on(engine, bench, model=str(folder))


@both
def make_model_missing(engine: str, bench: Bench) -> Iterator[Start]:
    yield on(engine, bench, model=str(bench.place / "gone"))


@both
def make_context_too_long(engine: str, bench: Bench) -> Iterator[Start]:
    flag = {"sglang": "--context-length", "vllm": "--max-model-len"}[engine]
    yield on(engine, bench, flag, "262144")


@both
def make_unknown_quantization(engine: str, bench: Bench) -> Iterator[Start]:
    yield on(engine, bench, "--quantization", "awq")


@both
def make_hub_offline(engine: str, bench: Bench) -> Iterator[Start]:
    yield with_env(on(engine, bench, model=REPOSITORY), HF_HOME=str(bench.place / "cache"))


@both
def make_hub_refused(engine: str, bench: Bench) -> Iterator[Start]:
    url = f"http://127.0.0.1:{bench.port}"
    yield of_hub(on(engine, bench, model=REPOSITORY), url, bench.place / "cache")


@both
def make_no_disk(engine: str, bench: Bench) -> Iterator[Start]:
    with hub(bench) as url, small_disk(bench.place / "cache", "size=8m") as cache:
        yield of_hub(on(engine, bench, model=REPOSITORY), url, cache)


@both
def make_read_only_cache(engine: str, bench: Bench) -> Iterator[Start]:
    with hub(bench) as url, small_disk(bench.place / "cache", "ro,size=1m") as cache:
        yield of_hub(on(engine, bench, model=REPOSITORY), url, cache)


@both
def make_clock_skew(engine: str, bench: Bench) -> Iterator[Start]:
    later = make_certificate(bench.place, begins="20980101000000Z", ends="20990101000000Z")
    with hub(bench, certificate=later) as url:
        cache, trusted = bench.place / "cache", str(bench.place / "certificate.pem")
        yield of_hub(on(engine, bench, model=REPOSITORY), url, cache, SSL_CERT_FILE=trusted)


@both
def make_killed_child(engine: str, bench: Bench) -> Iterator[Start]:
    words, child = {
        "sglang": ("Load weight begin|Init torch distributed begin", "sglang::scheduler"),
        "vllm": ("Initializing a V1 LLM engine|Loading weights", "VLLM::EngineCore"),
    }[engine]
    yield replace(on(engine, bench), strikes=(words, kill_child(child)))


@both
def make_control_group_memory(engine: str, bench: Bench) -> Iterator[Start]:
    yield replace(on(engine, bench), limit_bytes=900 * _MIB)


@both
def make_few_open_files(engine: str, bench: Bench) -> Iterator[Start]:
    yield replace(on(engine, bench), before=("prlimit", "--nofile=40:40", "--"))


# --- one of them ---


@fault("sglang")
def make_sglang_wrong_attention(bench: Bench) -> Iterator[Start]:
    yield of_sglang(bench, "--attention-backend", "flashatention")


@fault("vllm")
def make_vllm_pool_too_small(bench: Bench) -> Iterator[Start]:
    words = ("--max-model-len", "8192", "--kv-cache-memory-bytes", str(16 * _MIB))
    yield with_env(of_vllm(bench, *words), VLLM_CPU_KVCACHE_SPACE="")


@fault("vllm")
def make_vllm_share_too_high(bench: Bench) -> Iterator[Start]:
    start = of_vllm(bench, "--gpu-memory-utilization", "1.0")
    yield with_env(start, VLLM_CPU_KVCACHE_SPACE="")


@fault("vllm")
def make_vllm_own_code(bench: Bench) -> Iterator[Start]:
    folder = bench.copy_model()
    change_config(
        folder,
        model_type="own9",
        auto_map={"AutoConfig": "configuration_own.OwnConfig"},
    )
    (folder / "configuration_own.py").write_text("class OwnConfig: pass\n")
    yield of_vllm(bench, model=str(folder))


@fault("vllm")
def make_vllm_tools_without_parser(bench: Bench) -> Iterator[Start]:
    yield of_vllm(bench, "--enable-auto-tool-choice")


@fault("vllm")
def make_vllm_draft_missing(bench: Bench) -> Iterator[Start]:
    config = {"method": "eagle3", "num_speculative_tokens": 3}
    yield of_vllm(bench, "--speculative-config", json.dumps(config))
