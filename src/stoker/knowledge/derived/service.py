"""The user that the service runs as, and the GPUs that it is to have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stoker.knowledge.derived.case import Case, innermost_folder
from stoker.knowledge.derived.devices import derive_elsewhere
from stoker.knowledge.derived.weights import weights_paths
from stoker.knowledge.versions import parse_version
from stoker.model.facts import Plain, Unknown

_ROOT = "root"


def derive_user(case: Case) -> dict[str, Plain]:
    """Whether the service's user exists and reaches what the service needs.

    Nothing is in the way where the service runs as the very user that Stoker is.
    """
    known: dict[str, Plain] = {
        "name": case.user,
        "is_root": case.user == _ROOT,
        "is_other": case.user != case.me if case.me else Unknown(reason="who asks is not known"),
    }
    if case.user == case.me:
        return {**known, "is_missing": False, "closed": [], "lacks_python": False}
    reach = case.facts.read("reach")
    if isinstance(reach, Unknown):
        return {**known, "is_missing": reach, "closed": reach, "lacks_python": reach}
    return {
        **known,
        "is_missing": reach["exists"] is False,
        "closed": _closed(case, reach["folders"], reach.get("programs", {})),
        "lacks_python": _lacks_python(case),
    }


def derive_gpus(case: Case) -> dict[str, Plain]:
    """The GPUs that are wanted against those that are there.

    ``is_explicit``: a number or a list was asked for, not just whatever is there; ``asked`` says
    what, and ``there`` what there is instead. ``is_ignored``: the build cannot compute on them.
    :func:`derive_elsewhere` tells of those that NVIDIA's driver does not have.
    """
    gpus = case.deployment.gpus
    is_explicit = case.wants_gpus and gpus != "all"
    known: dict[str, Plain] = {
        "is_explicit": is_explicit,
        "is_ignored": case.wants_gpus and not case.can_use_gpus,
        "asked": _asked(gpus),
        **derive_elsewhere(case),
    }
    present = case.facts.read("gpus.gpus")
    if isinstance(present, Unknown):
        unseen = {"present_count": present, "there": present}
        return {**known, "lacking": present if is_explicit else [], **unseen}
    lacking = _lacking(gpus, present)
    names = f" and not {', '.join(lacking)}" if lacking and not isinstance(gpus, int) else ""
    return {
        **known,
        "lacking": lacking,
        "present_count": len(present),
        "there": f"{len(present)}{names}",
    }


def _asked(gpus: str | int | Sequence[int | str]) -> str:
    if isinstance(gpus, str):
        return gpus
    if isinstance(gpus, int):
        return "1 GPU" if gpus == 1 else f"{gpus} GPUs"
    return f"{'the GPU' if len(gpus) == 1 else 'the GPUs'} {', '.join(str(gpu) for gpu in gpus)}"


def _closed(
    case: Case, folders: Mapping[str, Plain], programs: Mapping[str, Plain]
) -> list[str] | Unknown:
    """What the service needs and its user does not reach, with the folder that is in the way."""
    secrets = [secret.path for secret in case.launch.secrets]
    needed = [case.launch.argv[0], *weights_paths(case).values(), *secrets]
    holding = {path: innermost_folder(path, folders) for path in needed}
    for path, folder in holding.items():
        if folder is None:
            return Unknown(reason=f"nobody looked at the way to {path}")
    ways = {path: folders[folder] for path, folder in holding.items() if folder is not None}
    ways.update(programs)
    return [
        f"{path} (closed at {way['closed_at']})"
        for path, way in ways.items()
        if way["reachable"] is False
    ]


def _lacking(gpus: str | int | Sequence[int | str], present: Sequence[Plain]) -> list[str]:
    """The names of the wanted GPUs that are not there."""
    if isinstance(gpus, str):
        return []
    wanted = range(gpus) if isinstance(gpus, int) else gpus
    names = {str(gpu.get(key)) for gpu in present for key in ("index", "uuid")}
    return [str(name) for name in wanted if str(name) not in names]


def _lacks_python(case: Case) -> bool | Unknown:
    """Whether no Python that the user reaches is new enough for the engine's environment."""
    makes_one = any(preparation.kind == "environment" for preparation in case.preparations)
    embedded = case.table.embedded
    if not (case.is_embedded and makes_one) or embedded is None:
        return False
    found = case.facts.read("interpreters.interpreters")
    if isinstance(found, Unknown):
        return found
    at_least = parse_version(embedded.python_at_least) or ()
    return not any(each["reachable_by_others"] and _version_of(each) >= at_least for each in found)


def _version_of(interpreter: Mapping[str, Plain]) -> tuple[int, ...]:
    version = interpreter["version"]
    return (parse_version(version) or ()) if isinstance(version, str) else tuple(version)
