"""Faults of llama.cpp: broken files, wrong words, and what the system denies."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.engines_real.faults import Bench, Start, fault, listening, of_llamacpp
from tests.engines_real.starts import load_small_models, write_small_model
from tests.probes.model_files import build_gguf

_NOBODY = 65534
_MIB = 1 << 20


def small(bench: Bench, name: str) -> Path:
    """A model file of some architecture, without a vocabulary."""
    path = bench.place / f"{name}.gguf"
    write_small_model(load_small_models()[name], path)
    return path


def copy_gguf(bench: Bench) -> Path:
    path = bench.place / "copy.gguf"
    path.write_bytes(bench.gguf.read_bytes())
    return path


@fault("llamacpp")
def make_port_in_use(bench: Bench) -> Iterator[Start]:
    with listening() as port:
        yield of_llamacpp(replace(bench, port=port))


@fault("llamacpp")
def make_address_not_available(bench: Bench) -> Iterator[Start]:
    yield of_llamacpp(bench, "--host", "203.0.113.7")


@fault("llamacpp")
def make_bad_flag(bench: Bench) -> Iterator[Start]:
    yield of_llamacpp(bench, "--context-lenght", "4096")


@fault("llamacpp")
def make_bad_value(bench: Bench) -> Iterator[Start]:
    yield of_llamacpp(bench, "--parallel", "many")


@fault("llamacpp")
def make_model_missing(bench: Bench) -> Iterator[Start]:
    yield of_llamacpp(bench, model=bench.place / "gone.gguf")


@fault("llamacpp")
def make_truncated_file(bench: Bench) -> Iterator[Start]:
    path = copy_gguf(bench)
    os.truncate(path, path.stat().st_size // 2)
    yield of_llamacpp(bench, model=path)


@fault("llamacpp")
def make_truncated_header(bench: Bench) -> Iterator[Start]:
    path = copy_gguf(bench)
    os.truncate(path, 4000)
    yield of_llamacpp(bench, model=path)


@fault("llamacpp")
def make_wrong_magic(bench: Bench) -> Iterator[Start]:
    path = bench.place / "page.gguf"
    path.write_bytes(b"<!DOCTYPE html>\n<html><title>404</title></html>\n" * 40)
    yield of_llamacpp(bench, model=path)


@fault("llamacpp")
def make_unknown_architecture(bench: Bench) -> Iterator[Start]:
    path = bench.place / "future.gguf"
    path.write_bytes(build_gguf({"general.architecture": "futura9", "futura9.block_count": 2}))
    yield of_llamacpp(bench, model=path)


@fault("llamacpp")
def make_missing_tensor(bench: Bench) -> Iterator[Start]:
    model = dict(load_small_models()["deepseek2"])
    model["tensors"] = {k: v for k, v in model["tensors"].items() if k != "output_norm.weight"}
    path = bench.place / "lacks.gguf"
    write_small_model(model, path)
    yield of_llamacpp(bench, model=path)


@fault("llamacpp")
def make_cache_type_and_heads(bench: Bench) -> Iterator[Start]:
    yield of_llamacpp(bench, "--fit", "off", "--cache-type-k", "q8_0", model=small(bench, "gemma4"))


@fault("llamacpp")
def make_cache_type_without_flash(bench: Bench) -> Iterator[Start]:
    yield of_llamacpp(bench, "--cache-type-v", "q8_0", "--flash-attn", "off")


@fault("llamacpp")
def make_cache_type_unknown(bench: Bench) -> Iterator[Start]:
    yield of_llamacpp(bench, "--cache-type-k", "fp8")


@fault("llamacpp")
def make_cache_too_large(bench: Bench) -> Iterator[Start]:
    words = ("--ctx-size", "2000000000", "--fit", "off", "--parallel", "1")
    # Without a bound it takes all memory of the machine before it learns that it is too little.
    yield replace(of_llamacpp(bench, *words), before=("prlimit", f"--as={4096 * _MIB}", "--"))


@fault("llamacpp")
def make_no_permission(bench: Bench) -> Iterator[Start]:
    if os.geteuid():
        pytest.skip("only root can give a file to another user")
    path = copy_gguf(bench)
    path.chmod(0o600)
    os.chown(path, _NOBODY, _NOBODY)
    # Root that may not pass over modes reads no file of another user.
    before = ("setpriv", "--bounding-set=-dac_override,-dac_read_search")
    yield replace(of_llamacpp(bench, model=path), before=before)


@fault("llamacpp")
def make_template_missing(bench: Bench) -> Iterator[Start]:
    yield of_llamacpp(bench, "--chat-template-file", str(bench.place / "gone.jinja"))


@fault("llamacpp")
def make_template_broken(bench: Bench) -> Iterator[Start]:
    path = bench.place / "broken.jinja"
    path.write_text("{% for message in messages %}{{ message.content }\n")
    yield of_llamacpp(bench, "--chat-template-file", str(path))


@fault("llamacpp")
def make_projector_missing(bench: Bench) -> Iterator[Start]:
    yield of_llamacpp(bench, "--mmproj", str(bench.place / "gone-mmproj.gguf"))


@fault("llamacpp")
def make_projector_is_a_model(bench: Bench) -> Iterator[Start]:
    yield of_llamacpp(bench, "--mmproj", str(bench.gguf))


@fault("llamacpp")
def make_draft_missing(bench: Bench) -> Iterator[Start]:
    yield of_llamacpp(bench, "--model-draft", str(bench.place / "gone-draft.gguf"))


@fault("llamacpp")
def make_adapter_missing(bench: Bench) -> Iterator[Start]:
    yield of_llamacpp(bench, "--lora", str(bench.place / "gone-lora.gguf"))


@fault("llamacpp")
def make_few_open_files(bench: Bench) -> Iterator[Start]:
    before = ("prlimit", "--nofile=7:7", "--")
    yield replace(of_llamacpp(bench, "--parallel", "8"), before=before, until="listening")


@fault("llamacpp")
def make_address_space(bench: Bench) -> Iterator[Start]:
    before = ("prlimit", f"--as={900 * _MIB}", "--")
    yield replace(of_llamacpp(bench, "--ctx-size", "65536", "--parallel", "1"), before=before)


@fault("llamacpp")
def make_control_group_memory(bench: Bench) -> Iterator[Start]:
    start = of_llamacpp(bench, "--ctx-size", "65536", "--parallel", "1", "--fit", "off")
    yield replace(start, limit_bytes=400 * _MIB)
