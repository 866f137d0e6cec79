"""Words that must not be in the tree: the project speaks of itself alone."""

import re

import pytest

from tests.meta.source import PROJECT, project_files

#: Each pattern is spelt so that it does not match itself. The registry hosts matter because a
#: person may install through a mirror, and because the first address that `make up` prints shall
#: be that of the served model.
FORBIDDEN = {
    "a path of one developer's machine": r"(?<![\w.-])/work/[\w.]",
    "a reference to a tracker": r"\bissue #\d",
    "the host of a package registry": r"pypi[.]org|pythonhosted[.]org|deb[.]debian[.]org|npmjs[.]",
}


def texts() -> dict[str, str]:
    """The text files of the tree by their path; binary files are left out."""
    contents = {path.relative_to(PROJECT).as_posix(): path.read_bytes() for path in project_files()}
    return {
        name: content.decode("utf-8", "replace")
        for name, content in contents.items()
        if b"\0" not in content
    }


def places(pattern: str) -> list[str]:
    """Where a pattern stands: ``path:line: text``."""
    return [
        f"{name}:{number}: {line.strip()}"
        for name, text in texts().items()
        for number, line in enumerate(text.splitlines(), 1)
        if re.search(pattern, line, re.IGNORECASE)
    ]


@pytest.mark.parametrize("what", FORBIDDEN)
def test_the_tree_does_not_contain(what: str) -> None:
    assert places(FORBIDDEN[what]) == []


def test_only_the_makefile_looks_beside_the_checkout() -> None:
    beside = places(r"[.][.]/shared")
    assert [place for place in beside if not place.startswith("Makefile:")] == []
