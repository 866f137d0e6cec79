"""How engines do what the OpenAI interface leaves open, and what their settings promise: data.

Called by the command layer, which makes the subject of a contract from it. Names no engine and no
flag itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from stoker.errors import DataError
from stoker.knowledge.datafiles import check_source, list_data, read_toml
from stoker.knowledge.structure import structure
from stoker.model.contract import Acceptance, Feature, Manners, Offer, Offered
from stoker.model.facts import Plain, Unknown
from stoker.model.finding import Source
from stoker.model.launch import Setting

_FOLDER = "manners"
_OWN_KEYS = ("owner", "features", "source")


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRow:
    """Where an engine that runs tells of a feature itself.

    ``at`` is the place in the JSON that ``path`` answers, keys and positions joined by slashes.
    Something there promises the feature; nothing (null, false, an empty text, a value that is
    exempt) rules it out, and a place that is not there says nothing. With ``rules_out`` it is the
    other way round, and can only rule it out: it is a switch that turns the feature off. With
    ``only_promises`` nothing there says nothing: whoever serves a model that calls tools without
    the parser for it leaks what the model writes, and that is for the checks to find.
    """

    path: str
    at: str
    rules_out: bool = False
    only_promises: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureRow:
    """Which settings promise a feature, as flags without dashes.

    A value in ``exempt`` promises nothing. ``otherwise`` says why the feature is absent where none
    of the settings is set; empty where that says nothing. ``answers`` are what the engine says of
    it when it runs; the first that says anything counts.
    """

    feature: Feature
    settings: tuple[str, ...] = ()
    exempt: tuple[str, ...] = ()
    otherwise: str = ""
    answers: tuple[AnswerRow, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineManners:
    """The manners of one engine. ``owner``: what its /v1/models calls the owner of a model."""

    manners: Manners
    owner: str
    features: tuple[FeatureRow, ...]
    source: Source


@cache
def load_manners() -> Mapping[str, EngineManners]:
    """The manners of every engine that they are known of, by its kind. Raises DataError."""
    return {
        kind: parse_manners(read_toml(f"{_FOLDER}/{kind}.toml"), where=f"{_FOLDER}/{kind}.toml")
        for kind in list_data(_FOLDER, ".toml")
    }


def parse_manners(data: Mapping[str, Plain], *, where: str) -> EngineManners:
    """One engine's manners from their TOML form. Raises DataError."""
    own = {key: value for key, value in data.items() if key not in _OWN_KEYS}
    own["acceptance"] = structure(
        Acceptance, data.get("acceptance", {}), where=f"{where}: acceptance"
    )
    source = structure(Source, data.get("source"), where=f"{where}: source")
    check_source(source, where=where)
    return EngineManners(
        manners=structure(Manners, own, where=where),
        owner=str(data.get("owner", "")),
        features=tuple(_parse_row(row, where) for row in data.get("features", ())),
        source=source,
    )


def _parse_row(row: Mapping[str, Plain], where: str) -> FeatureRow:
    name = str(row.get("feature"))
    if name not in list(Feature):
        raise DataError(f"{where}: there is no feature {name}")
    data = {"exempt" if key == "except" else key: value for key, value in row.items()}
    return structure(FeatureRow, {**data, "feature": Feature(name)}, where=f"{where}: {name}")


def find_by_owner(owner: str) -> EngineManners | None:
    """The engine that calls itself the owner of its models; None for a stranger."""
    return next((each for each in load_manners().values() if each.owner == owner), None)


def read_offers(rows: Sequence[FeatureRow], settings: Sequence[Setting]) -> Mapping[str, Offered]:
    """What a launch promises by its settings and what it rules out; the rest stays open. Pure."""
    offers = {row.feature: _read_offer(row, settings) for row in rows}
    return {feature: offer for feature, offer in offers.items() if offer is not None}


def _read_offer(row: FeatureRow, settings: Sequence[Setting]) -> Offered | None:
    for setting in settings:
        if setting.name.lstrip("-") not in row.settings:
            continue
        if setting.value in row.exempt:
            reason = f"{setting.name} is {setting.value}, which promises no such thing"
            return Offered(offer=Offer.ABSENT, reason=reason)
        shown = setting.name if setting.value is None else f"{setting.name} is {setting.value}"
        # A long value, a JSON object for one, says no more than that there is one.
        reason = shown if len(shown) <= 60 else f"{setting.name} is set"
        return Offered(offer=Offer.PROMISED, reason=reason)
    return Offered(offer=Offer.ABSENT, reason=row.otherwise) if row.otherwise else None


def feature_paths(rows: Sequence[FeatureRow]) -> tuple[str, ...]:
    """Where an engine can be asked about its features."""
    return tuple(dict.fromkeys(answer.path for row in rows for answer in row.answers))


def read_told(rows: Sequence[FeatureRow], documents: Mapping[str, Plain]) -> Mapping[str, Offered]:
    """What an engine that runs says that it offers, from its answers by their paths. Pure."""
    told: dict[str, Offered] = {}
    for row in rows:
        found = (_read_told(row, each, documents) for each in row.answers)
        first = next((offered for offered in found if offered is not None), None)
        if first is not None:
            told.setdefault(row.feature, first)
    return told


def _read_told(
    row: FeatureRow, answer: AnswerRow, documents: Mapping[str, Plain]
) -> Offered | None:
    value = find_at(documents.get(answer.path), answer.at)
    if isinstance(value, Unknown):
        return None
    is_there = bool(value) and str(value) not in row.exempt
    reason = f"{answer.path} says that {answer.at.rpartition('/')[2]} is {_show(value)}"
    if answer.only_promises and not value:
        return None
    if answer.rules_out:
        # The place may only show which engine it is; then why is what the row says.
        return Offered(offer=Offer.ABSENT, reason=row.otherwise or reason) if is_there else None
    return Offered(offer=Offer.PROMISED if is_there else Offer.ABSENT, reason=reason)


def _show(value: Plain) -> str:
    """A value in a reason; a long one, a JSON object for one, says no more than that there is."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None or value in ("", [], {}):
        return "not set"
    return str(value) if len(str(value)) <= 60 else "set"


def find_at(document: Plain, place: str) -> Plain | Unknown:
    """What lies at ``a/0/b`` in JSON, where keys may hold dots; Unknown where nothing does."""
    found = document
    for part in place.split("/"):
        if isinstance(found, Mapping) and part in found:
            found = found[part]
        elif isinstance(found, list) and part.isdecimal() and int(part) < len(found):
            found = found[int(part)]
        else:
            return Unknown(reason=f"there is nothing at {place}")
    return found
