"""The span of each wording, read from the sources of small packages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scripts.read_wordings import Reader, find_span, main, make_wordings
from stoker.knowledge.signatures import Meaning, Signature, SignatureExample
from stoker.knowledge.wordings import parse_wordings
from stoker.model.finding import Source

SOURCES = {
    "0.5.9": 'raise ValueError(f"Not enough room: {room} GB")\n',
    "0.5.10": (
        'raise ValueError("Not enough "\n    f"room: {room} GB")\n'
        'raise RuntimeError("The pool is too small")\n'
    ),
    "0.5.11": 'logger.info("nothing of it")\n',
    # No failure, and in words that the pattern may not fit: it counts all the same.
    "0.5.12": 'logger.info("Not enough room: %s" % describe(room))\n',
    "0.5.13": 'raise RuntimeError("The pool is too small")\n',
}


def sign(name: str, *needles: str, pattern: str = "", engines: tuple[str, ...]) -> Signature:
    return Signature(
        id=name,
        means=(Meaning(kind="kv-pool-no-room"),),
        needles=needles,
        pattern=pattern,
        engines=engines,
        source=Source(kind="documented", where="here", version="1"),
        example=(SignatureExample(text=needles[0]),),
    )


SIGNATURES = (
    sign("room", "Not enough room", pattern=r"room: (?P<room>\d+) GB", engines=("sglang",)),
    sign("pool", "The pool is too small", engines=("sglang", "vllm")),
    sign("half", "The pool is too small", "said by a library", engines=("sglang",)),
    sign("quiet", "nothing of it", engines=("sglang",)),
    sign("absent", "never said by anyone", engines=("sglang",)),
    sign("anyone", "Not enough room", engines=()),
    sign("other", "Not enough room", engines=("vllm",)),
)


def write_packages(folder: Path) -> list[Path]:
    packages = []
    for release, text in SOURCES.items():
        package = folder / f"sglang-{release}"
        (package / "sglang" / "srt").mkdir(parents=True)
        (package / "sglang" / "srt" / "anywhere.py").write_text(text)
        packages.append(package)
    return packages


def test_spans_are_those_of_the_sources(tmp_path: Path) -> None:
    reader = Reader("sglang", SIGNATURES)
    readings = {
        package.name.partition("-")[2]: reader.read_release(package)
        for package in reversed(write_packages(tmp_path))
    }
    text = make_wordings("sglang", readings, SIGNATURES, today="2026-11-30")
    made = parse_wordings(json.loads(text), where="here")
    assert made.releases == tuple(SOURCES)
    spans = {
        name: (span.first, span.last, span.gaps, span.beside)
        for name, span in made.signatures.items()
    }
    assert spans == {
        "room": ("0.5.9", "0.5.12", ("0.5.11",), ()),
        "pool": ("0.5.10", None, ("0.5.11", "0.5.12"), ()),
        "half": ("0.5.10", None, ("0.5.11", "0.5.12"), ("said by a library",)),
    }
    # What no release fails with has none.
    ordered = {release: readings[release] for release in SOURCES}
    assert [find_span(each, ordered) for each in SIGNATURES[3:5]] == [None, None]


def test_the_command_writes_a_file_for_each_engine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    package = tmp_path / "sglang-0.5.9"
    package.mkdir()
    (package / "a.py").write_text(
        "raise ValueError('Loaded weights leave no GPU memory for the KV cache')\n"
    )
    main([str(package), "--out", str(tmp_path)])
    made = parse_wordings(json.loads((tmp_path / "sglang.json").read_text()), where="here")
    assert made.releases == ("0.5.9",)
    assert list(made.signatures) == ["sglang.weights-leave-no-memory"]
    assert "sglang: 1 of" in capsys.readouterr().out


def test_a_folder_without_a_release_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main([str(tmp_path), "--out", str(tmp_path)])
    assert "each in a folder KIND-RELEASE" in capsys.readouterr().err
