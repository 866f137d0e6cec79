"""What the contract is tried on: what a deployment promises, and what a server says of itself.

Called before every verification, and where the guard's orders are written. Asks only what any
client may ask; changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from stoker.commands.answers import ask_documents, parse_plain, read_documents
from stoker.contract.selection import discover_checks
from stoker.engines.resolved import answer_paths
from stoker.knowledge.engines import engine_kinds, load_engine_table
from stoker.knowledge.manners import (
    EngineManners,
    feature_paths,
    find_by_owner,
    load_manners,
    read_offers,
    read_told,
)
from stoker.model.contract import Feature, Manners, Offer, Offered, Subject
from stoker.model.engine_table import EngineTable
from stoker.model.facts import Plain
from stoker.model.generation import Generation
from stoker.model.launch import Launch
from stoker.model.resolved import ResolvedScalar
from stoker.ports import Endpoint

MODELS_PATH = "/v1/models"
#: Interfaces beside chat, which a deployment declares under `contract.apis`.
_APIS = (Feature.COMPLETIONS, Feature.RESPONSES, Feature.MESSAGES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The models that a server lists, each as it stands there."""

    models: tuple[Mapping[str, Plain], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The ids, in the order of the list."""
        return tuple(model["id"] for model in self.models)


def parse_listing(body: str) -> Listing | None:
    """The list of models in the body of /v1/models; None where it holds none."""
    data = parse_plain(body)
    rows = data.get("data") if isinstance(data, Mapping) else None
    models = tuple(
        row
        for row in (rows if isinstance(rows, list) else ())
        if isinstance(row, Mapping) and isinstance(row.get("id"), str) and row["id"]
    )
    return Listing(models=models) if models else None


# --- what a deployment promises ---


def promised_subject(generation: Generation) -> Subject:
    """What the settings of a deployment promise, without a question to the server."""
    launch = generation.launch
    known = load_manners().get(launch.engine)
    serve = generation.deployment.get("serve") or {}
    return Subject(
        published_name=launch.published_name,
        manners=known.manners if known else Manners(),
        context_tokens=_whole(serve.get("context_tokens")),
        parallel_requests=_whole(serve.get("parallel_requests")),
        features={
            **(read_offers(known.features, launch.settings) if known else {}),
            **_declared(generation.deployment.get("contract") or {}),
            Feature.KEY: _offer_key(launch),
        },
    )


def _declared(contract: Mapping[str, Plain]) -> Mapping[str, Offered]:
    """What the deployment's own `contract` promises."""
    apis = contract.get("apis") or ()
    promises = [Feature(name) for name in contract.get("promises") or ()]
    undeclared = Offered(offer=Offer.ABSENT, reason="contract.apis does not name it")
    return {
        **{each: _promise("contract.apis names it") for each in _APIS if each in apis},
        **{each: undeclared for each in _APIS if each not in apis},
        **_needed_by(contract.get("require") or ()),
        **{each: _promise("contract.promises names it") for each in promises},
    }


def _needed_by(required: Collection[str]) -> Mapping[str, Offered]:
    """What is required is promised: see :class:`stoker.contract.run.Selection`."""
    if not required:
        return {}
    needed = (each for check in discover_checks() if check.id in required for each in check.needs)
    return {each: _promise("the deployment requires it") for each in needed}


def _promise(reason: str) -> Offered:
    return Offered(offer=Offer.PROMISED, reason=reason)


def _offer_key(launch: Launch) -> Offered:
    if launch.secrets:
        return Offered(offer=Offer.PROMISED, reason="a key file is set")
    return Offered(offer=Offer.ABSENT, reason="no key is set")


def _whole(value: Plain) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


# --- what a server says of itself ---


def told_subject(endpoint: Endpoint, listing: Listing, published_name: str = "") -> Subject:
    """What a server that runs says, beside its list of models. Asks it about itself.

    ``published_name``: which of its models is meant, the first where it is empty.
    """
    entry = _choose_entry(listing, published_name)
    known = find_by_owner(str(entry.get("owned_by", "")))
    tables = [load_engine_table(kind) for kind in _kinds(known)]
    # Of an unknown server only what it has said anyway is read.
    documents: dict[str, Plain] = {}
    if known is not None:
        paths = (*feature_paths(known.features), *answer_paths(tables[0]))
        documents |= ask_documents(endpoint, (path for path in paths if path != MODELS_PATH))
    documents[MODELS_PATH] = {"data": [entry]}
    values = _read_values(documents, tables)
    name = published_name or entry["id"]
    return Subject(
        published_name=name,
        aliases=_aliases(entry, listing, name),
        manners=known.manners if known else Manners(),
        context_tokens=_count(values.get("context_tokens")),
        parallel_requests=_count(values.get("max_running_requests")),
        kv_tokens=_count(values.get("kv_tokens")),
        features=read_told(known.features, documents) if known else {},
    )


def _kinds(known: EngineManners | None) -> Sequence[str]:
    return (known.manners.engine,) if known else engine_kinds()


def _choose_entry(listing: Listing, published_name: str) -> Mapping[str, Plain]:
    """The model that is meant; the first one stands for a name that is not in the list."""
    for entry in listing.models:
        if published_name and published_name in (entry["id"], *_texts(entry.get("aliases"))):
            return entry
    return listing.models[0]


def _aliases(entry: Mapping[str, Plain], listing: Listing, name: str) -> tuple[str, ...]:
    """Other names of the same model: its aliases, and what rests on the same weights."""
    root = entry.get("root")
    same = [
        other["id"]
        for other in listing.models
        if root and other.get("root") == root and not other.get("parent")
    ]
    names = dict.fromkeys((entry["id"], *_texts(entry.get("aliases")), *same))
    return tuple(each for each in names if each != name)


def _texts(value: Plain) -> tuple[str, ...]:
    items = value if isinstance(value, list) else ()
    return tuple(each for each in items if isinstance(each, str) and each)


def _read_values(
    documents: Mapping[str, Plain], tables: Sequence[EngineTable]
) -> Mapping[str, ResolvedScalar]:
    """The first that tells a value counts, in the order of the engine's table."""
    values: dict[str, ResolvedScalar] = {}
    for table in tables:
        told = read_documents(documents, table)
        for path in answer_paths(table):
            for name, value in told.get(path, {}).items():
                values.setdefault(name, value.value)
    return values


def _count(value: ResolvedScalar | None) -> int | None:
    whole = _whole(value)
    return whole if whole is not None and whole > 0 else None


# --- both ---


def combine(promised: Subject, told: Subject) -> tuple[Subject, tuple[str, ...]]:
    """What a deployment promises, completed by what its server says; and where these differ.

    What is declared wins: that the server says something else is a sentence for the operator.
    """
    features: dict[str, Offered] = {
        feature: promised.offered(feature)
        if promised.offered(feature).offer is not Offer.OPEN
        else told.offered(feature)
        for feature in Feature
        if feature in promised.features or feature in told.features
    }
    combined = replace(
        promised,
        aliases=promised.aliases or told.aliases,
        context_tokens=promised.context_tokens or told.context_tokens,
        parallel_requests=promised.parallel_requests or told.parallel_requests,
        kv_tokens=promised.kv_tokens or told.kv_tokens,
        features=features,
    )
    return combined, (*_feature_contradictions(promised, told), *_figures(promised, told))


def _feature_contradictions(promised: Subject, told: Subject) -> list[str]:
    found: list[str] = []
    for feature in Feature:
        wanted, said = promised.offered(feature), told.offered(feature)
        if Offer.OPEN in (wanted.offer, said.offer) or wanted.offer is said.offer:
            continue
        is_promised = wanted.offer is Offer.PROMISED
        verb = "is promised" if is_promised else "is not promised"
        found.append(
            f"{feature.replace('_', ' ')} {verb} ({wanted.reason}), but the server says otherwise "
            f"({said.reason}); it is tried as declared"
        )
    return found


def _figures(promised: Subject, told: Subject) -> list[str]:
    wanted, said = promised.context_tokens, told.context_tokens
    if wanted is None or said is None or said >= wanted:
        return []
    return [f"serve.context_tokens is {wanted}, but the server says that a request may hold {said}"]
