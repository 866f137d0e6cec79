"""Fetching packages through pip: from an index in a folder, checked, and kept."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from scripts.fetch_flag_sources import fetch, find_files

SOURCES = b"not really an archive"
NAMES = {
    "vllm-1.0.tar.gz": SOURCES,
    "vllm-1.1.tar.gz": b"newer",
    "vllm-1.1-cp38-abi3-manylinux_2_28_x86_64.whl": b"wheel",
    "vllm-1.1-cp38-abi3-macosx_14_0_arm64.whl": b"other wheel",
}


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package index as a folder, which is the only one that pip knows."""
    folder = tmp_path / "index" / "vllm"
    folder.mkdir(parents=True)
    links = []
    for name, content in NAMES.items():
        (folder / name).write_bytes(content)
        digest = hashlib.sha256(content).hexdigest()
        links.append(f'<a href="{name}#sha256={digest}">{name}</a>')
    (folder / "index.html").write_text(f"<!DOCTYPE html><html><body>{''.join(links)}</body></html>")
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_NO_INDEX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", folder.parent.as_uri())
    return folder


def test_sources_are_found_and_fetched(index: Path, tmp_path: Path) -> None:
    session, found = find_files("vllm", "sources", [])
    assert [str(each.version) for each in found] == ["1.0", "1.1"]
    made = fetch(found[0], session, tmp_path / "cache")
    assert (made.name, made.read_bytes()) == ("vllm-1.0.tar.gz", SOURCES)
    assert [path.name for path in made.parent.iterdir()] == [made.name]


def test_wheels_are_those_for_linux_whatever_this_machine_is(index: Path) -> None:
    _, found = find_files("vllm", "wheel", ["1.1"])
    assert [each.link.filename for each in found] == [
        "vllm-1.1-cp38-abi3-manylinux_2_28_x86_64.whl"
    ]


def test_what_is_there_is_kept(index: Path, tmp_path: Path) -> None:
    session, found = find_files("vllm", "sources", ["1.0"])
    (tmp_path / "vllm-1.0.tar.gz").write_bytes(b"mine")
    assert fetch(found[0], session, tmp_path).read_bytes() == b"mine"


def test_a_file_that_is_not_what_the_index_says(index: Path, tmp_path: Path) -> None:
    (index / "vllm-1.0.tar.gz").write_bytes(b"changed")
    session, found = find_files("vllm", "sources", ["1.0"])
    with pytest.raises(ValueError, match="not what the index says"):
        fetch(found[0], session, tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []
