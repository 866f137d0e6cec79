"""Models of the hub: the real client against a small server on the loopback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.errors import PreparationFailed, StokerError, UsageError
from stoker.model.deployment import ModelReference
from stoker.model.plan import Folders, Preparation
from stoker.preparing.tools import Tools
from stoker.weights.hub import HUB_CLIENT, Snapshot, fetch_hub
from stoker.weights.plan import model_path, plan_model
from stoker.weights.reference import HubModel, find_cache
from tests.preparing.machine import PROJECT, ListedEvents, MachineClock, folders_in, wait_until
from tests.weights.hub_server import COMMIT, REPOSITORY, Hub, serve
from tests.weights.shop import GGUF, HOST, fetch

CONFIG = b'{"model_type": "tiny"}'
REF = f"hf:{REPOSITORY}"

#: Fetches into a folder from the hub of the environment; killed by the test half way.
FETCHER = """
import os, sys
from pathlib import Path
from tests.preparing.machine import folders_in
from tests.weights.test_hub import Reader
reader = Reader(dict(os.environ), folders_in(Path(sys.argv[1])), sys.argv[2])
reader.fetch(reader.plan("m.gguf"))
"""


class Reader:
    """Plans and fetches with one environment into one folder."""

    def __init__(self, env: dict[str, str], folders: Folders, python: str) -> None:
        self.env = env
        self.folders = folders
        self.python = python
        self.events = ListedEvents()

    def path(self, file: str | None = None, ref: str = REF) -> str:
        reference = ModelReference(ref=ref, file=file)
        return model_path(reference, self.folders, {}, self.env, host=HOST, python=self.python)

    def plan(self, file: str | None = None, ref: str = REF) -> Preparation | None:
        reference = ModelReference(ref=ref, file=file)
        return plan_model(reference, self.folders, {}, self.env, host=HOST, python=self.python)

    def fetch(self, preparation: Preparation | None) -> Path:
        return fetch(
            preparation, self.folders, env=self.env, events=self.events, python=self.python
        )

    def names(self) -> set[str]:
        """What lies among the models, without what the client itself keeps."""
        found = {path.name for path in Path(self.folders.models).rglob("*") if path.is_file()}
        own = ("CACHEDIR.TAG", f"{COMMIT}.json")
        return {name for name in found if len(name) < 60 and name not in own}


@pytest.fixture
def hub() -> Iterator[Hub]:
    files = {"m.gguf": GGUF, "config.json": CONFIG, "sub/q-00001-of-00002.gguf": GGUF + b"1"}
    with serve(Hub(files={**files, "sub/q-00002-of-00002.gguf": GGUF + b"2"})) as hub:
        yield hub


@pytest.fixture
def reader(hub: Hub, tmp_path: Path, hub_python: str) -> Reader:
    return Reader(hub.env(), folders_in(tmp_path), hub_python)


class TestFetched:
    def test_one_file_at_the_commit_of_the_branch(self, hub: Hub, reader: Reader) -> None:
        preparation = reader.plan("m.gguf")
        assert preparation is not None
        assert preparation.summary == "ann/tiny m.gguf at c0ffee000000 (1000.0 KiB download)"
        assert preparation.target == reader.path("m.gguf")
        assert not Path(reader.folders.models).exists(), "a plan writes nothing"

        path = reader.fetch(preparation)
        assert path.read_bytes() == GGUF
        assert COMMIT in path.parts
        assert not any("config.json" in request for request in hub.asked)
        assert reader.names() == {"main", "m.gguf", ".models--ann--tiny.lock"}

    def test_what_is_there_needs_no_hub(self, hub: Hub, reader: Reader) -> None:
        path = reader.fetch(reader.plan("m.gguf"))
        hub.asked.clear()
        assert reader.plan("m.gguf") is None
        assert reader.path("m.gguf") == str(path)
        assert hub.asked == []

    def test_a_split_model_is_fetched_whole(self, reader: Reader) -> None:
        path = reader.fetch(reader.plan("sub/q-00001-of-00002.gguf"))
        assert path.name == "q-00001-of-00002.gguf"
        assert path.with_name("q-00002-of-00002.gguf").read_bytes() == GGUF + b"2"
        assert reader.plan("sub/q-00001-of-00002.gguf") is None

    def test_a_whole_repository(self, hub: Hub, reader: Reader) -> None:
        hub.files = {"model.safetensors": b"x" * 100, "config.json": CONFIG}
        path = reader.fetch(reader.plan())
        assert (path / "config.json").read_bytes() == CONFIG
        hub.asked.clear()
        assert (reader.plan(), reader.path(), hub.asked) == (None, str(path), [])

    def test_the_person_s_own_cache_is_used(self, reader: Reader, tmp_path: Path) -> None:
        reader.env["HF_HOME"] = str(tmp_path / "own")
        path = reader.fetch(reader.plan("m.gguf"))
        assert path.is_relative_to(tmp_path / "own" / "hub")

    def test_a_file_of_another_program_is_found_without_the_hub(
        self, hub: Hub, reader: Reader, tmp_path: Path
    ) -> None:
        reader.env["HF_HOME"] = str(tmp_path / "own")
        command = "import huggingface_hub as h; h.snapshot_download('ann/tiny')"
        subprocess.run([reader.python, "-c", command], env=reader.env, check=True)
        hub.refuses = (500, "down")
        assert reader.plan("m.gguf") is None
        hub.refuses = None
        reader.env |= {"HF_HUB_OFFLINE": "1"}
        hub.files.pop("m.gguf")
        assert reader.plan("config.json") is None

    def test_the_token_goes_to_the_child_alone(self, hub: Hub, reader: Reader) -> None:
        hub.token = "hf_secret"
        reader.env["HF_TOKEN"] = hub.token
        preparation = reader.plan("m.gguf")
        reader.fetch(preparation)
        assert hub.token not in repr(preparation)
        assert not any(hub.token in repr(event) for event in reader.events.events)


class TestInterrupted:
    def test_a_transfer_that_breaks_goes_on(self, hub: Hub, reader: Reader) -> None:
        preparation = reader.plan("m.gguf")
        hub.cut_after_bytes = 200_000
        assert reader.fetch(preparation).read_bytes() == GGUF

    def test_killed_half_way_then_done_again(
        self, hub: Hub, reader: Reader, tmp_path: Path
    ) -> None:
        hub.hold_after_bytes = 200_000
        killed = subprocess.Popen(
            [sys.executable, "-c", FETCHER, tmp_path, reader.python],
            cwd=PROJECT,
            env={**os.environ, "HF_ENDPOINT": hub.url},
        )
        wait_until(hub.held.is_set)
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        hub.go.set()
        assert reader.fetch(reader.plan("m.gguf")).read_bytes() == GGUF
        assert reader.names() == {"main", "m.gguf", ".models--ann--tiny.lock"}

    def test_a_transfer_that_brings_nothing_is_given_up(self, hub: Hub, reader: Reader) -> None:
        hub.hold_after_bytes = 200_000
        preparation = reader.plan("m.gguf")
        assert preparation is not None
        tools = Tools(
            host=HOST, clock=MachineClock(), reporter=reader.events, pip=(), environ=reader.env
        )
        with pytest.raises(PreparationFailed, match="nothing came for 1 seconds"):
            fetch_hub(
                HubModel(organisation="ann", name="tiny"),
                Snapshot(commit=COMMIT, file="m.gguf", files=preparation.details["files"]),
                tools,
                cache=find_cache(reader.env, reader.folders),
                python=reader.python,
                patience_seconds=1.0,
            )
        fractions = reader.events.fractions
        assert fractions
        assert max(fractions) < 1
        assert reader.names() == {"main", ".models--ann--tiny.lock"}


class TestRefused:
    def refuse(self, reader: Reader, file: str | None = "m.gguf", ref: str = REF) -> StokerError:
        with pytest.raises(StokerError) as caught:
            reader.plan(file, ref)
        assert not Path(reader.folders.models).exists()
        return caught.value

    def test_without_the_client(self, reader: Reader) -> None:
        reader.python = "/usr/bin/python3"
        error = self.refuse(reader)
        assert "huggingface_hub, which is not installed" in error.summary
        hint = "install it with `/usr/bin/python3 -m pip install 'huggingface_hub>=2.4'`"
        assert error.hint == hint
        extras = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
        assert extras["optional-dependencies"]["hub"] == [HUB_CLIENT]

    def test_a_gated_repository(self, hub: Hub, reader: Reader) -> None:
        hub.refuses = (403, "GatedRepo")
        error = self.refuse(reader)
        assert "ann/tiny is gated" in error.summary
        assert "HF_TOKEN" in error.hint

    def test_a_gated_repository_while_it_is_fetched(self, hub: Hub, reader: Reader) -> None:
        preparation = reader.plan("m.gguf")
        hub.refuses = (403, "GatedRepo")
        with pytest.raises(PreparationFailed, match="is gated"):
            reader.fetch(preparation)

    def test_no_such_repository(self, reader: Reader) -> None:
        error = self.refuse(reader, ref="hf:ann/huge")
        assert error.summary == "the hub shows no repository ann/huge"

    def test_no_such_revision(self, reader: Reader) -> None:
        error = self.refuse(reader, ref=f"{REF}@v9")
        assert error.summary == "ann/tiny has no revision v9"

    def test_no_such_file(self, reader: Reader) -> None:
        error = self.refuse(reader, "x.gguf")
        assert isinstance(error, UsageError)
        assert error.summary == "ann/tiny has no file x.gguf"
        assert "m.gguf" in error.hint

    def test_several_models_and_none_named(self, reader: Reader) -> None:
        error = self.refuse(reader, None)
        assert isinstance(error, UsageError)
        assert error.summary == "ann/tiny holds 2 models"

    def test_a_hub_that_is_broken(self, hub: Hub, reader: Reader) -> None:
        hub.refuses = (500, "broken")
        assert "failed at ann/tiny (status 500)" in self.refuse(reader).summary

    def test_a_hub_that_is_not_there(self, reader: Reader) -> None:
        reader.env["HF_ENDPOINT"] = "http://127.0.0.1:9"
        error = self.refuse(reader)
        assert "could not be reached" in error.summary
        assert "path:/" in error.hint

    def test_no_network_by_the_person_s_own_will(self, reader: Reader) -> None:
        reader.env["HF_HUB_OFFLINE"] = "1"
        assert "HF_HUB_OFFLINE forbids" in self.refuse(reader).summary

    def test_what_is_no_model(self, hub: Hub, reader: Reader) -> None:
        hub.files["m.gguf"] = b"version https://git-lfs.github.com/spec/v1\n"
        with pytest.raises(PreparationFailed, match="only a Git LFS pointer"):
            reader.fetch(reader.plan("m.gguf"))
