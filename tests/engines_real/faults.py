"""Faults that are made on purpose, and real engines that are started into them.

Called by test_failures.py and, to record the logs, by record_failures.py. Each fault prepares a
place (a broken file, a full disk, a port in use) and says with which words the engine starts
there; :func:`provoke` starts it, waits until it ends or says enough, and gives back what it wrote.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from tests.system.runner import free_port

_STOP_SECONDS = 20.0
_GRACE_SECONDS = 3.0
_MOST_SECONDS = 300.0
#: A fault of ours must never become one of the machine: an engine that takes more is ended.
_MOST_BYTES = 8 << 30
_CGROUP = Path("/sys/fs/cgroup/memory")
_PASSED = ("HOME", "LANG", "PATH")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """Where a fault is made: the engines, an empty ``place`` of its own, and a free port."""

    engines: Path
    llamacpp: Path
    gguf: Path
    place: Path
    port: int

    @property
    def model(self) -> Path:
        """The small model that SGLang and vLLM load."""
        return self.engines / "models" / "smollm2-hf"

    def copy_model(self) -> Path:
        """A copy whose files may be broken; the weights are a link until they are."""
        folder = self.place / "model"
        folder.mkdir()
        for file in self.model.iterdir():
            if file.suffix == ".safetensors":
                (folder / file.name).symlink_to(file)
            else:
                shutil.copy(file, folder)
        return folder


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """How the engine is started. ``before`` are words before its own (a limit, another user).

    ``until``: what the log says when it was enough, for an engine that does not end by itself.
    ``strikes``: when the log says so, this happens to the process with its id. ``limit_bytes`` of
    memory are what a control group allows.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    before: tuple[str, ...] = ()
    until: str = ""
    strikes: tuple[str, Callable[[int], None]] | None = None
    limit_bytes: int = 0
    ready_seconds: float = _MOST_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Provoked:
    """What was written: the engine's lines, and the kernel's meanwhile."""

    lines: tuple[str, ...]
    kernel: tuple[str, ...]
    status: int | None


Prepare = Callable[[Bench], Iterator[Start]]
#: By engine and name, such as ``llamacpp-port-in-use``.
FAULTS: dict[str, Prepare] = {}


def fault(*engines: str) -> Callable[[Prepare], Prepare]:
    """A generator that prepares, gives one Start, and tidies; its name names the fault."""

    def register(prepare: Prepare) -> Prepare:
        name = prepare.__name__.removeprefix("make_").replace("_", "-")
        for engine in engines:
            FAULTS[f"{engine}-{name.removeprefix(engine + '-')}"] = prepare
        return prepare

    return register


def provoke(name: str, bench: Bench) -> Provoked:
    """Start the engine into a fault and answer what it wrote."""
    with contextmanager(FAULTS[name])(bench) as start:
        return run(start, bench)


def neutral(lines: Sequence[str], bench: Bench) -> list[str]:
    """The lines without the paths and the name of this machine."""
    model, cache = str(bench.place / "model"), str(bench.engines.parent)
    known = {
        model: "/models/smollm2",
        str(bench.model): "/models/smollm2",
        str(bench.gguf): "/models/smollm2.gguf",
        str(bench.place): "/srv/place",
        str(bench.llamacpp): "/srv/engines/llamacpp",
        str(bench.engines): "/srv/engines",
        cache: "/srv/cache",
        sys.base_prefix: "/usr",
        str(Path.home()) + "/.cache": "/srv/cache",
        socket.gethostname() + " kernel": "host kernel",
        platform.release(): "6.1.0",
    }
    text = "\n".join(line.rstrip() for line in lines)
    for path, name in known.items():
        text = text.replace(path, name)
    return re.sub(r"\b(10|172|192\.168)(\.\d+){2,3}\b", "192.0.2.10", text).split("\n")


def run(start: Start, bench: Bench) -> Provoked:
    """Start the engine and answer what it wrote until it ended, or said enough."""
    passed = {name: os.environ[name] for name in _PASSED if name in os.environ}
    kernel = frozenset(_read_kernel())
    group = _make_group(start.limit_bytes)
    process = subprocess.Popen(
        ("nice", "-n", "5", *_joining(group), *start.before, *start.argv),
        env={**passed, **start.env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=bench.place,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    watch = threading.Thread(target=_watch, args=(process, start.ready_seconds))
    watch.start()
    try:
        lines = tuple(_read(process, start))
    finally:
        _end(process)
        watch.join()
        assert process.stdout is not None
        process.stdout.close()
        if group is not None:
            _remove_group(group)
    # Each has its own time; of a full buffer the oldest are gone. What the kernel says of others
    # has no place here.
    said = _read_kernel() if start.limit_bytes else ()
    new = tuple(line for line in said if line not in kernel)
    return Provoked(lines=lines, kernel=new, status=process.returncode)


def _read(process: subprocess.Popen[str], start: Start) -> Iterator[str]:
    assert process.stdout is not None
    struck = False
    for line in process.stdout:
        yield line.rstrip("\n")
        if start.strikes is not None and not struck and re.search(start.strikes[0], line):
            struck = True
            start.strikes[1](process.pid)
        if start.until and re.search(start.until, line):
            return
    process.wait()


def _watch(process: subprocess.Popen[str], seconds: float) -> None:
    """End an engine that hangs, and what one that died has left behind: it keeps the log open."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
        time.sleep(_GRACE_SECONDS)
    _end(process)


def _end(process: subprocess.Popen[str]) -> None:
    """The engine with all that it started; its group is its own."""
    for sent in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, sent)
        end = time.monotonic() + _STOP_SECONDS
        while process.poll() is None and time.monotonic() < end:
            time.sleep(0.05)


def _read_kernel() -> tuple[str, ...]:
    """The kernel's lines, or none where this user may not read them."""
    try:
        found = subprocess.run(("dmesg",), capture_output=True, text=True, check=False, timeout=20)
    except OSError:
        return ()
    return tuple(found.stdout.splitlines())


def _make_group(limit_bytes: int) -> Path | None:
    """A control group with so much memory; of an engine without a limit, that it stays small."""
    group = _CGROUP / f"stoker-fault-{os.getpid()}"
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(limit_bytes or _MOST_BYTES))
    except OSError as error:
        if limit_bytes:
            pytest.skip(f"no control group for memory can be made here: {error}")
        return None
    return group


def _joining(group: Path | None) -> tuple[str, ...]:
    """Words before a command that put it into a control group."""
    if group is None:
        return ()
    return ("sh", "-c", 'echo $$ > "$0" && exec "$@"', str(group / "cgroup.procs"))


def _remove_group(group: Path) -> None:
    end = time.monotonic() + _STOP_SECONDS
    while time.monotonic() < end:
        with suppress(OSError):
            group.rmdir()
            return
        time.sleep(0.1)


# --- what the engines are started with ---


def of_llamacpp(bench: Bench, *words: str, model: Path | None = None) -> Start:
    """llama-server with the small model, one thread, and more words."""
    server = str(bench.llamacpp / "bin" / "llama-server")
    given = ("--model", str(model or bench.gguf), "--port", str(bench.port), "--threads", "1")
    small = () if "--ctx-size" in words else ("--ctx-size", "2048")
    return Start(argv=(server, *given, *small, *words), ready_seconds=60.0)


def of_sglang(bench: Bench, *words: str, model: str = "") -> Start:
    """SGLang on a processor, without a look at the network."""
    python = str(bench.engines / "sglang-0.5.23" / "bin" / "python")
    argv = (python, "-m", "sglang.launch_server", "--model-path", model or str(bench.model))
    place = ("--host", "127.0.0.1", "--port", str(bench.port), "--device", "cpu")
    backend = () if "--attention-backend" in words else ("--attention-backend", "torch_native")
    pool = () if "--mem-fraction-static" in words else ("--max-total-tokens", "4096")
    env = {
        "SGLANG_USE_CPU_ENGINE": "1",
        "SGLANG_CPU_OMP_THREADS_BIND": "0",
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
    }
    return Start(argv=(*argv, *place, *backend, *pool, *words), env=env)


def of_vllm(bench: Bench, *words: str, model: str = "") -> Start:
    """vLLM on a processor, compiling nothing, without a look at the network."""
    command = str(bench.engines / "vllm-0.32.0" / "bin" / "vllm")
    argv = (command, "serve", model or str(bench.model), "--host", "127.0.0.1")
    place = ("--port", str(bench.port), "--enforce-eager")
    length = () if "--max-model-len" in words else ("--max-model-len", "2048")
    env = {
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
        "VLLM_CACHE_ROOT": str(bench.place / "cache"),
    }
    return Start(argv=(*argv, *place, *length, *words), env=env)


def with_env(start: Start, **more: str) -> Start:
    """The same with more variables; an empty one is taken out."""
    env = {**start.env, **more}
    return replace(start, env={name: value for name, value in env.items() if value})


@contextmanager
def listening(host: str = "127.0.0.1") -> Iterator[int]:
    """A port on which somebody else listens."""
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind((host, 0))
        held.listen()
        yield held.getsockname()[1]


@contextmanager
def small_disk(folder: Path, options: str) -> Iterator[Path]:
    """A tmpfs of its own, for one who may mount."""
    folder.mkdir()
    command = ("mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder))
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("this user may not mount a small disk")
    try:
        yield folder
    finally:
        subprocess.run(("umount", "-l", str(folder)), check=False)


def make_bench(engines: Path, place: Path) -> Bench:
    """A bench in an empty folder."""
    from tests.engines.environment import ensure_environment, ensure_model

    return Bench(
        engines=engines,
        llamacpp=ensure_environment(),
        gguf=ensure_model(),
        place=place,
        port=free_port(),
    )
