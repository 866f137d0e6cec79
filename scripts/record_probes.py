"""Record what probes read on this very machine, as cases for `tests/recorded`.

Run by hand on a machine that has what is to be recorded:

    python -m scripts.record_probes FOLDER topology iommu driver shm limits

Writes FOLDER/PROBE/input.json and FOLDER/PROBE/expected.json for each probe that is named. Look
through them before they are kept: what a machine says may hold names and serial numbers. It reads,
and sets nothing. Of our dependencies it needs ruamel.yaml and, for NVIDIA's GPUs, pynvml.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from stoker.errors import HostError
from stoker.hosts.local import LocalHost
from stoker.model.facts import Target
from stoker.ports import Probe
from stoker.probes.observe import find_probes


def main(arguments: list[str] | None = None) -> int:
    """Record each probe that is named; the status is 1 if one could not read."""
    probes = {probe.id: probe for probe in find_probes()}
    parser = argparse.ArgumentParser(description="record what probes read, as test cases")
    parser.add_argument("folder", type=Path)
    parser.add_argument("probes", nargs="+", choices=sorted(probes), metavar="PROBE")
    options = parser.parse_args(arguments)
    failures = [
        f"{name}: {failure}"
        for name in options.probes
        if (failure := record(probes[name], options.folder / name))
    ]
    sys.stderr.write("".join(f"{failure}\n" for failure in failures))
    return 1 if failures else 0


def record(probe: Probe, folder: Path) -> str:
    """Write one case; why it could not be, or nothing."""
    try:
        raw = probe.read(LocalHost(), Target())
    except HostError as error:
        return error.summary
    try:
        expected: dict[str, object] = {"value": probe.parse(raw)}
    except ValueError as error:
        expected = {"error": str(error)}
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in (("input", dict(raw)), ("expected", expected)):
        text = json.dumps(data, indent=1) + "\n"
        (folder / f"{name}.json").write_text(text, encoding="utf-8")
    return ""


if __name__ == "__main__":
    sys.exit(main())
