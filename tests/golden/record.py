"""Ask the model probe about every configuration beside this file; `python -m tests.golden.record`.

Writes models/NAME.json, the facts that the golden plans are made from. To be run again when the
probe tells more of a model.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from stoker.hosts.local import LocalHost
from stoker.probes.model import parse_model, read_model
from tests.golden.sparse_model import HERE, write_model

TEMPLATES = HERE / "templates"


def main() -> int:
    """Record all models, or those that are named."""
    names = sys.argv[1:] or sorted(path.stem for path in (HERE / "configs").glob("*.json"))
    (HERE / "models").mkdir(exist_ok=True)
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder) / name
            template = TEMPLATES / f"{name}.jinja"
            write_model(name, place, template=template.read_text() if template.exists() else "")
            fact = parse_model(read_model(LocalHost(), str(place)))
        if "modified_ns" in fact:
            fact["modified_ns"] = 0
        text = json.dumps(fact, indent=1).replace(str(place), f"/data/models/{name}")
        (HERE / "models" / f"{name}.json").write_text(text + "\n")
        sys.stdout.write(f"{name}: {fact.get('format')} {fact.get('size_bytes')}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
