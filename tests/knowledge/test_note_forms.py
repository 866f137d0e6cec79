"""The data about notes: forms of commands, consent, field names, changes."""

from __future__ import annotations

import pytest

from stoker.knowledge.changes import load_asked
from stoker.knowledge.engines import load_catalogue
from stoker.knowledge.field_names import load_field_names
from stoker.knowledge.lifetimes import lifetime_kinds, load_lifetimes
from stoker.knowledge.notes import load_note_forms, split_image
from stoker.recipes.notes.flag_names import find_option, known_kinds


def test_images_and_shorthands_are_of_known_engines() -> None:
    forms = load_note_forms()
    kinds = {row.kind for row in forms.image} | {row.kind for row in forms.shorthand}
    assert kinds <= set(known_kinds())


@pytest.mark.parametrize("kind", lifetime_kinds())
def test_flags_that_need_consent_exist_somewhere(kind: str) -> None:
    """A flag that no engine has would be a misspelling that lets the real one through."""
    known = {name for each in lifetime_kinds() for name in load_lifetimes(each).flags}
    flags = {f"--{flag}" for row in load_note_forms().consent for flag in row.flags}
    assert flags - known == set()
    assert flags & set(load_lifetimes(kind).flags)


@pytest.mark.parametrize(
    ("value", "is_path"),
    [
        *(("/a/b", True), ("./a", True), ("../a", True), ("~/a", True), ("a=/b", True)),
        *(("x.jinja", True), ("file:///a", True), ("tool.py", True), ("C:\\x", True)),
        *(("org/model", False), ("0.9", False), ("flashinfer_cutlass", False), ("auto", False)),
        *(('{"a": "b"}', False), ('{"model": "/a"}', True), ("8192", False), ("SYS", False)),
    ],
)
def test_what_looks_like_a_path(value: str, is_path: bool) -> None:
    need = load_note_forms().needs_consent("some-flag", "flag", value)
    assert (need is not None) is is_path


@pytest.mark.parametrize(
    ("image", "parts"),
    [
        ("a/b:c", ("a/b", "c")),
        ("host:5000/a/b", ("host:5000/a/b", "")),
        ("host:5000/a/b:c@sha256:0", ("host:5000/a/b", "c")),
        ("a", ("a", "")),
    ],
)
def test_an_image_s_parts(image: str, parts: tuple[str, str]) -> None:
    assert split_image(image) == parts


@pytest.mark.parametrize(
    ("page", "raw"),
    [
        (
            "https://github.com/a/b/blob/main/c/d.md",
            "https://raw.githubusercontent.com/a/b/main/c/d.md",
        ),
        ("https://gist.github.com/a/0123abc", "https://gist.githubusercontent.com/a/0123abc/raw"),
        ("https://huggingface.co/a/b", "https://huggingface.co/a/b/raw/main/README.md"),
        ("https://example.org/x.md", "https://example.org/x.md"),
    ],
)
def test_pages_and_their_raw_texts(page: str, raw: str) -> None:
    assert load_note_forms().find_raw(page) == raw


def test_a_field_s_flag_is_in_the_releases_that_it_names() -> None:
    names = load_field_names("sglang")
    assert names is not None
    assert names.find("--fp4-gemm-runner-backend") == ("--fp4-gemm-backend", "0.5.8", "0.5.23")
    for field, (flag, first, last) in names.fields.items():
        for release in (first, last):
            catalogue = load_catalogue("sglang", release)
            assert find_option(catalogue, flag) is not None
            assert find_option(catalogue, f"--{field.replace('_', '-')}") is None


def test_changes_are_of_releases_that_exist() -> None:
    for change in load_asked().change:
        assert change.release in load_lifetimes(change.engine).releases
