"""The command line of `model show`."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from stoker.cli.main import app
from tests.knowledge.model_configs import PLAIN

RUN = CliRunner()


def test_a_folder_as_text_and_a_file_as_json(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(PLAIN), encoding="utf-8")
    text = RUN.invoke(app, ["model", "show", str(tmp_path)])
    assert text.exit_code == 0
    assert "Qwen3ForCausalLM" in text.stdout
    shown = RUN.invoke(app, ["model", "show", f"{tmp_path}/./config.json", "--json", "--tp", "2"])
    document = json.loads(shown.stdout)
    assert (document["schema"], document["known"]["layers"]) == ("model/1", 4)
    assert document["path"] == f"{tmp_path}/config.json"


def test_a_division_has_bounds(tmp_path: Path) -> None:
    for flag in ("--tp", "--ep"):
        assert RUN.invoke(app, ["model", "show", str(tmp_path), flag, "0"]).exit_code == 2
