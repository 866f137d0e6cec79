"""A deployment on a host, as the derived facts and rules see it; tests change one thing each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stoker.engines import build_launch
from stoker.knowledge.derived.case import Case
from stoker.knowledge.engines import load_engine_table
from stoker.model.deployment import Deployment
from stoker.model.engine_table import Place
from stoker.model.facts import Facts, Observation
from stoker.model.plan import Folders
from stoker.ports import SupervisorProperties

MIB = 1 << 20
GIB = 1 << 30
ENVIRONMENT = "/var/lib/stoker/environments/llamacpp-b11549"
MODEL = "/srv/models/SmolLM2-135M-Instruct.Q4_1.gguf"
DRAFT = "/srv/models/draft.gguf"
FOLDERS = Folders(
    state="/var/lib/stoker/state",
    environments="/var/lib/stoker/environments",
    models="/var/lib/stoker/models",
    services="/var/lib/stoker/services",
)
SUPERVISOR = SupervisorProperties(kind="supervisord", starts_on_boot=False, changes_user=True)

#: As the model probe describes the small model.
GGUF: Mapping[str, Any] = {
    "path": MODEL,
    "format": "gguf",
    "size_bytes": 98_362_432,
    "modified_ns": 1,
    "is_truncated": False,
    "reason": None,
    "architecture": "llama",
    "context_length": 8192,
    "block_count": 30,
    "embedding_length": 576,
    "head_count": 9,
    "head_count_kv": 3,
    "key_length": None,
    "value_length": None,
    "sliding_window": None,
    "has_chat_template": True,
}

#: Every probe's value on a healthy host of two cores without GPUs.
HEALTHY: Mapping[str, Any] = {
    "cpu": {"logical_count": 4, "physical_count": 2, "usable_cores": 2, "flags": ["avx", "avx2"]},
    "memory": {
        "total_bytes": 24 * GIB,
        "available_bytes": 20 * GIB,
        "limit_bytes": 24 * GIB,
        "usable_bytes": 20 * GIB,
    },
    "disk": {
        "folders": {
            "/var/lib/stoker/environments": {"free_bytes": 50 * GIB},
            "/var/lib/stoker/models": {"free_bytes": 50 * GIB},
        }
    },
    "gpus": {"gpus": []},
    "pci": [],
    "driver": {"version": None, "flavour": None},
    "iommu": {
        "is_on": False,
        "option": None,
        "is_guest": False,
        "gpus": [],
        "translates": False,
        "redirects": False,
        "reason": None,
    },
    "topology": {
        "gpus": [],
        "pairs": [],
        "links": None,
        "can_peer": None,
        "way": None,
        "has_switch": False,
    },
    "shm": {"size_bytes": 12 * GIB, "free_bytes": 12 * GIB, "is_own": True},
    "limits": {"memory_lock_bytes": None, "open_files": 1048576, "ptrace_scope": 0},
    "listeners": {"listeners": []},
    "card": {"unmet": [], "unknown": []},
    "recipe": {
        "wish": "auto",
        "id": None,
        "status": None,
        "says": None,
        "reasons": [],
        "doubts": [],
        "near": [],
        "consent": [],
        "withheld": [],
        "notes": [],
        "settings": 0,
    },
    "model": GGUF,
    "reach": {
        "user": "nobody",
        "exists": True,
        "folders": {
            "/var/lib/stoker/environments": {"reachable": True, "closed_at": None},
            "/var/lib/stoker/services": {"reachable": True, "closed_at": None},
            "/srv/models": {"reachable": True, "closed_at": None},
        },
    },
    "interpreters": {
        "interpreters": [
            {"path": "/usr/bin/python3.11", "version": [3, 11, 2], "reachable_by_others": True}
        ]
    },
    "engine": {"state": "answered", "version_text": "version: 11549", "exit_status": 0},
    "engine_flags": {
        "authority": "release",
        "version": "b11549",
        "release": "b11549",
        "is_exact": True,
        "reason": "",
        "count": 252,
        "seconds": None,
        "difference": "",
    },
    "service_sandbox": {
        "layers": {"mount": "works", "limit": "works"},
        "statuses": {},
        "refused": [],
        "ignored": [],
        "memory_lock_bytes": None,
        "open_files": 1048576,
    },
}


def make_deployment(**changes: Any) -> Deployment:
    """The smallest deployment; ``changes`` are keys at the top."""
    data = {
        "name": "smol",
        "model": f"path:{MODEL}",
        "engine": {"kind": "llamacpp"},
        "service": {"user": "nobody"},
    }
    return Deployment.model_validate({**data, **changes})


def make_facts(unknown: Mapping[str, str] | None = None, **changes: Any) -> Facts:
    """The healthy host; ``changes`` replace whole probes, ``unknown`` gives reasons by probe."""
    values = {
        probe: Observation(probe=probe, value=v) for probe, v in {**HEALTHY, **changes}.items()
    }
    reasons = {
        probe: Observation(probe=probe, unknown=reason) for probe, reason in (unknown or {}).items()
    }
    return Facts(host="test", stoker_version="0", observations={**values, **reasons})


def make_place(deployment: Deployment, build: str = "b11549") -> Place:
    """Where the parts of its launch lie."""
    return Place(
        command=f"{ENVIRONMENT}/bin/llama-server",
        build=build,
        model_path=MODEL,
        draft_path=DRAFT if deployment.draft else None,
        api_key_path=(
            f"{FOLDERS.services}/{deployment.name}/api-key"
            if deployment.serve.api_key_file
            else None
        ),
    )


def make_case(
    deployment: Deployment | None = None,
    facts: Facts | None = None,
    build: str = "b11549",
    **changes: Any,
) -> Case:
    """The case of a deployment; ``changes`` replace fields of the case."""
    deployment = deployment or make_deployment()
    facts = facts or make_facts()
    table = load_engine_table("llamacpp")
    fields: dict[str, Any] = {
        "deployment": deployment,
        "facts": facts,
        "launch": build_launch(deployment, facts, table, make_place(deployment, build)),
        "table": table,
        "preparations": (),
        "own_pids": frozenset(),
        "key_file": None,
        "user": "nobody",
        "me": "root",
    }
    return Case(**{**fields, **changes})
