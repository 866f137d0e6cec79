"""Documents of values: what is written reads back as itself, and nothing else reads at all."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stoker.errors import StateError
from stoker.model.document import parse_document, render_document, render_line
from stoker.model.facts import Facts, Observation
from stoker.model.generation import Generation
from stoker.model.launch import Timing
from stoker.model.plan import Image, Plan
from stoker.model.run import Entry

from .values import value_classes, values_of

CLASSES = value_classes()
FACTS = Facts(
    host="h",
    stoker_version="1",
    observations={"memory": Observation(probe="memory", value={"größe": [1, 2.5, None, True]})},
)


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
@given(data=st.data())
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
def test_what_is_written_reads_back_as_itself(kind: type, data: st.DataObject) -> None:
    value: Any = data.draw(values_of(kind))
    assert parse_document(render_document(value), kind) == value
    assert parse_document(render_line(value), kind) == value
    assert render_line(value).count("\n") == 1


def test_the_values_that_the_state_folder_holds_are_all_tried() -> None:
    schemas = [kind.SCHEMA for kind in CLASSES if hasattr(kind, "SCHEMA")]
    assert {"plan/3", "facts/1", "entry/1", "verification/1", "launch/2"} <= set(schemas)
    assert len(schemas) == len(set(schemas))


def test_a_document_is_plain_to_read() -> None:
    text = render_document(FACTS)
    assert list(json.loads(text)) == ["schema", "host", "stoker_version", "observations"]
    assert text.startswith('{\n  "schema": "facts/1",\n')
    assert text.endswith("}\n")
    assert "größe" in text


def test_a_value_without_a_schema_has_none_in_its_document() -> None:
    assert json.loads(render_document(Image(digest="d", mode=0o600)))["mode"] == 0o600
    assert "schema" not in json.loads(render_document(Image(digest="d", mode=0o600)))


def test_undecodable_bytes_of_file_names_do_not_break_a_document() -> None:
    facts = Facts(host="\udcff", stoker_version="1")
    text = render_document(facts)
    assert parse_document(text.encode().decode(), Facts).host == "\N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_numbers_that_json_lacks_are_not_written(number: float) -> None:
    with pytest.raises(ValueError, match="JSON"):
        render_document(Facts(host="h", stoker_version="1", observations={"a": number}))  # type: ignore[dict-item]


def facts_document(**changes: Any) -> str:
    return json.dumps({"schema": "facts/1", "host": "h", "stoker_version": "1"} | changes)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "not JSON at line 1, column 1"),
        ("{", "not JSON at line 1, column 2"),
        ('{"schema": "facts/1"}\0', "not JSON at line 1, column 22"),
        ("\ufeff{}", "not JSON at line 1, column 1"),
        ("[]", "it is JSON, but not an object"),
        ("3", "it is JSON, but not an object"),
        ("[" * 100_000, "its numbers or its depth are out of bounds"),
        ('{"a": ' + "1" * 5000 + "}", "its numbers or its depth are out of bounds"),
        ('{"a": NaN}', "its numbers or its depth are out of bounds"),
        ("{}", "does not say that its schema is facts/1"),
        ('{"schema": 1}', "does not say that its schema is facts/1"),
        ('{"schema": "facts/x"}', "does not say that its schema is facts/1"),
        ('{"schema": "facts/-1"}', "does not say that its schema is facts/1"),
        ('{"schema": "facts/٣"}', "does not say that its schema is facts/1"),
        ('{"schema": "plan/1"}', "has the schema plan/1, not facts/1"),
        ('{"schema": "facts/2"}', "was written by a newer Stoker (facts/2; this one knows facts/1"),
        ('{"schema": "facts/0"}', "was written by an older Stoker (facts/0), and this one can no"),
        ('{"schema": "facts/1"}', "`host` is missing"),
        (facts_document(host=1), "what stands at `host` does not belong into facts/1"),
        (facts_document(host=None), "what stands at `host` does not belong into facts/1"),
        (facts_document(hots="h"), "`hots` is unknown to facts/1"),
        (facts_document(observations={"a": {}}), "`observations.a.probe` is missing"),
        (
            facts_document(observations={"a": {"probe": "a", "unknow": ""}}),
            "`observations.a.unknow` is unknown to facts/1",
        ),
        (
            facts_document(observations={"a": {"probe": "a", "taken_at_seconds": "1"}}),
            "what stands at `observations.a.taken_at_seconds` does not belong",
        ),
        (facts_document(host="\ud800"), "what stands in it does not belong into facts/1"),
    ],
)
def test_anything_else_is_one_clear_sentence(text: str, sentence: str) -> None:
    with pytest.raises(StateError) as caught:
        parse_document(text, Facts, origin="/state/facts.json")
    assert caught.value.summary.startswith("/state/facts.json ")
    assert sentence in caught.value.summary
    assert "\n" not in caught.value.summary


@given(text=st.text() | st.binary().map(lambda raw: raw.decode(errors="replace")))
def test_no_text_ends_in_anything_but_a_value_or_a_state_error(text: str) -> None:
    for kind in (Plan, Entry):
        with pytest.raises(StateError):
            parse_document(text, kind)


@given(data=st.data(), raw=st.integers(0, 10_000), other=st.characters())
@settings(deadline=None)
def test_a_damaged_document_is_a_value_or_a_state_error(
    data: st.DataObject, raw: int, other: str
) -> None:
    text = render_document(data.draw(values_of(Entry)))
    place = raw % len(text)
    with contextlib.suppress(StateError):
        parse_document(text[:place] + other + text[place + 1 :], Entry)


@dataclass(frozen=True, slots=True, kw_only=True)
class Furnace:
    """An invented value whose shape changed twice."""

    SCHEMA: ClassVar[str] = "furnace/2"

    name: str
    heat_kelvin: float


MIGRATIONS = {
    "furnace/0": lambda old: {"name": old["label"], "heat_celsius": old["heat"]},
    "furnace/1": lambda old: {"name": old["name"], "heat_kelvin": old["heat_celsius"] + 273.15},
}


@pytest.mark.parametrize(
    "document",
    [
        {"schema": "furnace/0", "label": "big", "heat": 1000.0},
        {"schema": "furnace/1", "name": "big", "heat_celsius": 1000.0},
        {"schema": "furnace/2", "name": "big", "heat_kelvin": 1273.15},
    ],
)
def test_older_documents_become_what_is_known_now(document: dict[str, Any]) -> None:
    furnace = parse_document(json.dumps(document), Furnace, migrations=MIGRATIONS)
    assert furnace == Furnace(name="big", heat_kelvin=1273.15)


def test_a_generation_of_the_first_stoker_is_read() -> None:
    text = (Path(__file__).parent / "documents" / "generation-1.json").read_text()
    generation = parse_document(text, Generation)
    assert generation.service.timing == Timing(stop_seconds=5)
    assert parse_document(render_document(generation), Generation) == generation


def test_a_gap_in_the_migrations_is_an_error() -> None:
    text = json.dumps({"schema": "furnace/0", "label": "big", "heat": 1.0})
    with pytest.raises(StateError, match="older Stoker"):
        parse_document(text, Furnace, migrations={"furnace/1": MIGRATIONS["furnace/1"]})


def test_writing_is_light() -> None:
    program = (
        "import sys\n"
        "from stoker.model.document import render_document\n"
        "from stoker.model.facts import Facts\n"
        "render_document(Facts(host='h', stoker_version='1'))\n"
        "sys.exit('pydantic' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
