"""The tree that rules are judged on: the deployment, its launch, the facts and what follows.

Called by the command layer while it plans or diagnoses. Pure: it computes with what was observed
and looks at nothing itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from types import MappingProxyType

from stoker.knowledge.derived.capacity import nothing_predicted
from stoker.knowledge.derived.case import Case
from stoker.knowledge.derived.engine import derive_engine
from stoker.knowledge.derived.flags import derive_flags
from stoker.knowledge.derived.holders import derive_holders
from stoker.knowledge.derived.listening import derive_key_file, derive_listening, derive_port
from stoker.knowledge.derived.memory import derive_memory
from stoker.knowledge.derived.room import derive_disk
from stoker.knowledge.derived.service import derive_gpus, derive_user
from stoker.knowledge.derived.subject import Subject
from stoker.knowledge.derived.weights import derive_context, derive_unpinned, derive_weights
from stoker.knowledge.describe import describe
from stoker.knowledge.rules import load_rules
from stoker.model.deployment import Deployment
from stoker.model.engine_table import EngineTable
from stoker.model.facts import Facts, Observation, Plain, Unknown
from stoker.model.launch import Drift, DriftKind, Launch
from stoker.model.plan import Folders, Preparation
from stoker.ports import SupervisorProperties


def build_tree(
    *,
    deployment: Deployment,
    facts: Facts,
    launch: Launch,
    table: EngineTable,
    preparations: Sequence[Preparation],
    own_pids: frozenset[int],
    key_file: Mapping[str, Plain] | None,
    supervisor: SupervisorProperties,
    user: str,
    folders: Folders,
    me: str = "",
    services: Mapping[int, str] = MappingProxyType({}),
    ending: frozenset[int] = frozenset(),
    drift: Sequence[Drift] = (),
) -> dict[str, Plain]:
    """JSON-shaped data with Unknown leaves.

    At the top: ``deployment``, ``launch``, ``supervisor``, ``folders``, ``derived``,
    ``capacity`` (nothing yet, see :mod:`stoker.knowledge.derived.capacity`), ``drift`` (the
    sentences by kind), each probe by its id, and the parts of
    :func:`stoker.knowledge.describe.describe`. The other arguments are those of
    :class:`stoker.knowledge.derived.case.Case`.
    """
    case = Case(
        deployment=deployment,
        facts=facts,
        launch=launch,
        table=table,
        preparations=preparations,
        own_pids=own_pids,
        key_file=key_file,
        user=user,
        me=me,
        services=services,
        ending=ending,
    )
    subject = Subject(
        deployment=deployment,
        facts=facts,
        table=table,
        build=launch.engine_build,
        settings=launch.settings,
    )
    probes = {probe: _value_of(seen) for probe, seen in facts.observations.items()}
    return {
        **probes,
        "deployment": deployment.model_dump(mode="json"),
        "launch": asdict(launch),
        "supervisor": asdict(supervisor),
        "folders": asdict(folders),
        "derived": derive(case),
        "capacity": nothing_predicted(),
        **describe(subject),
        "drift": {
            kind.value: [each.sentence for each in drift if each.kind is kind] for kind in DriftKind
        },
    }


def derive(case: Case) -> dict[str, Plain]:
    """Everything that rules need and that is more than one comparison, by subject."""
    return {
        "accept": _derive_accept(case),
        "context": derive_context(case),
        "disk": derive_disk(case),
        "draft": derive_weights(case, "draft"),
        "engine": derive_engine(case),
        "flags": derive_flags(case),
        "gpus": derive_gpus(case),
        "holders": derive_holders(case),
        "key_file": derive_key_file(case),
        "listening": derive_listening(case),
        "memory": derive_memory(case),
        "model": derive_weights(case, "model"),
        "port": derive_port(case),
        "unpinned": derive_unpinned(case),
        "user": derive_user(case),
    }


def _derive_accept(case: Case) -> dict[str, Plain]:
    """Names under ``accept`` that no rule has."""
    known = {rule.id for rule in load_rules()}
    return {"unknown_rules": [name for name in case.deployment.accept if name not in known]}


def _value_of(seen: Observation) -> Plain | Unknown:
    return Unknown(reason=seen.unknown) if seen.unknown else seen.value
