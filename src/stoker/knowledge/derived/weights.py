"""The weights: are they there, whole, of the right kind, long enough and pinned?"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from stoker.knowledge.derived.case import Case, find_count
from stoker.knowledge.engines import load_model_packages
from stoker.model.engine_table import ModelPackage
from stoker.model.facts import Plain, Unknown
from stoker.model.plan import Preparation

_COMMIT = re.compile(r"^[0-9a-f]{40}$")
#: Where configurations say how positions are stretched (transformers, 4 and 5).
_ROPES = ("rope_scaling", "rope_parameters")
_MOST_DEPTH = 4
_FINE: Mapping[str, Plain] = {"is_missing": False, "is_truncated": False, "is_wrong_format": False}


def weights_paths(case: Case) -> dict[str, str]:
    """Where the weights lie by the probe that looks at them: ``model``, maybe ``draft``."""
    rows = {"model": "model_path", "draft": "draft_path"}
    settings = case.launch.settings
    found = {probe: case.table.settings[row].find_in(settings) for probe, row in rows.items()}
    return {probe: path for probe, path in found.items() if path}


def preparation_of(case: Case, path: str) -> Preparation | None:
    """The preparation that will bring these weights, if one will."""
    return next(
        (each for each in case.preparations if f"{path}/".startswith(f"{each.target}/")), None
    )


def fetched_bytes(case: Case, probe: str, preparation: Preparation) -> int:
    """How large the weights will be once they are fetched.

    What a preparation writes is more where they come inside a package, and less where a part of
    them is here already.
    """
    package = _package_of(case, probe)
    if package is not None:
        return package.member_bytes
    files: Mapping[str, int] = preparation.details.get("files") or {}
    return sum(size for size in files.values() if size > 0) or preparation.size_bytes


def find_shape(case: Case, probe: str) -> Mapping[str, Plain] | Unknown:
    """The model's shape in the words of the model probe, as it will be once it is fetched."""
    path = weights_paths(case).get(probe)
    if path is None or preparation_of(case, path) is None:
        found: Mapping[str, Plain] | Unknown = case.facts.read(probe)
        return found
    package = _package_of(case, probe)
    if package is not None and package.shape:
        return package.shape
    return Unknown(reason="how much memory its context takes is known once its file is here")


def derive_weights(case: Case, probe: str) -> dict[str, Plain]:
    """What is wrong with the weights of one probe; nothing where they are still to be fetched."""
    path = weights_paths(case).get(probe)
    if path is None or preparation_of(case, path) is not None:
        return {**_FINE, "path": path}
    seen = case.facts.read(probe)
    if isinstance(seen, Unknown):
        return {**dict.fromkeys(_FINE, seen), "path": path}
    kind = seen.get("format")
    reason = seen.get("reason") or ""
    is_truncated = seen.get("is_truncated", False)
    return {
        "path": path,
        "is_missing": kind == "missing",
        "is_truncated": Unknown(reason=reason) if is_truncated is None else is_truncated,
        "is_wrong_format": kind not in ("missing", *case.table.formats),
        "format": f"not readable ({reason})" if kind == "unknown" else kind,
        "wanted_format": " or ".join(case.table.formats),
        "reason": reason,
    }


def derive_context(case: Case) -> dict[str, Plain]:
    """Whether a longer request is promised than the model was trained for.

    ``is_stretched``: its own configuration stretches what it was trained for (rope scaling), so
    that engines reckon with more than it names.
    """
    asked_tokens = _asked_tokens(case)
    if asked_tokens is None:
        return {"is_too_long": False, "is_stretched": False}
    shape = find_shape(case, "model")
    model_tokens = shape if isinstance(shape, Unknown) else shape.get("context_length")
    if not isinstance(model_tokens, int):
        unknown = Unknown(reason="the model's own context length is not known")
        return {"is_too_long": unknown, "is_stretched": unknown}
    return {
        "is_too_long": asked_tokens > model_tokens,
        "is_stretched": not isinstance(shape, Unknown) and _names_factor(shape.get("config")),
        "asked_tokens": asked_tokens,
        "model_tokens": model_tokens,
    }


def _asked_tokens(case: Case) -> int | None:
    """The longest request that the file promises, in our words or in the engine's.

    Where all requests share what the engine's flag gives, that says nothing of one.
    """
    asked, row = case.deployment.serve.context_tokens, case.table.settings.get("context_tokens")
    if asked is None and row is not None and not row.is_shared:
        asked = find_count(case, row.id) or None
    return asked


def _names_factor(config: Plain, depth: int = 0, *, in_rope: bool = False) -> bool:
    """Whether a configuration has a factor of its rope somewhere; some have one a kind of layer."""
    if not isinstance(config, Mapping) or depth > _MOST_DEPTH:
        return False
    if in_rope and "factor" in config:
        return True
    return any(
        _names_factor(part, depth + 1, in_rope=in_rope or name in _ROPES)
        for name, part in config.items()
    )


def derive_unpinned(case: Case) -> list[str]:
    """What to say about each reference that may mean other weights tomorrow."""
    deployment = case.deployment
    references = [reference for reference in (deployment.model, deployment.draft) if reference]
    return [sentence for reference in references for sentence in _unpinned(reference.ref)]


def _unpinned(ref: str) -> Iterator[str]:
    kind, _, rest = ref.partition(":")
    if kind == "hf":
        _, _, revision = rest.partition("@")
        if not _COMMIT.match(revision):
            yield f"{ref} names no commit"
    elif kind == "package" and _find_package(ref) is None:
        yield f"no digest is known for {ref}"


def _package_of(case: Case, probe: str) -> ModelPackage | None:
    reference = case.deployment.draft if probe == "draft" else case.deployment.model
    return _find_package(reference.ref) if reference else None


def _find_package(ref: str) -> ModelPackage | None:
    """The pinned package that a reference means, if it means one."""
    kind, _, rest = ref.partition(":")
    name, _, version = rest.partition("==")
    known = load_model_packages().get(re.sub(r"[-_.]+", "-", name).lower())
    if kind != "package" or known is None or version not in ("", known.requirement.version):
        return None
    return known
