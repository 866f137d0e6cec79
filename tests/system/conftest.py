"""Real parts for all tests of this folder: the command, a supervisord, an engine, a model."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import PROJECT
from tests.system.runner import DOWNLOAD_SECONDS, NAME, Look, Stoker, free_port, write_small

_HERE = Path(__file__).parent
_WHEELS = PROJECT / ".cache" / "wheels"

#: Makes a Stoker with a new state folder.
NewStoker = Callable[..., Stoker]
#: Mounts a file system of so many KiB at a new folder.
NewTmpfs = Callable[[int], Path]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All of these run an engine; what the first one downloads does not count as its time."""
    for item in items:
        if item.path.is_relative_to(_HERE):
            item.add_marker(pytest.mark.engine)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(120, func_only=True))


@pytest.fixture(scope="session")
def package_index() -> Iterator[None]:
    """Packages that are here already are not downloaded again."""
    with pytest.MonkeyPatch.context() as patch:
        if _WHEELS.is_dir() and "PIP_FIND_LINKS" not in os.environ:
            patch.setenv("PIP_FIND_LINKS", str(_WHEELS))
        yield


@pytest.fixture(scope="session")
def data(own_folders: None, package_index: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with an engine, a supervisord and a model in it, kept for later sessions."""
    folder = Path(os.environ["STOKER_DATA"])
    place = tmp_path_factory.mktemp("prepare")
    stoker = Stoker(place / "state", folder, place=place)
    stoker.patience_seconds = DOWNLOAD_SECONDS
    file = write_small(place, port=free_port())
    plan = stoker.succeed("plan", file, "--json").document
    if plan["preparations"]:
        stoker.succeed("apply", file)
        stoker.succeed("down")
    return folder


@pytest.fixture(scope="session")
def model_file(data: Path) -> Path:
    """The real weights."""
    return min((data / "models").rglob("*.gguf"))


@pytest.fixture
def new_stoker(data: Path, tmp_path: Path) -> Iterator[NewStoker]:
    """Stokers with state folders of their own; what they leave running ends with the test."""
    made: list[Stoker] = []

    def make(
        state: Path | None = None, *, data: Path = data, prefix: tuple[str, ...] = ()
    ) -> Stoker:
        chosen = state or tmp_path / f"state-{len(made)}"
        made.append(Stoker(chosen, data, place=tmp_path, prefix=prefix))
        return made[-1]

    yield make
    for stoker in made:
        stoker.close()


@pytest.fixture
def stoker(new_stoker: NewStoker) -> Stoker:
    """One that has done nothing yet."""
    return new_stoker()


@pytest.fixture
def port() -> int:
    """A port that is free now."""
    return free_port()


@pytest.fixture
def small(tmp_path: Path, port: int) -> str:
    """The file of the small deployment."""
    return write_small(tmp_path, port=port)


class Standing:
    """A running deployment that many tests use one after the other."""

    def __init__(self, place: Path, data: Path) -> None:
        self.stoker = Stoker(place / "state", data, place=place)
        self.port = free_port()
        self._first = Look()

    def restore(self) -> Stoker:
        """Running, verified, generation 1: as it is, or made anew."""
        write_small(self.stoker.place, port=self.port)
        is_whole = bool(self._first.running) and self.stoker.look() == self._first
        if not (is_whole and self.stoker.daemons() and not self.stoker.is_interrupted()):
            self.stoker.close()
            shutil.rmtree(self.stoker.state, ignore_errors=True)
            self.stoker.succeed("apply", self.file)
            self._first = self.stoker.look()
        return self.stoker

    @property
    def file(self) -> str:
        """Its deployment file."""
        return str(self.stoker.place / f"{NAME}.yaml")


@pytest.fixture(scope="session")
def standing(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standing]:
    """See :class:`Standing`; use ``running``."""
    found = Standing(tmp_path_factory.mktemp("standing"), data)
    yield found
    found.stoker.close()


@pytest.fixture
def running(standing: Standing) -> Stoker:
    """A Stoker whose deployment runs; its file is ``running.place / "small.yaml"``."""
    return standing.restore()


@pytest.fixture
def running_file(running: Stoker, standing: Standing) -> str:
    """The deployment file of ``running``; restored for each test."""
    return standing.file


@pytest.fixture
def tmpfs(tmp_path: Path) -> Iterator[NewTmpfs]:
    """Small file systems of their own, where this user may mount any."""
    mounted: list[Path] = []

    def mount(size_kib: int) -> Path:
        folder = tmp_path / f"disk-{len(mounted)}"
        folder.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={size_kib}k,mode=0700", "none", str(folder)]
        done = subprocess.run(command, capture_output=True, check=False)
        if done.returncode != 0:
            pytest.skip("file systems cannot be mounted here")
        mounted.append(folder)
        return folder

    yield mount
    for folder in mounted:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture(scope="session")
def open_data(package_index: None) -> Iterator[Path]:
    """An empty data folder that every user may enter, far from this checkout."""
    folder = Path(tempfile.mkdtemp(prefix="stoker-test-", dir="/var/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)
