"""Fields whose flags are named otherwise, found in the calls that make a parser."""

from __future__ import annotations

import json

from scripts.read_field_names import merge_fields, read_fields, render_fields
from scripts.read_flags.values import Argument


def argument(*names: str, dest: str | None = None) -> Argument:
    options = {} if dest is None else {"dest": dest}
    return Argument(names=names, options=options, member="m.py", line=1)


def test_only_fields_without_a_flag_of_their_own_are_kept() -> None:
    arguments = [
        argument("--fp4-gemm-backend", dest="fp4_gemm_runner_backend"),
        argument("--tp-size", "--tensor-parallel-size", dest="tp_size"),
        argument("--old-name", dest="new_name"),
        argument("--new-name", dest="new_name"),
        argument("--plain"),
        argument("-x", dest="short"),
    ]
    assert read_fields(arguments) == {"fp4_gemm_runner_backend": "--fp4-gemm-backend"}


def test_releases_are_merged_in_their_order() -> None:
    readings = {
        "0.5.10": {"a": "--x", "b": "--y"},
        "0.5.9": {"a": "--x"},
        "0.5.11": {"a": "--z"},
    }
    merged = merge_fields(readings)
    assert merged == {"a": ["--z", "0.5.11", "0.5.11"], "b": ["--y", "0.5.10", "0.5.10"]}
    data = json.loads(render_fields("sglang", ["0.5.9", "0.5.11"], merged))
    assert data["fields"] == merged
    assert data["source"]["version"] == "0.5.9 to 0.5.11"
