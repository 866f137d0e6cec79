"""Ask SGLang's own resolution of arguments what it would choose on GPUs that are not here.

Run by hand with the interpreter of an environment that holds SGLang (a CPU build of PyTorch will
do), once for each release; `--sources` puts another release's unpacked package before the
installed one:

    LD_LIBRARY_PATH=FOLDER-WITH-A-STUB-OF-LIBCUDA ENVIRONMENT/bin/python \
        scripts/record_sglang_choices.py --sources UNPACKED/sglang-0.5.9 0.5.9

It answers for a GPU that it is told of: PyTorch's questions about the device are answered from
`_GPUS`, kernel packages (`flashinfer`, `sgl_kernel`, `deep_gemm`) are empty modules, and weights
are never read. So this shows what SGLang *chooses* and *refuses before it loads*, not what works.
One child process for each GPU, since SGLang keeps its answers. Writes
`tests/knowledge/recorded/sglang_choices/RELEASE.json`.
"""

from __future__ import annotations

import argparse
import importlib.abc
import importlib.machinery
import json
import logging
import os
import re
import subprocess
import sys
import tempfile
import types
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

_FOLDER = (
    Path(__file__).resolve().parents[1] / "tests" / "knowledge" / "recorded" / "sglang_choices"
)
_GPUS = {
    "8.0": "NVIDIA A100-SXM4-80GB",
    "9.0": "NVIDIA H200",
    "10.0": "NVIDIA B200",
    "12.0": "NVIDIA RTX PRO 6000 Blackwell Server Edition",
}
_MEMORY_BYTES = 97_887 << 20
_STUBS = ("flashinfer", "sgl_kernel", "deep_gemm")
_ASKED = (
    *("attention_backend", "prefill_attention_backend", "decode_attention_backend"),
    *("moe_runner_backend", "fp8_gemm_runner_backend", "fp4_gemm_runner_backend"),
    *("kv_cache_dtype", "page_size", "dsa_prefill_backend", "dsa_decode_backend"),
    *("nsa_prefill_backend", "nsa_decode_backend"),
)
_ATTENTION_OF = ("llama", "qwen3-next", "deepseek-v3-fp8", "gpt-oss")
_EXPERTS_OF = ("qwen3-moe-fp8", "qwen3-moe-nvfp4")
_CACHE_OF = ("llama", "deepseek-v3-fp8", "deepseek-v32-fp8")
_MOST_SHOWN = 120


class _Anything:
    """Whatever a kernel package is asked for while it is imported."""

    def __init__(self, *args: object, **kwargs: object) -> None: ...

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        is_decorated = len(args) == 1 and callable(args[0]) and not kwargs
        return args[0] if is_decorated else _Anything()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything()


class _AnyType(type):
    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything()


class _EmptyModule(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name == "__version__":
            return "99"
        if name.startswith("__"):
            raise AttributeError(name)
        return _AnyType(name, (_Anything,), {})


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(
        self, name: str, path: object = None, target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name.partition(".")[0] not in _STUBS:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        module = _EmptyModule(spec.name)
        module.__path__ = []
        return module

    def exec_module(self, module: types.ModuleType) -> None: ...


def _pretend(capability: str) -> None:
    """Let PyTorch tell of eight GPUs of this kind."""
    torch = import_module("torch")

    major, minor = map(int, capability.split("."))
    device = types.SimpleNamespace(
        name=_GPUS[capability], major=major, minor=minor, total_memory=_MEMORY_BYTES,
        multi_processor_count=132, gcnArchName="", warp_size=32, L2_cache_size=1 << 26,
        shared_memory_per_block_optin=101_376, max_threads_per_multi_processor=2048,
    )  # fmt: skip
    answers: dict[str, Any] = {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "device_count": lambda: 8,
        "current_device": lambda: 0,
        "get_device_capability": lambda *_, **__: (major, minor),
        "get_device_properties": lambda *_, **__: device,
        "get_device_name": lambda *_, **__: device.name,
        "mem_get_info": lambda *_, **__: (_MEMORY_BYTES, _MEMORY_BYTES),
    }
    for name, answer in answers.items():
        setattr(torch.cuda, name, answer)
    torch.version.cuda = "13.0"
    _be_lenient(torch)


def _be_lenient(torch: Any) -> None:
    """Other releases register operators and model types that this environment lacks or has."""
    register = torch.library.register_fake

    def try_register(operator: Any, function: Any = None, *args: Any, **kwargs: Any) -> Any:
        if function is None:
            return lambda given: try_register(operator, given, *args, **kwargs)
        try:
            return register(operator, function, *args, **kwargs)
        except RuntimeError:
            return function

    torch.library.register_fake = try_register
    auto_config = import_module("transformers").AutoConfig
    configuration_auto = import_module("transformers.models.auto.configuration_auto")

    of_names = configuration_auto._LazyConfigMapping.register
    of_class = auto_config.register
    configuration_auto._LazyConfigMapping.register = lambda self, key, value, exist_ok=False: (
        of_names(self, key, value, exist_ok=True)
    )
    auto_config.register = staticmethod(
        lambda key, value, exist_ok=False: of_class(key, value, exist_ok=True)
    )


def _cases() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Every model as it is, then one flag each with each value that the parser takes."""
    server_args = import_module("sglang.srt.server_args").ServerArgs
    parser = argparse.ArgumentParser(add_help=False)
    server_args.add_cli_args(parser)
    choices = {
        name: tuple(action.choices or ())
        for action in parser._actions
        for name in action.option_strings
    }
    yield from ((path.stem, ()) for path in sorted((_FOLDER / "models").glob("*.json")))
    asked = {
        "--attention-backend": _ATTENTION_OF,
        "--decode-attention-backend": _ATTENTION_OF[:3],
        "--moe-runner-backend": _EXPERTS_OF,
        "--kv-cache-dtype": _CACHE_OF,
        "--dsa-prefill-backend": ("deepseek-v32-fp8", "glm5-fp8"),
        "--dsa-decode-backend": ("deepseek-v32-fp8", "glm5-fp8"),
    }
    for flag, models in asked.items():
        for value in choices.get(flag, ()):
            yield from ((model, (flag, str(value))) for model in models)
    for model in ("qwen3-moe-nvfp4", "qwen3-next-nvfp4"):
        yield model, ("--quantization", "modelopt_fp4")


def _answer(model: Path, words: tuple[str, ...]) -> dict[str, Any]:
    prepare_server_args = import_module("sglang.srt.server_args").prepare_server_args
    try:
        made = prepare_server_args(["--model-path", str(model), "--load-format", "dummy", *words])
        if hasattr(made, "resolve_once"):
            made.resolve_once()
            made = import_module("sglang.srt.arg_groups.overrides").resolved_view(made)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever it is, it is the answer
        return {"refused": f"{type(error).__name__}: {error}".replace("\n", " ")[:_MOST_SHOWN]}
    chosen = {name: getattr(made, name, None) for name in _ASKED}
    return {"chosen": {name: value for name, value in chosen.items() if value is not None}}


def _ask_here(capability: str, sources: str) -> None:
    """The child: print one line of JSON for each case."""
    sys.meta_path.insert(0, _Finder())
    if sources:
        sys.path.insert(0, sources)
    _pretend(capability)
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as folder:
        for model, words in _cases():
            place = Path(folder, model)
            place.mkdir(exist_ok=True)
            text = (_FOLDER / "models" / f"{model}.json").read_text(encoding="utf-8")
            (place / "config.json").write_text(text, encoding="utf-8")
            told = {"model": model, "arguments": list(words), "capability": capability}
            sys.stdout.write(f"@{json.dumps({**told, **_answer(place, words)})}\n")


def _main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("release", help="names the file that is written")
    parser.add_argument("--sources", default="", help="an unpacked package to take instead")
    parser.add_argument("--capability", choices=_GPUS, help="only for the children")
    wanted = parser.parse_args()
    if wanted.capability:
        _ask_here(wanted.capability, wanted.sources)
        return
    answers: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        tool = Path(folder, "nvidia-smi")
        tool.write_text("#!/bin/sh\nfor gpu in 1 2 3 4 5 6 7 8; do echo 97887; done\n")
        tool.chmod(0o755)
        environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
        for capability in _GPUS:
            words = ["--sources", wanted.sources, "--capability", capability, wanted.release]
            command = [sys.executable, __file__, *words]
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, check=False
            )
            told = [line[1:] for line in done.stdout.splitlines() if line.startswith("@")]
            if not told:
                raise SystemExit(done.stderr[-2000:])
            answers += map(json.loads, told)
    made = f"scripts/record_sglang_choices.py, SGLang {wanted.release}, no GPU"
    text = json.dumps({"made": made, "gpus": _group(answers)}, indent=1)
    # Lists of models, and what one model chooses, each on one line.
    short = re.sub(r"(\[|\{)\n\s+([^][{}]*?)\n\s+(\]|\})", _join, text)
    (_FOLDER / f"{wanted.release}.json").write_text(f"{short}\n", encoding="utf-8")


def _group(answers: list[dict[str, Any]]) -> dict[str, Any]:
    """By GPU: what each model chooses by itself, and which models a flag's value goes with."""
    gpus: dict[str, Any] = {}
    for answer in answers:
        gpu = gpus.setdefault(answer["capability"], {"chosen": {}, "accepted": {}, "refused": {}})
        model, words = answer["model"], " ".join(answer["arguments"])
        if not words:
            gpu["chosen"][model] = answer.get("chosen", answer.get("refused"))
        elif "chosen" in answer:
            gpu["accepted"].setdefault(words, []).append(model)
        else:
            gpu["refused"].setdefault(words, {})[model] = answer["refused"]
    return gpus


def _join(found: re.Match[str]) -> str:
    return found[1] + re.sub(r"\n\s+", " ", found[2]) + found[3]


if __name__ == "__main__":
    _main()
