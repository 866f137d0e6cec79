"""What a diagnosis starts from. Made by the commands and by whoever scores diagnoses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from stoker.model.diagnosis import Evidence, ReadInput
from stoker.model.facts import Plain
from stoker.model.finding import Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """One line as it is read: without colours, the prefixes of whoever carried it, and the name of
    the process, which is ``rank``. ``number`` counts from 1 in its own ``origin``."""

    number: int
    text: str
    origin: str = ""
    rank: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Symptom:
    """What a failed check or a reply showed, in the words of the contract."""

    symptom: str
    evidence: Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """All of it. ``kernel`` are lines of the kernel's log, ``lines`` those of engine and service.

    ``tree`` is what is known, in the words of rules (``settings``, ``stack``, ``hardware``,
    ``checkpoint``, ...): of a deployment, of a case, or nothing. ``findings`` are of rules that
    fired over it. ``release`` is empty where it is not known. ``patched_files`` are the files
    that the deployment's own patches change, by the name of the patch; ``patched_names`` the
    attributes that their new lines name. ``history`` are lines of earlier starts, which are over.
    """

    name: str = ""
    engine: str = ""
    release: str = ""
    lines: tuple[LogLine, ...] = ()
    kernel: tuple[LogLine, ...] = ()
    history: tuple[LogLine, ...] = ()
    symptoms: tuple[Symptom, ...] = ()
    tree: Mapping[str, Plain] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    patched_files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    patched_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    read: tuple[ReadInput, ...] = ()
