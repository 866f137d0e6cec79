"""Reading a collection from a folder or a repository, and keeping what it says."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from stoker.commands.recipe_sync import MAX_FILES, read_commit, sync_recipes
from stoker.commands.recipes import list_recipes, show_recipes
from stoker.commands.world import World
from stoker.errors import HostError, LockHeld, UsageError
from stoker.hosts.local import LocalHost
from stoker.model.plan import Folders
from stoker.model.recipe import RecipeCollection
from stoker.report.recipes_text import render_collection, render_recipes, render_shown
from stoker.state.recipes import list_collections, read_recipes
from tests.fakes.host import MemoryHost
from tests.laws.worlds import ListReporter, Machine
from tests.recipes.reading import FIXTURES, recipes_of

COMMIT = "b" * 40


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A real disk below a fresh folder."""
    folders = Folders(
        state=str(tmp_path / "state"),
        environments=str(tmp_path / "environments"),
        models=str(tmp_path / "models"),
        services=str(tmp_path / "services"),
    )
    made = Machine().world()
    host = LocalHost()
    stat = host.stat(str(tmp_path))
    env = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return replace(
        made,
        host=host,
        folders=folders,
        me=stat.owner if stat else "",
        env=env,
        reporter=ListReporter(),
    )


def synced(world: World, folder: Path | str = FIXTURES, **options: str) -> list[RecipeCollection]:
    return list(sync_recipes(world, str(folder), **options))


def test_a_folder_with_both_collections(world: World) -> None:
    sglang, vllm = synced(world)
    assert (sglang.name, vllm.name) == ("sglang-cookbook", "vllm-recipes")
    assert sum(each.recipe_count for each in vllm.entries) == len(recipes_of("vllm"))
    assert [each.file for each in vllm.complaints if each.place.startswith("line")] == [
        "models/acme/Broken.yaml"
    ]
    assert vllm.commit == "unknown"
    assert vllm.repository == str(FIXTURES / "vllm")


def test_what_was_kept_reads_back_with_its_sources(world: World) -> None:
    made = synced(world, FIXTURES / "vllm", commit=COMMIT)[0]
    (kept,) = list_collections(world.host, world.folders)
    assert kept == made
    read = [
        recipe
        for entry in kept.entries
        for recipe in read_recipes(world.host, world.folders, kept, entry).recipes
    ]
    assert {each.id for each in read} == set(recipes_of("vllm"))
    for recipe in read:
        assert recipe.source.version == COMMIT
        assert recipe.source.where.startswith(f"{FIXTURES / 'vllm'}: models/acme/")
        every = [*recipe.settings, *(each for f in recipe.features for each in f.settings)]
        assert all((each.source, each.rule) == (recipe.source, recipe.id) for each in every)


def test_a_second_reading_takes_the_place_of_the_first(world: World, tmp_path: Path) -> None:
    synced(world, FIXTURES / "vllm")
    world.clock.sleep(60)
    (newer,) = synced(world, FIXTURES / "vllm")
    folder = tmp_path / "state" / "recipes"
    assert sorted(path.name for path in folder.iterdir() if path.is_dir()) == [newer.folder]


def test_a_reading_that_fails_leaves_the_old_one(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = synced(world, FIXTURES / "vllm")
    world.clock.sleep(60)

    class FullDisk(LocalHost):
        def write_file(self, path: str, content: bytes, mode: int, owner: str = "") -> None:
            if "vllm-recipes-" in path and "0001" in path:
                raise HostError("the disk is full")
            super().write_file(path, content, mode, owner)

    with pytest.raises(HostError):
        synced(replace(world, host=FullDisk()), FIXTURES / "vllm")
    assert list_collections(world.host, world.folders) == tuple(before)
    synced(world, FIXTURES / "sglang")
    folder = tmp_path / "state" / "recipes"
    assert len([path for path in folder.iterdir() if path.is_dir()]) == 2


def test_progress_is_shown(world: World) -> None:
    synced(world, FIXTURES / "vllm")
    reporter = world.reporter
    assert isinstance(reporter, ListReporter)
    fractions = [event.fraction for event in reporter.events]
    assert fractions[0] == 0.0
    assert fractions[-1] == 1.0
    assert "vllm-recipes: models/acme/Broken.yaml" in {event.text for event in reporter.events}


def test_two_readings_at_once_are_refused(world: World) -> None:
    class Meanwhile(LocalHost):
        def list_folder(self, path: str) -> tuple[str, ...]:
            if path.endswith("fixtures/vllm"):
                sync_recipes(world, str(FIXTURES / "sglang"))
            return super().list_folder(path)

    with pytest.raises(LockHeld):
        synced(replace(world, host=Meanwhile()), FIXTURES / "vllm")


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("/nowhere/at/all", "is no folder"),
        (str(FIXTURES / "vllm" / "strategies"), "there is no collection"),
        (str(FIXTURES / "vllm" / "taxonomy.yaml"), "is no folder"),
    ],
)
def test_a_source_that_is_none(world: World, source: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        synced(world, source)


def test_a_commit_is_of_one_collection(world: World) -> None:
    with pytest.raises(UsageError, match="there are several"):
        synced(world, FIXTURES, commit=COMMIT)
    with pytest.raises(UsageError, match="cannot be the name"):
        synced(world, FIXTURES / "vllm", commit="--upload-pack=x")


def test_too_many_files(world: World, tmp_path: Path) -> None:
    class Crowded(LocalHost):
        def list_folder(self, path: str) -> tuple[str, ...]:
            return tuple(f"{number}.yaml" for number in range(MAX_FILES + 1))

    with pytest.raises(UsageError, match="more than"):
        synced(replace(world, host=Crowded()), tmp_path)


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
    done = subprocess.run(
        ["git", *who, *words], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """The fixture of vLLM's format as a repository with a hook and a submodule's file."""
    folder = tmp_path / "recipes.git"
    folder.mkdir()
    for path in (FIXTURES / "vllm").rglob("*.yaml"):
        target = folder / path.relative_to(FIXTURES / "vllm")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(path.read_text("utf-8"), encoding="utf-8")
    (folder / ".gitmodules").write_text('[submodule "x"]\n\tpath = x\n\turl = /nowhere\n')
    (folder / "link.yaml").symlink_to("/etc/passwd")
    git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message=one")
    return folder


def test_a_repository_is_cloned_and_removed_again(
    world: World, repository: Path, tmp_path: Path
) -> None:
    (made,) = synced(world, f"file://{repository}")
    assert made.commit == git(repository, "rev-parse", "HEAD")
    assert made.repository == f"file://{repository}"
    assert not (tmp_path / "state" / "recipes" / "clone").exists()


def test_the_commit_of_a_folder_is_read_from_gits_own_files(repository: Path) -> None:
    host = LocalHost()
    commit = git(repository, "rev-parse", "HEAD")
    assert read_commit(host, str(repository)) == commit
    git(repository, "pack-refs", "--all")
    assert read_commit(host, str(repository)) == commit
    git(repository, "checkout", "--quiet", "--detach")
    assert read_commit(host, str(repository)) == commit


def test_a_head_that_leads_elsewhere_is_no_commit() -> None:
    evil = MemoryHost({"/r/.git/HEAD": "ref: refs/../../etc/passwd", "/r/.git/x": "y"})
    assert read_commit(evil, "/r") == ""
    assert read_commit(MemoryHost(), "/r") == ""


def test_a_repository_that_cannot_be_cloned(world: World, tmp_path: Path) -> None:
    with pytest.raises(HostError, match="git clone of"):
        synced(world, f"file://{tmp_path}/nowhere")


def test_no_password_of_an_address_is_kept(world: World, tmp_path: Path) -> None:
    with pytest.raises(HostError) as caught:
        synced(world, f"file://me:secret@{tmp_path}/nowhere")
    assert "secret" not in caught.value.summary


@pytest.mark.parametrize("login", ["me:SEC/RETPW9", "me:SEC@RETPW9", "RETPW9", "me:SEC'RETPW9"])
def test_no_login_and_no_query_is_told(world: World, tmp_path: Path, login: str) -> None:
    address = f"file://{login}@{tmp_path}/nowhere?token=SECRETTOK9#SECRETTOK9"
    with pytest.raises(HostError) as caught:
        synced(world, address)
    reporter = world.reporter
    assert isinstance(reporter, ListReporter)
    told = " ".join((caught.value.summary, caught.value.hint, *map(repr, reporter.events)))
    assert "nowhere" in told
    for secret in ("RETPW9", "SECRETTOK9", "SEC"):
        assert secret not in told


@pytest.mark.parametrize("source", ["ext::sh -c id", "--upload-pack=x", "http://example.org/x"])
def test_other_protocols_are_no_repositories(world: World, source: str) -> None:
    with pytest.raises(UsageError, match="is no folder"):
        synced(world, source)


def test_what_is_listed_and_shown(world: World) -> None:
    collections = synced(world)
    assert "28 recipes" not in render_collection(collections[0])
    listed = list_recipes(world, "vllm")
    assert [line.model for line in listed.lines] == ["acme/Feather-1B", "acme/Rocket-300B"]
    text = render_recipes(listed)
    assert "acme/Rocket-300B" in text
    shown = show_recipes(world, "hf:acme/Rocket-300B-NVFP4", gpu="RTX PRO 6000")
    assert {each.recipe.hardware.word for each in shown.recipes} == {"rtx_pro_6000_8x"}
    text = render_shown(shown)
    assert "stated (the collection's word: supported) for rtx_pro_6000_8x, 4 GPUs" in text
    assert "$ ROCKET_BOOST=1 ROCKET_CARD=pro vllm serve" in text
    assert "acme/Rocket-300B-NVFP4 --trust-remote-code" in text
    one = show_recipes(world, "vllm:acme/Rocket-300B/default/h200/single_node_tp")
    assert len(one.recipes) == 1
    both = show_recipes(world, "Rocket-300B")
    assert {each.recipe.engine for each in both.recipes} == {"sglang", "vllm"}
    assert "is not listed" not in render_shown(both)


def test_nothing_to_list_or_show(world: World) -> None:
    with pytest.raises(UsageError, match="no collection"):
        list_recipes(world)
    synced(world, FIXTURES / "vllm")
    with pytest.raises(UsageError, match="no collection of recipes for sglang was read"):
        list_recipes(world, "sglang")
    with pytest.raises(UsageError, match="there is no engine named foo"):
        list_recipes(world, "foo")
    with pytest.raises(UsageError, match="there is no engine named foo"):
        show_recipes(world, "acme/Feather-1B", engine="foo")
    with pytest.raises(UsageError, match="no recipe is about acme/Unknown"):
        show_recipes(world, "acme/Unknown")
    with pytest.raises(UsageError, match="on L4"):
        show_recipes(world, "acme/Feather-1B", gpu="L4")
