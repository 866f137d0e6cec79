"""Recorded exchanges with real engines: reading the cases, and recording new ones.

A case is one check against one real server: what was sent, what came back, and the verdict it
must have. To record all checks against a running engine::

    python -m tests.contract.recorded_cases FOLDER CASE "ENGINE AND VERSION" PORT NAME [KEY]

writes ``FOLDER/CASE-CHECK.json``. Read each before it is kept: the verdict in it is what the
check says today, and the test holds every later version of the check to it.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from stoker.contract.judgement import Judgement
from stoker.contract.run import discover_checks
from stoker.endpoints.http import HttpEndpoint
from stoker.model.contract import Exchange, Request

FOLDER = Path(__file__).parent / "recorded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What one check saw of one engine."""

    engine: str
    published_name: str
    check: str
    verdict: str
    exchanges: tuple[Exchange, ...]


def load_cases() -> dict[str, Case]:
    """All cases by their path below the folder, without the suffix."""
    return {
        path.relative_to(FOLDER).with_suffix("").as_posix(): _read(path)
        for path in sorted(FOLDER.rglob("*.json"))
    }


def _read(path: Path) -> Case:
    data = json.loads(path.read_text("utf-8"))
    exchanges = tuple(map(_read_exchange, data.pop("exchanges")))
    return Case(**data, exchanges=exchanges)


def _read_exchange(data: dict[str, Any]) -> Exchange:
    request, events = Request(**data.pop("request")), tuple(data.pop("events"))
    return Exchange(request=request, events=events, **data)


def record(folder: Path, case: str, engine: str, *, name: str, endpoint: HttpEndpoint) -> None:
    """Try every check once and write one case for each."""
    for check in discover_checks():
        exchanges = tuple(map(endpoint.exchange, check.requests(name)))
        judgement = check.judge(name, exchanges)
        assert isinstance(judgement, Judgement)
        recorded = Case(
            engine=engine,
            published_name=name,
            check=check.id,
            verdict=judgement.verdict,
            exchanges=exchanges,
        )
        text = json.dumps(asdict(recorded), indent=1, ensure_ascii=False)
        (folder / f"{case}-{check.id}.json").write_text(f"{text}\n", "utf-8")


if __name__ == "__main__":
    folder, case, engine, port, name, *key = sys.argv[1:]
    record(
        Path(folder),
        case,
        engine,
        name=name,
        endpoint=HttpEndpoint("127.0.0.1", int(port), api_key=key[0] if key else None),
    )
