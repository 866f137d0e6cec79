"""Searches are kept whole, found by the beginning of their ids, and never damaged in silence."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stoker.errors import StateError, UsageError
from stoker.model.campaign import Campaign, CampaignEnd, CampaignWish, Effort
from stoker.model.document import parse_document, render_document
from stoker.model.layout import campaign_path
from stoker.model.plan import Folders
from stoker.model.tuning import Aim, Budget, Choice, Cut, Knob, Outcome, Purpose, Space, Trial
from stoker.state.campaigns import list_campaigns, read_campaign, write_campaign
from tests.fakes.host import MemoryHost

FOLDERS = Folders(state="/s", environments="/e", models="/m", services="/v")
KNOB = Knob(
    id="steps",
    title="steps at once",
    choices=(Choice(id="1"), Choice(id="8", settings={"steps": 8}, variables={"FAST": None})),
    default="1",
    only_with={"overlap": ("on",)},
)
TRIAL = Trial(
    number=1,
    configuration={"steps": "8"},
    purpose=Purpose.CONFIRMATION,
    outcome=Outcome.LIAR,
    values=(1.5, 2.0),
    causes=("oom",),
    pair=2,
)
CAMPAIGN = Campaign(
    id="t20261201-120000-00ff",
    deployment="qwen",
    file="/root/qwen.yaml",
    source="name: qwen # ü\n",
    space=Space(
        engine="sglang",
        release="1",
        knobs=(KNOB,),
        cuts=(Cut(where={"steps": ("8",)}, because="too many"),),
    ),
    wish=CampaignWish(
        aim=Aim(metric="goodput", concurrencies=(1, 8), objectives={"ttft_ms": 200.0}),
        effort=Effort(seconds=3.0),
        free=("steps",),
        traffic="abc",
    ),
    budget=Budget(restarts=4),
    trials=(TRIAL,),
    under_way=replace(TRIAL, number=2, outcome=Outcome.INTERRUPTED),
    broken=("regex_followed",),
    end=CampaignEnd(
        configuration={"steps": "8"},
        is_improved=True,
        reason="Confirmed.",
        ratio=1.2,
        changes={"engine.settings.steps": 8, "engine.tuned": {"env": {}, "evidence": "t"}},
    ),
    is_closed=True,
)


def test_what_was_written_is_read_back_whole() -> None:
    assert parse_document(render_document(CAMPAIGN), Campaign) == CAMPAIGN
    host = MemoryHost()
    path = write_campaign(host, FOLDERS, CAMPAIGN)
    assert path == campaign_path(FOLDERS, CAMPAIGN.id)
    assert read_campaign(host, FOLDERS, CAMPAIGN.id) == CAMPAIGN
    assert read_campaign(host, FOLDERS, "t2026") == CAMPAIGN


def test_the_newest_comes_first_and_other_files_are_none() -> None:
    host = MemoryHost()
    assert list_campaigns(host, FOLDERS) == ()
    later = replace(CAMPAIGN, id="t20261202-000000-0000")
    for each in (CAMPAIGN, later):
        write_campaign(host, FOLDERS, each)
    host.put(f"{campaign_path(FOLDERS, 'x')}", "{}")
    assert list_campaigns(host, FOLDERS) == (later.id, CAMPAIGN.id)
    with pytest.raises(UsageError, match="beginning of 2 searches"):
        read_campaign(host, FOLDERS, "t")
    with pytest.raises(UsageError, match="there is no search u"):
        read_campaign(host, FOLDERS, "u")
    with pytest.raises(UsageError, match="there is no search"):
        read_campaign(host, FOLDERS, "")


def test_nothing_kept_says_how_one_begins() -> None:
    with pytest.raises(UsageError) as caught:
        read_campaign(MemoryHost(), FOLDERS, "t1")
    assert caught.value.hint == "`stoker tune FILE` begins one"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": "campaign/2"}'])
def test_a_damaged_search_is_said(text: str) -> None:
    host = MemoryHost()
    host.put(campaign_path(FOLDERS, CAMPAIGN.id), text)
    with pytest.raises(StateError):
        read_campaign(host, FOLDERS, CAMPAIGN.id)


def test_a_search_under_the_name_of_another_is_refused() -> None:
    host = MemoryHost()
    other = "t20261201-120000-0100"
    host.put(campaign_path(FOLDERS, other), render_document(CAMPAIGN))
    with pytest.raises(StateError, match="is not that search"):
        read_campaign(host, FOLDERS, other)


@pytest.mark.parametrize("name", ["", "../t", "t20261201-120000-00FF", "b20261201-120000-00ff"])
def test_an_id_that_is_none_is_not_written(name: str) -> None:
    host = MemoryHost()
    with pytest.raises(StateError):
        write_campaign(host, FOLDERS, replace(CAMPAIGN, id=name))
    assert host.effects == []
