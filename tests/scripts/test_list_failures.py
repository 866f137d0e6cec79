"""What an engine can say when it does not start, read from sources that are never run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scripts.list_failures import (
    Failure,
    find_signatures,
    is_of_a_start,
    main,
    merge,
    read_failures,
    read_package,
)
from stoker.diagnosis.matching import make_matcher
from stoker.knowledge.signatures import Meaning, Signature, SignatureExample
from stoker.model.finding import Source

SOURCE = """
LIMIT = "the limit is %d tokens"
import nothing_that_exists  # nothing is run


class Pool:
    def __init__(self, size, asked):
        if size < asked:
            raise ValueError(f"Not enough room: {asked / 1e9:.2f} GB asked, {size} there")
        assert size % 2 == 0, "size must be even, got {}".format(size)
        assert size
        message = "first half, "
        message += f"second half {size}"
        raise RuntimeError(message)

    def forward(self, x):
        raise NotImplementedError("a kernel has no such mode %s" % x)


def check(logger, parser, flag):
    logger.info("nothing that ends a start")
    logger.error("the port %s is taken", flag)
    if flag:
        raise errors.TooBig(LIMIT % flag)
    raise ValueError("one thing " + str(flag) + " another")


def leave(sys):
    sys.exit("there is no such model here")
    raise NotImplementedError
"""

SIGNATURE = Signature(
    id="test.no-room",
    means=(Meaning(kind="kv-pool-no-room"),),
    needles=("Not enough room",),
    pattern=r"Not enough room: (?P<asked>[\d.]+) GB asked",
    engines=("sglang",),
    source=Source(kind="documented", where="here", version="1"),
    example=(SignatureExample(text="Not enough room: 2.00 GB asked"),),
)


def find(text: str) -> Failure:
    (found,) = (each for each in read_failures(SOURCE, "a.py") if text in each.text)
    return found


@pytest.mark.parametrize(
    ("text", "how", "function", "printed"),
    [
        (
            "Not enough",
            "ValueError",
            "Pool.__init__",
            "ValueError: Not enough room: 12 GB asked, 12 there",
        ),
        ("must be even", "assert", "Pool.__init__", "AssertionError: size must be even, got 12"),
        (
            "second half",
            "RuntimeError",
            "Pool.__init__",
            "RuntimeError: first half, second half 12",
        ),
        (
            "has no such mode",
            "NotImplementedError",
            "Pool.forward",
            "NotImplementedError: a kernel has no such mode 12",
        ),
        ("the port", "log", "check", "the port 12 is taken"),
        ("the limit", "TooBig", "check", "TooBig: the limit is 12 tokens"),
        ("one thing", "ValueError", "check", "ValueError: one thing 12 another"),
        ("no such model", "exit", "leave", "there is no such model here"),
    ],
)
def test_every_way_to_fail_is_found(text: str, how: str, function: str, printed: str) -> None:
    failure = find(text)
    assert (failure.how, failure.function, failure.printed) == (how, function, printed)


def test_what_does_not_fail_is_left_out() -> None:
    found = read_failures(SOURCE, "a.py")
    assert len(found) == 8
    assert not any("nothing that ends" in each.text for each in found)
    assert read_failures("this is no python:", "a.py") == ()


def test_the_template_keeps_what_is_filled_in() -> None:
    assert find("Not enough").template == (
        "Not enough room: {asked / 1000000000.0:.2f} GB asked, {size} there"
    )
    assert find("one thing").template == "one thing {str(flag)} another"


def test_a_start_has_its_places() -> None:
    failure = find("Not enough")
    assert not is_of_a_start(failure, "sglang")
    assert is_of_a_start(failure, "another")
    assert not is_of_a_start(find("has no such mode"), "another")


def write_package(folder: Path, release: str, *texts: str) -> Path:
    package = folder / f"sglang-{release}"
    (package / "sglang" / "srt").mkdir(parents=True)
    raises = "".join(f"    raise ValueError({text!r})\n" for text in texts)
    (package / "sglang" / "srt" / "server_args.py").write_text(f"def check():\n{raises}")
    (package / "sglang" / "bench.py").write_text("raise ValueError('not a part of any start')\n")
    return package


def test_releases_are_told_for_each_wording(tmp_path: Path) -> None:
    old = write_package(tmp_path, "0.5.9", "Not enough room: 2 GB asked", "the old wording")
    new = write_package(tmp_path, "0.5.10", "Not enough room: 2 GB asked", "the new wording")
    packages = {("sglang", "0.5.10"): read_package(new), ("sglang", "0.5.9"): read_package(old)}
    wordings = merge(packages, make_matcher([SIGNATURE]))
    assert [(each.failure.text, each.releases, each.signatures) for each in wordings] == [
        ("Not enough room: 2 GB asked", ("0.5.9", "0.5.10"), ("test.no-room",)),
        ("the old wording", ("0.5.9",), ()),
        ("the new wording", ("0.5.10",), ()),
    ]


def test_files_of_no_start_are_read_on_demand(tmp_path: Path) -> None:
    package = write_package(tmp_path, "0.5.9", "the old wording")
    assert [each.text for each in read_package(package)] == ["the old wording"]
    assert len(read_package(package, whole=True)) == 2


def test_a_signature_of_another_engine_does_not_count() -> None:
    matcher = make_matcher([SIGNATURE])
    assert find_signatures(matcher, "sglang", find("Not enough")) == ("test.no-room",)
    assert find_signatures(matcher, "vllm", find("Not enough")) == ()


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    package = write_package(
        tmp_path,
        "0.5.9",
        "Loaded weights leave no GPU memory for the KV cache",
        "words that no engine ever says to anybody",
    )
    main([str(package), "--uncovered"])
    shown = capsys.readouterr().out
    assert "words that no engine ever says" in shown
    assert "leave no GPU memory" not in shown
    assert "1 of 2 texts have a signature" in shown
    main([str(package), "--json", "--under", "sglang/srt"])
    rows = json.loads(capsys.readouterr().out)
    assert [row["signatures"] for row in rows] == [["sglang.weights-leave-no-memory"], []]
    assert rows[0]["releases"] == ["0.5.9"]


def test_a_folder_without_a_release_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main([str(tmp_path)])
    assert "each in a folder KIND-RELEASE" in capsys.readouterr().err
