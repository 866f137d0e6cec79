"""The smaller model that drafts tokens for the one that is served; read as the model is."""

from __future__ import annotations

from collections.abc import Mapping

from stoker.errors import HostError
from stoker.model.facts import Target
from stoker.ports import Probe, ReadableHost
from stoker.probes.model import parse_model, read_model


def read(host: ReadableHost, target: Target) -> Mapping[str, str]:
    """The headers of the draft model's files."""
    if target.draft_path is None:
        raise HostError("no draft model is declared")
    return read_model(host, target.draft_path)


PROBE = Probe(
    id="draft", source="the headers of the draft model's files", read=read, parse=parse_model
)
