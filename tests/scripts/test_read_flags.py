"""Reading flags out of sources: every style, what stays unknown, and that nothing is run."""

from __future__ import annotations

import io
import json
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from scripts.read_flags.__main__ import main
from scripts.read_flags.deprecations import read_deprecation
from scripts.read_flags.engines import read_engine
from scripts.read_flags.package import Package, open_package
from scripts.read_flags.render import find_lifetimes, find_renames, make_catalogue, render_catalogue
from scripts.read_flags.values import Argument, Undecided
from stoker.knowledge.structure import structure
from stoker.model.engine_table import EngineVariable, FlagCatalogue
from tests.scripts.engine_sources import (
    DATACLASS,
    annotated_style,
    config_style,
    dataclass_style,
)

Row = dict[str, Any]


def rows_of(package: Package) -> dict[str, Row]:
    """The written rows by the option's first name."""
    written = json.loads(render_catalogue(make_catalogue(read_engine(package))))
    return {row["names"][0]: row for row in written["options"]}


def test_arguments_that_are_added_by_hand() -> None:
    rows = rows_of(dataclass_style())
    assert rows["--model-path"] == {
        "names": ["--model-path", "--model"],
        "argument": "str",
        "type": "str",
    }
    assert rows["--port"] == {
        "names": ["--port"],
        "argument": "int",
        "type": "int",
        "default": "30000",
        "kind": "number",
    }
    assert rows["--fast"] == {
        "names": ["--fast"],
        "argument": None,
        "type": "bool",
        "default": "false",
    }
    assert rows["--slow"]["names"] == ["--slow", "--no-slow"]
    assert rows["--slow"]["default"] == "true"
    assert rows["--header"]["repeatable"] is True
    assert rows["--exclude"] == {
        "names": ["--exclude"],
        "argument": "str",
        "type": "str",
        "nargs": "*",
        "default": '["/health"]',
    }
    assert rows["--extra"]["type"] == "json"


def test_choices_are_followed_to_where_they_are_made() -> None:
    rows = rows_of(dataclass_style())
    assert rows["--backend"]["choices"] == ["triton", "fa3", "flashinfer", "aiter", "none"]
    assert rows["--backend"]["kind"] == "choice"
    assert rows["--parser"]["choices"] == ["auto", "first", "second"]
    # The variable that would add another one is taken as unset.
    assert rows["--sampler"]["choices"] == ["pytorch"]


def test_arguments_of_a_loop() -> None:
    rows = rows_of(dataclass_style())
    assert {"--bucket-one", "--bucket-two"} <= set(rows)
    assert (rows["--bucket-two"]["type"], rows["--bucket-two"]["nargs"]) == ("float", "+")


def test_what_cannot_be_told_is_unknown_with_its_reason() -> None:
    rows = rows_of(dataclass_style())
    assert "default" not in rows["--gpus"]
    assert rows["--gpus"]["unknown"] == {"default": "torch.device_count() is not followed"}
    assert "default" not in rows["--log"]
    assert rows["--log"]["unknown"] == {
        "default": "the variable SGLANG_LOG_IT decides; false while it is unset"
    }


def test_deprecated_arguments() -> None:
    rows = rows_of(dataclass_style())
    assert rows["--old-port"]["deprecated_by"] == "--port"
    assert rows["--old-port"]["argument"] == "int"
    assert rows["--gone"] == {
        "names": ["--gone"],
        "argument": None,
        "type": "bool",
        "deprecated_by": "",
    }
    assert [name for name, row in rows.items() if "deprecated_by" in row] == [
        "--gone",
        "--old-port",
    ]


def test_groups_of_annotated_fields() -> None:
    rows = rows_of(annotated_style())
    assert list(rows) == sorted(rows)
    assert set(rows) == {
        *("--config", "--dtype", "--mode", "--model-path", "--port"),
        *("--quiet", "--ratio", "--urls"),
    }
    assert rows["--model-path"]["names"] == ["--model-path", "--model"]
    assert (rows["--dtype"]["choices"], rows["--dtype"]["default"]) == (["auto", "half"], "auto")
    assert rows["--mode"]["choices"] == ["a", "b"]
    assert (rows["--urls"]["nargs"], rows["--urls"]["default"]) == ("+", "[]")
    assert rows["--ratio"] == {
        "names": ["--ratio"],
        "argument": "float",
        "type": "float",
        "kind": "number",
    }


def test_fields_of_config_classes() -> None:
    rows = rows_of(config_style())
    assert (rows["--dtype"]["choices"], rows["--dtype"]["kind"]) == (
        ["auto", "float16", "half"],
        "choice",
    )
    assert (rows["--rank"]["choices"], rows["--rank"]["type"]) == (["1", "8", "16"], "int")
    # Others may do as well, so the known ones are no rule; and the reader takes None.
    assert rows["--method"]["choices"] == ["x", "y"]
    assert "kind" not in rows["--method"]
    assert (rows["--length"]["kind"], "default" in rows["--length"]) == ("number", False)
    assert rows["--part"]["names"] == ["--part", "-p"]
    assert rows["--names"]["nargs"] == "+"
    assert (rows["--table"]["default"], rows["--table"]["type"]) == ("{}", "json")
    assert rows["--seeds"]["default"] == "[1,2]"
    assert rows["--eager"]["names"] == ["--eager", "--no-eager"]
    assert rows["--eager"]["deprecated_by"] == ""
    assert rows["--task"]["deprecated_by"] == ""
    assert rows["--quiet"]["default"] == "false"
    assert "--LIMIT" not in rows
    assert "model_tag" not in rows


def test_config_classes_leave_unknown_what_others_decide() -> None:
    rows = rows_of(config_style())
    assert {name: row["unknown"] for name, row in rows.items() if "unknown" in row} == {
        "--debug": {"default": "the variable VLLM_DEBUG decides; false while it is unset"},
        "--device": {"default": "the platform decides"},
        "--inner": {"default": "the defaults of Inner"},
    }


def test_the_front_end_of_its_own() -> None:
    rows = rows_of(config_style())
    assert rows["--role"]["argument"] == "ROLE"
    assert rows["--api-key"]["nargs"] == "+"
    assert ("nargs" in rows["--origins"], rows["--origins"]["type"]) == (False, "json")


@pytest.mark.parametrize(
    ("package", "expected"),
    [
        (
            dataclass_style(),
            [
                {"name": "SGLANG_FOLDER", "type": "int", "default": "~/.cache/it"},
                {"name": "SGLANG_HIP", "type": "bool", "unknown": "torch.version.hip"},
                {"name": "SGLANG_TRACE", "type": "bool", "default": "false"},
                {"name": "SGLANG_WORKERS", "type": "int", "default": "4"},
            ],
        ),
        (
            config_style(),
            [
                {"name": "VLLM_DEBUG", "type": "bool", "default": "false"},
                {"name": "VLLM_PORT", "type": "int"},
                {"name": "VLLM_ROOT", "type": "str", "unknown": "os.uname() is not followed"},
            ],
        ),
    ],
    ids=["fields", "functions"],
)
def test_variables(package: Package, expected: list[Row]) -> None:
    written = json.loads(render_catalogue(make_catalogue(read_engine(package))))["variables"]
    assert [{**row, "unknown": ""} for row in written] == [
        {**row, "unknown": ""} for row in expected
    ]
    for row, wanted in zip(written, expected, strict=True):
        assert ("unknown" in row) == ("unknown" in wanted), row
        assert "default" not in row or "unknown" not in row


def test_what_is_written_is_what_the_loader_takes() -> None:
    written = json.loads(render_catalogue(make_catalogue(read_engine(config_style()))))
    variables = written.pop("variables")
    catalogue = structure(FlagCatalogue, written, where="test")
    assert (catalogue.engine, catalogue.build) == ("vllm", "9.8.7")
    assert catalogue.source.where.startswith("vllm-9.8.7.tar.gz: vllm/engine/arg_utils.py, ")
    assert structure(tuple[EngineVariable, ...], variables, where="test")


def test_nothing_of_a_package_is_run(tmp_path: Path) -> None:
    trap = tmp_path / "sprung"
    harm = f"""
import os, pathlib, subprocess, sys
def register_harm():
    open({str(trap)!r}, "w").write("x")
    os.system("touch {trap}")
    subprocess.run(["touch", {str(trap)!r}])
    pathlib.Path({str(trap)!r}).touch()
    __import__("pathlib").Path({str(trap)!r}).touch()
    eval("open({str(trap)!r}, 'w')")
    exec("open({str(trap)!r}, 'w')")
    getattr(os, "system")("touch {trap}")
    ().__class__.__base__.__subclasses__()[0]
    "{{0.__class__}}".format(1)
register_harm()
from sglang.srt.kinds import Kind
class Parsers:
    table = {{"only": open({str(trap)!r}, "w")}}
"""
    rows = rows_of(dataclass_style(srt__parsers=harm))
    assert rows["--parser"]["choices"] == ["auto", "only"]
    assert not trap.exists()


def test_huge_values_are_not_computed() -> None:
    text = DATACLASS.replace("port: int = 30000", "port: int = 9 ** 9 ** 9").replace(
        '["triton", "fa3"]', '["x" * 10**9]'
    )
    rows = rows_of(dataclass_style(srt__server_args=text))
    assert rows["--port"]["unknown"] == {"default": "a calculation is not followed"}
    assert rows["--backend"]["unknown"].keys() == {"choices"}


def test_an_endless_release_is_given_up() -> None:
    text = DATACLASS.replace(
        'BUCKETS = ("one", "two")', "def again():\n    return again()\nBUCKETS = again()"
    )
    with pytest.raises(Undecided, match="too deep"):
        read_engine(dataclass_style(srt__server_args=text))


def test_arguments_that_depend_on_the_host_are_no_guess() -> None:
    text = DATACLASS.replace(
        'parser.add_argument("--log",',
        'if device_count() > 1:\n            parser.add_argument("--log",',
    )
    with pytest.raises(Undecided, match="device_count"):
        read_engine(dataclass_style(srt__server_args=text))


def test_sources_for_another_python_are_given_up() -> None:
    with pytest.raises(Undecided, match=r"environ\.py is not written for this Python"):
        read_engine(dataclass_style(srt__environ="match = = 1"))


def test_choices_that_something_else_fills_are_unknown() -> None:
    parsers = "class Parsers:\n    table = {}\n"
    text = DATACLASS.replace('["auto"] + list(', "list(")
    rows = rows_of(dataclass_style(srt__parsers=parsers, srt__server_args=text))
    assert rows["--parser"]["unknown"].keys() == {"choices"}
    assert "kind" not in rows["--parser"]


@pytest.mark.parametrize(
    ("help_text", "expected"),
    [
        ("Deprecated. Use --new instead.", "--new"),
        ("[Deprecated] Use --new=part instead.", "--new=part"),
        ("(Deprecated, use --new) The old one.", "--new"),
        ("Deprecated alias for --new.", "--new"),
        ("Note: --old is deprecated now. Please use --new instead.", "--new"),
        ("[DEPRECATED] Use `new` instead. Will be removed.", "--new"),
        ("[Deprecated] Use SOME_THING=1 instead.", "SOME_THING=1"),
        ("Removed. Use --new with one of: a, b.", "--new"),
        ("How it works.\n\nDeprecated: it will be removed.", ""),
        ("Deprecated: on by default. Use --new to skip conditions.", ""),
        ("Deprecated. Use --never-heard-of instead.", ""),
        ("Which one. 'x' is a deprecated alias for 'y'.", None),
        ("Allow deprecated methods. Use --new instead.", None),
        ("Replaces the deprecated --older.", None),
    ],
)
def test_what_a_help_text_says_of_its_flag(help_text: str, expected: str | None) -> None:
    argument = Argument(names=("--old",), options={"help": help_text}, member="", line=1)
    assert read_deprecation(argument, frozenset({"--old", "--new"})) == expected


def catalogue_of(build: str, *options: Row | str) -> Row:
    rows = [{"names": option.split()} if isinstance(option, str) else option for option in options]
    return {"build": build, "options": rows}


def test_lifetimes_have_gaps() -> None:
    catalogues = [
        catalogue_of("1", "--a", "--b"),
        catalogue_of("2", "--a"),
        catalogue_of("3", "--a", "--b"),
        catalogue_of("4", "--b --c"),
    ]
    assert find_lifetimes(catalogues) == {
        "--a": ["1", "3"],
        "--b": ["1", "1", "3", "4"],
        "--c": ["4", "4"],
    }


def test_renames_are_what_releases_say() -> None:
    catalogues = [
        catalogue_of("1", "--a --first", "--b", "--like-this", "--on --no-on"),
        catalogue_of("2", "--a", "--like-that", "--on", {"names": ["--b"], "deprecated_by": "--c"}),
        catalogue_of("3", "--a", "--bb --b", {"names": ["--on"], "deprecated_by": ""}),
    ]
    assert [(row["old"], row["new"], row["release"]) for row in find_renames(catalogues)] == [
        ("--b", "--c", "2"),
        ("--first", "--a", "2"),
        ("--b", "--bb", "3"),
    ]


def write_wheel(path: Path, package: Package) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for member, text in package.sources.items():
            archive.writestr(member, text)
        archive.writestr("other/__init__.py", "1")
        archive.writestr(f"{package.name}/kernel.so", b"\0\xff")
    return path


def write_sources(path: Path, package: Package) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for member, text in package.sources.items():
            entry = tarfile.TarInfo(f"{package.name}-9.8.7/{member}")
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
    return path


@pytest.mark.parametrize(
    ("write", "name"),
    [
        (write_wheel, "vllm-9.8.7-cp38-abi3-manylinux_2_31_x86_64.whl"),
        (write_sources, "vllm-9.8.7.tar.gz"),
    ],
    ids=["wheel", "sources"],
)
def test_packages_are_opened_as_published(write: Any, name: str, tmp_path: Path) -> None:
    package = config_style()
    opened = open_package(write(tmp_path / name, package))
    assert (opened.name, opened.version) == ("vllm", "9.8.7")
    assert opened.sources == package.sources


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="named neither like a wheel"):
        open_package(tmp_path / "vllm.zip")
    with pytest.raises(ValueError, match="none of sglang, vllm"):
        read_engine(Package(file="x-1.tar.gz", name="x", version="1", sources={}))


def test_the_command_writes_catalogues_and_the_index(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    old = write_wheel(tmp_path / "vllm-1.9-py3-none-any.whl", config_style())
    new = write_wheel(tmp_path / "vllm-1.10-py3-none-any.whl", config_style())
    main(["--data", str(data), str(new), str(old)])
    assert capsys.readouterr().out.splitlines() == ["vllm 1.10", "vllm 1.9", "vllm: 2 releases"]
    index = json.loads((data / "lifetimes" / "vllm.json").read_text("utf-8"))
    assert index["releases"] == ["1.9", "1.10"]
    assert index["flags"]["--api-key"] == ["1.9", "1.10"]
    assert (data / "flags" / "vllm" / "renames.toml").exists()


def test_the_command_says_how_to_use_it(capsys: pytest.CaptureFixture[str]) -> None:
    main([])
    assert "scripts/fetch_flag_sources.py" in capsys.readouterr().out
