"""A model's card is judged by the engine that is here."""

from __future__ import annotations

from stoker.commands.model_card import judge_demands, note_card
from stoker.knowledge.engines import load_engine_table
from stoker.model.deployment import Deployment
from stoker.model.engine_table import Place
from stoker.model.facts import Facts, Unknown
from stoker.recipes.notes.card import parse_requirements
from tests.commands.boxes import Box

CARD = """\
Requires SGLang >= 0.5.16 and `transformers >= 5.2` must be there.

It needs SGLang with PR #18489, and PR #99999 of sgl-project/sglang#99999 must be in it.
A vLLM >= 0.30 works as well.
"""
TABLE = load_engine_table("sglang")


def test_what_is_older_and_what_cannot_be_told() -> None:
    demands = parse_requirements(CARD)
    value = judge_demands(demands, TABLE, {"version": "0.5.9", "transformers": "5.3"})
    assert value["unmet"] == ["sglang >=0.5.16 (line 1), and 0.5.9 is here"]
    assert [phrase.split(":")[0] for phrase in value["unknown"]] == [
        "sglang with change 99999 (line 3)"
    ]


def test_an_engine_of_a_commit_is_unknown() -> None:
    demands = parse_requirements(CARD)
    value = judge_demands(demands, TABLE, {"version": "0.5.9", "commit": "abcdef0123456789"})
    assert value["unmet"] == []
    assert all("commit abcdef012345" in phrase for phrase in value["unknown"])
    unknown = judge_demands(demands, TABLE, {"version": Unknown(reason="nobody looked")})
    assert all("nobody looked" in phrase for phrase in unknown["unknown"])


def test_the_fact_is_there_only_with_a_card() -> None:
    box = Box()
    box.host.put("/models/m/config.json", "{}")
    world = box.world()
    deployment = Deployment.model_validate(
        {"name": "m", "model": "path:/models/m", "engine": {"kind": "sglang"}}
    )
    place = Place(command="/opt/sglang/bin/python3", build="0.5.9", model_path="/models/m")
    facts = Facts(host="x", stoker_version="0")
    assert note_card(world, facts, deployment=deployment, table=TABLE, place=place) == facts
    box.host.put("/models/m/README.md", CARD)
    noted = note_card(world, facts, deployment=deployment, table=TABLE, place=place)
    assert noted.read("card.unmet") == ["sglang >=0.5.16 (line 1), and 0.5.9 is here"]
    box.host.put("/models/m/README.md", "x" * (2 << 20))
    bounded = note_card(world, facts, deployment=deployment, table=TABLE, place=place)
    assert bounded.read("card.unmet") == []
