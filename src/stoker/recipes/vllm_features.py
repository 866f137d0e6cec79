"""The features of an entry of vLLM's collection: which there are on a machine, and which are on.

Called by :mod:`stoker.recipes.vllm`. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from stoker.recipes.collection import group, text, words
from stoker.recipes.vllm_hardware import Profile, by_hardware


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """One feature as it is here; ``arguments`` and ``variables`` as they are written."""

    name: str
    is_on: bool
    summary: str
    arguments: object
    variables: object


def choose_features(
    data: Mapping[str, object], *, variant: str, strategy: str, profile: Profile
) -> Iterator[Feature]:
    """The features that there are with this variant and strategy on this machine, in order.

    A feature is on unless the entry lets people choose it; a variant that is made for one of its
    modes chooses it.
    """
    modes = group(group(group(data.get("variants")).get(variant)).get("default_modes"))
    off = {
        *words(data.get("opt_in_features")),
        *words(by_hardware(data.get("hardware_opt_in_features"), profile)),
    } - set(modes)
    for name, feature in group(data.get("features")).items():
        about = group(feature)
        allowed = words(about.get("strategies"))
        if (allowed and strategy not in allowed) or not _is_supported(about, profile):
            continue
        chosen, label = _choose_mode(about, text(modes.get(name)), variant, profile)
        if chosen is None:
            continue
        here = group(by_hardware(chosen.get("hardware_overrides"), profile))
        yield Feature(
            name=name,
            is_on=name not in off,
            summary=" ".join(filter(None, (text(about.get("description")), label))),
            arguments=here.get("args") if "args" in here else chosen.get("args"),
            variables=here.get("env") if "env" in here else chosen.get("env"),
        )


def _choose_mode(
    about: Mapping[str, object], wanted: str, variant: str, profile: Profile
) -> tuple[Mapping[str, object] | None, str]:
    """The one mode of a feature that is in force, and its name; the feature itself without any."""
    if not isinstance(about.get("modes"), Mapping):
        return about, ""
    allowed = {
        key: group(mode)
        for key, mode in group(about.get("modes")).items()
        if _is_supported(group(mode), profile)
        and (not words(group(mode).get("variants")) or variant in words(group(mode)["variants"]))
    }
    for key in (wanted, text(about.get("default_mode")), *allowed):
        if key in allowed:
            return allowed[key], f"(mode {key})"
    return None, ""


def _is_supported(about: Mapping[str, object], profile: Profile) -> bool:
    gates = group(about.get("hardware"))
    return not any(gates.get(key) == "unsupported" for key in (profile.word, profile.generation))
