"""Where each document of the state folder lies: pure functions from folders to paths.

One place for all of them, so that a reader of the folder and a writer of it cannot disagree.
"""

from __future__ import annotations

import posixpath

from stoker.model.plan import Folders


def deployments_folder(folders: Folders) -> str:
    """The folder with one folder for each deployment."""
    return posixpath.join(folders.state, "deployments")


def deployment_folder(folders: Folders, name: str) -> str:
    """Everything about one deployment."""
    return posixpath.join(deployments_folder(folders), name)


def current_path(folders: Folders, name: str) -> str:
    """Which generation is in force (``current/1``)."""
    return posixpath.join(deployment_folder(folders, name), "current.json")


def generations_folder(folders: Folders, name: str) -> str:
    """The generations of one deployment."""
    return posixpath.join(deployment_folder(folders, name), "generations")


def generation_path(folders: Folders, name: str, number: int) -> str:
    """One generation (``generation/2``); numbers are padded so that names sort."""
    return posixpath.join(generations_folder(folders, name), f"{number:06d}.json")


def verification_path(folders: Folders, name: str) -> str:
    """The newest verification of a deployment (``verification/1``)."""
    return posixpath.join(deployment_folder(folders, name), "verification.json")


def soak_path(folders: Folders, name: str) -> str:
    """The last soak of a deployment (``verification/1`` with its history)."""
    return posixpath.join(deployment_folder(folders, name), "soak.json")


def plans_folder(folders: Folders) -> str:
    """Saved plans."""
    return posixpath.join(folders.state, "plans")


def plan_path(folders: Folders, plan_id: str) -> str:
    """One saved plan (``plan/3``)."""
    return posixpath.join(plans_folder(folders), f"{plan_id}.json")


def facts_path(folders: Folders) -> str:
    """The newest facts of this host (``facts/1``)."""
    return posixpath.join(folders.state, "facts.json")


def engine_flags_path(folders: Folders, kind: str, place: str) -> str:
    """The flags that an installed engine's own parser told (``engine-flags/1``)."""
    return posixpath.join(folders.state, "engine-flags", f"{kind}-{place}.json")


def capacity_starts_folder(folders: Folders) -> str:
    """What starts of engines found, against what was predicted."""
    return posixpath.join(folders.state, "capacity-starts")


def capacity_starts_path(folders: Folders, key: str) -> str:
    """The starts of one build with one model on one kind of GPU (``capacity-starts/1``)."""
    return posixpath.join(capacity_starts_folder(folders), f"{key}.json")


def kept_repairs_folder(folders: Folders) -> str:
    """Repairs that worked."""
    return posixpath.join(folders.state, "kept-repairs")


def kept_repairs_path(folders: Folders, key: str) -> str:
    """The repairs of one build with one model on one kind of GPU (``kept-repairs/1``)."""
    return posixpath.join(kept_repairs_folder(folders), f"{key}.json")


def benchmarks_folder(folders: Folders) -> str:
    """What was measured, one document for each benchmark and one file with its samples."""
    return posixpath.join(folders.state, "benchmarks")


def benchmark_path(folders: Folders, benchmark: str) -> str:
    """One benchmark (``benchmark/1``)."""
    return posixpath.join(benchmarks_folder(folders), f"{benchmark}.json")


def benchmark_samples_path(folders: Folders, benchmark: str) -> str:
    """Every request of one benchmark, one a line (``benchmark-samples/1``)."""
    return posixpath.join(benchmarks_folder(folders), f"{benchmark}.samples.jsonl")


def campaigns_folder(folders: Folders) -> str:
    """The searches of `stoker tune`."""
    return posixpath.join(folders.state, "campaigns")


def campaign_path(folders: Folders, campaign: str) -> str:
    """One search (``campaign/1``)."""
    return posixpath.join(campaigns_folder(folders), f"{campaign}.json")


def recipes_folder(folders: Folders) -> str:
    """The collections of recipes that were read: a list (``recipe-collection/1``) and a folder
    of documents (``recipe-file/1``) each."""
    return posixpath.join(folders.state, "recipes")


def runs_folder(folders: Folders) -> str:
    """One folder for each run: its plan, journal and before-images."""
    return posixpath.join(folders.state, "runs")


def run_folder(folders: Folders, run: str) -> str:
    """One run."""
    return posixpath.join(runs_folder(folders), run)


def journal_path(folders: Folders, run: str) -> str:
    """The write-ahead journal of a run, one JSON entry a line."""
    return posixpath.join(run_folder(folders, run), "journal.jsonl")


def run_plan_path(folders: Folders, run: str) -> str:
    """The plan that a run executes."""
    return posixpath.join(run_folder(folders, run), "plan.json")


def image_path(folders: Folders, run: str, digest: str) -> str:
    """A before-image of a run: the file's content, named by its digest."""
    return posixpath.join(run_folder(folders, run), "images", digest)


def engine_log_path(folders: Folders, run: str) -> str:
    """The end of the engine's log, of a start that failed in this run."""
    return posixpath.join(run_folder(folders, run), "engine.log")


def failed_verification_path(folders: Folders, run: str) -> str:
    """What was found of a start that broke its contract in this run (``verification/1``)."""
    return posixpath.join(run_folder(folders, run), "verification.json")


def reserve_path(folders: Folders, run: str) -> str:
    """Room on the disk that a run sets aside for its roll-back."""
    return posixpath.join(run_folder(folders, run), "reserve")


def state_path(folders: Folders) -> str:
    """What makes a folder a state folder of Stoker (``state/1``)."""
    return posixpath.join(folders.state, "state.json")


def lock_path(folders: Folders) -> str:
    """The lock of the state folder."""
    return posixpath.join(folders.state, "lock")


def logs_folder(folders: Folders) -> str:
    """The logs of services."""
    return posixpath.join(folders.state, "logs")


def supervisor_folder(folders: Folders) -> str:
    """The files of a supervisor that belongs to Stoker."""
    return posixpath.join(folders.state, "supervisor")


def service_folder(folders: Folders, name: str) -> str:
    """The files that one service reads."""
    return posixpath.join(folders.services, name)


def work_folder(folders: Folders, name: str) -> str:
    """The one folder that a service may write in."""
    return posixpath.join(service_folder(folders, name), "work")


def guard_status_path(folders: Folders, name: str) -> str:
    """Where a service's guard says how it stands (``guard-status/1``)."""
    return posixpath.join(work_folder(folders, name), "status.json")


def starts_path(folders: Folders, name: str) -> str:
    """How long earlier starts took (``starts/1``); the guard keeps it."""
    return posixpath.join(work_folder(folders, name), "starts.json")


def guard_config_path(folders: Folders, name: str) -> str:
    """What a service's guard is told (``guard/1``)."""
    return posixpath.join(service_folder(folders, name), "guard.json")


def is_secret(folders: Folders, path: str) -> bool:
    """Whether a file holds a secret: whatever a service reads does, but its guard's orders."""
    is_of_service = path.startswith(folders.services + "/")
    return is_of_service and posixpath.basename(path) != "guard.json"


def api_key_path(folders: Folders, name: str) -> str:
    """The service's own copy of its API key."""
    return posixpath.join(service_folder(folders, name), "api-key")


def secret_variable_path(folders: Folders, name: str, variable: str) -> str:
    """The service's own copy of a secret that it gets by an environment variable."""
    return posixpath.join(service_folder(folders, name), f"variable-{variable}")
