"""A note becomes a recipe that is kept, or settings in a deployment file."""

from __future__ import annotations

import getpass
from dataclasses import replace
from pathlib import Path

import pytest

from stoker.commands.recipe_import import ImportWish, import_recipe
from stoker.commands.recipes import list_recipes
from stoker.commands.world import World
from stoker.endpoints.fetch import Fetched
from stoker.errors import EndpointError, HostError, NotFound, SpecError, UsageError
from stoker.hosts.local import LocalHost
from stoker.knowledge.engines import engine_kinds
from stoker.model.launch import Origin
from stoker.model.note import NoteImport
from stoker.model.recipe import Recipe, RecipeStatus
from stoker.ports import Stat
from stoker.recipes.notes.read import Wish
from stoker.report.recipe_import_text import render_import
from stoker.spec import parse_deployment
from stoker.state.recipes import list_collections, read_recipes
from tests.commands.boxes import Box
from tests.fakes.host import MemoryHost
from tests.recipes.notes.notes import case

NOTE = """\
# Notes

```
docker run --gpus '"device=0,1"' lmsysorg/sglang:v0.5.9 sglang serve --model-path a/b \\
  --tp 2 --fp4-gemm-runner-backend flashinfer_cudnn --trust-remote-code \\
  --api-key sk-abcdefghijklmnop0123
```

Also `--attention-backend triton`.
"""
FILE = """\
# My server.
name: mine
model: hf:a/b
engine:
  kind: sglang
  environment: system
  settings:
    tp-size: 4  # as many as there are
    disable-radix-cache: true
"""


@pytest.fixture
def world(tmp_path: Path) -> World:
    box = Box()
    # The lock is a real file whatever the host: its folder must be there, and be the test's own.
    (tmp_path / "recipes").mkdir()
    box.host.put("/notes/n.md", NOTE)
    box.host.put("/notes/two.md", case("nvfp4-note.md"))
    box.host.put("/models/card/README.md", "# A model\n\n```\nvllm serve a/b -tp 2\n```\n")
    world = box.world()
    return replace(world, folders=replace(world.folders, state=str(tmp_path)))


def bring(
    world: World,
    source: str = "/notes/n.md",
    *,
    into: str | None = None,
    name: str | None = None,
    number: int | None = None,
    model: str | None = None,
    consent: str = "",
    take: str = "",
) -> NoteImport:
    wish = Wish(
        number=number,
        model=model,
        consents=frozenset(consent.split()),
        takes=frozenset(take.split()),
    )
    return import_recipe(world, ImportWish(source=source, wish=wish, name=name, into=into), refuse)


def refuse(url: str) -> Fetched:
    raise AssertionError(f"nothing is fetched from {url}")


def kept(world: World) -> list[Recipe]:
    return [
        recipe
        for collection in list_collections(world.host, world.folders)
        for entry in collection.entries
        for recipe in read_recipes(world.host, world.folders, collection, entry).recipes
    ]


def test_a_note_is_kept_as_an_untested_recipe(world: World) -> None:
    imported = bring(world)
    (recipe,) = kept(world)
    assert imported.recipe == recipe.id == "note:a/b/n"
    assert (recipe.engine, recipe.models, recipe.versions) == ("sglang", ("a/b",), "==0.5.9")
    assert (recipe.hardware.status, recipe.hardware.said) == (RecipeStatus.UNTESTED, "note")
    assert (recipe.hardware.gpu_count, recipe.strategy) == (2, "imported")
    settings = {each.name: each.value for each in recipe.settings}
    assert settings == {"--tp-size": "2", "--fp4-gemm-backend": "flashinfer_cudnn"}
    for each in recipe.settings:
        assert each.origin is Origin.RECIPE
        assert each.source is not None
        assert each.source.where == "/notes/n.md"
        assert "line 4 of the note" in each.reason
    assert "name of a field" in recipe.settings[1].reason
    assert list_recipes(world).lines[0].model == "a/b"


def test_what_is_named_is_taken_too(world: World) -> None:
    bring(world, consent="trust-remote-code", take="attention-backend")
    (recipe,) = kept(world)
    settings = {each.name: each.value for each in recipe.settings}
    assert settings["--trust-remote-code"] is None
    assert settings["--attention-backend"] == "triton"


def test_a_secret_is_in_no_document_and_no_report(world: World) -> None:
    imported = bring(world)
    assert "abcdefghijklmnop0123" not in repr(imported)
    assert "abcdefghijklmnop0123" not in render_import(imported)
    assert "abcdefghijklmnop0123" not in repr(kept(world))


def test_several_notes_are_kept_beside_each_other(world: World) -> None:
    bring(world)
    bring(world, name="other")
    bring(world, name="other", take="attention-backend")
    bring(world, "/models/card")
    assert sorted((recipe.id, len(recipe.settings)) for recipe in kept(world)) == [
        ("note:a/b/n", 2),
        ("note:a/b/other", 3),
        ("note:a/b/readme", 1),
    ]


def test_of_two_commands_none_is_chosen(world: World) -> None:
    imported = bring(world, "/notes/two.md")
    assert (imported.recipe, imported.into, kept(world)) == ("", "", [])
    text = render_import(imported)
    assert "1. SGLang" in text
    assert "2. vLLM" in text
    assert "choose one with --command N" in text
    assert bring(world, "/notes/two.md", number=2).recipe == "note:nvidia/Some-397B-NVFP4/two-2"


def test_sentences_alone_are_kept_for_a_model_that_is_named(world: World) -> None:
    text = "Use `--fp4-gemm-runner-backend flashinfer_cudnn` with SGLang on SM120."
    box = Box()
    box.host.put("/notes/s.txt", text)
    world = replace(box.world(), folders=world.folders)
    nothing = bring(world, "/notes/s.txt")
    assert nothing.recipe == ""
    assert "--take NAME" in render_import(nothing)
    unnamed = bring(world, "/notes/s.txt", take="all")
    assert "name it with --model" in unnamed.remarks[-1]
    assert bring(world, "/notes/s.txt", take="all", model="a/b").recipe == "note:a/b/s"


def test_what_cannot_be_read(world: World) -> None:
    with pytest.raises(NotFound, match="no file"):
        bring(world, "/notes/none.md")
    world.host.write_file("/notes/big.md", b"x" * ((1 << 20) + 1), 0o644)
    with pytest.raises(UsageError, match="larger"):
        bring(world, "/notes/big.md")


def test_an_address_is_fetched_in_its_raw_form(world: World) -> None:
    asked = []

    def fetch(url: str) -> Fetched:
        asked.append(url)
        return Fetched(text=NOTE, url=url, media_type="text/plain")

    wanted = ImportWish(source="https://github.com/me/notes/blob/main/a/b.md", wish=Wish())
    imported = import_recipe(world, wanted, fetch)
    assert asked == ["https://raw.githubusercontent.com/me/notes/main/a/b.md"]
    assert imported.source.where == asked[0]
    assert imported.recipe == "note:a/b/b"


# Into a deployment file, which lies on the real disk as the user's own files do.


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.yaml"
    path.write_text(FILE, encoding="utf-8")
    return path


def written(world: World, file: Path) -> str:
    return world.host.read_text(str(file))


def test_settings_go_into_a_file_and_comments_stay(world: World, file: Path) -> None:
    imported = bring(world, into=str(file), take="attention-backend")
    assert imported.into == str(file)
    text = written(world, file)
    assert text.startswith("# My server.\n")
    assert "tp-size: 4  # as many as there are" in text
    settings = parse_deployment(text, "x", engine_kinds=engine_kinds()).engine.settings
    assert settings == {
        "tp-size": 4,
        "disable-radix-cache": True,
        "fp4-gemm-backend": "flashinfer_cudnn",
        "attention-backend": "triton",
    }
    assert any("tp-size stays 4" in remark for remark in imported.remarks)
    assert kept(world) == []


def test_a_command_of_another_engine_does_not_go_into_a_file(world: World, file: Path) -> None:
    before = file.read_text().replace("kind: sglang", "kind: vllm")
    file.write_text(before)
    with pytest.raises(UsageError, match=r"the command starts sglang, and .* is for vllm"):
        bring(world, into=str(file), number=1)
    assert not world.host.stat(str(file)), "nothing was written"


def test_the_file_s_own_values_go_only_when_they_are_named(world: World, file: Path) -> None:
    bring(world, into=str(file), consent="tp-size")
    settings = parse_deployment(
        written(world, file), "x", engine_kinds=engine_kinds()
    ).engine.settings
    assert settings["tp-size"] == 2


def test_another_spelling_is_the_same_flag(world: World, file: Path) -> None:
    file.write_text(FILE.replace("tp-size: 4", "tensor-parallel-size: 4"), encoding="utf-8")
    bring(world, into=str(file), consent="tp-size")
    settings = parse_deployment(
        written(world, file), "x", engine_kinds=engine_kinds()
    ).engine.settings
    assert settings["tp-size"] == 2
    assert "tensor-parallel-size" not in settings


def test_keys_of_a_deployment_are_set_only_when_they_are_named(world: World, file: Path) -> None:
    bring(world, into=str(file), consent="model-path")
    deployment = parse_deployment(written(world, file), "x", engine_kinds=engine_kinds())
    assert deployment.model.ref == "hf:a/b"


def test_a_second_time_changes_nothing(world: World, file: Path) -> None:
    bring(world, into=str(file))
    before = written(world, file)
    assert bring(world, into=str(file)).into == str(file)
    assert written(world, file) == before


def test_a_file_for_another_engine_and_a_broken_one(world: World, file: Path) -> None:
    file.write_text(FILE.replace("kind: sglang", "kind: llamacpp"), encoding="utf-8")
    with pytest.raises(UsageError, match="none of the engine commands"):
        bring(world, into=str(file))
    file.write_text("name: [", encoding="utf-8")
    with pytest.raises(SpecError):
        bring(world, into=str(file))


def test_an_address_that_does_not_answer_breaks_no_contract(world: World) -> None:
    def fetch(url: str) -> Fetched:
        raise EndpointError("refused", f"{url} cannot be read: no route", "fetch it yourself")

    wanted = ImportWish(source="https://notes.test/a.md", wish=Wish())
    with pytest.raises(HostError, match="cannot be read: no route") as failure:
        import_recipe(world, wanted, fetch)
    assert (failure.value.exit_code, failure.value.hint) == (7, "fetch it yourself")


def test_the_file_keeps_its_mode_and_the_link_to_it(tmp_path: Path) -> None:
    real, link = tmp_path / "real.yaml", tmp_path / "link.yaml"
    real.write_text(FILE, encoding="utf-8")
    real.chmod(0o600)
    link.symlink_to(real)
    note = tmp_path / "n.md"
    note.write_text(NOTE, encoding="utf-8")
    world = replace(Box().world(), host=LocalHost(), me=getpass.getuser())
    bring(world, str(note), into=str(link))
    assert link.is_symlink()
    assert "fp4-gemm-backend" in real.read_text(encoding="utf-8")
    assert real.stat().st_mode & 0o777 == 0o600


def test_a_file_that_changed_meanwhile_is_not_written(file: Path) -> None:
    def fetch(url: str) -> Fetched:
        return Fetched(text=NOTE, url=url, media_type="text/plain")

    class Changing(MemoryHost):
        """Someone saves the file while the engine's release is asked."""

        def find_command(self, name: str) -> str | None:
            file.write_text(FILE.replace("tp-size: 4", "tp-size: 8"), encoding="utf-8")
            return None

        def stat(self, path: str) -> Stat | None:
            self.find_command("")
            return super().stat(path)

    world = replace(Box().world(), host=Changing())
    wanted = ImportWish(source="https://h.example/n.md", wish=Wish(), into=str(file))
    with pytest.raises(UsageError, match="nothing was written"):
        import_recipe(world, wanted, fetch)
    assert "fp4" not in file.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["../../../../tmp/x", "A", "", "-a", "a" * 41, "a\n", "a b"])
def test_a_name_is_letters_digits_and_dashes(world: World, name: str) -> None:
    with pytest.raises(UsageError, match="--name"):
        bring(world, name=name)
    assert kept(world) == []


def test_no_query_of_an_address_is_kept(world: World) -> None:
    def fetch(url: str) -> Fetched:
        return Fetched(text=NOTE, url=url, media_type="text/plain")

    wanted = ImportWish(source="https://h.example/n.md?token=SECRETTOK9#SECRETTOK9", wish=Wish())
    assert import_recipe(world, wanted, fetch).source.where == "https://h.example/n.md"
    assert kept(world)[0].source.where == "https://h.example/n.md"
