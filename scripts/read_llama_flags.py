"""Make the flag catalogue of a llama-server build from its own parser's help.

Run by hand when a new build is adopted:

    python scripts/read_llama_flags.py LLAMA_SERVER --build b11549 --date 2026-11-29 \
        --package "xllamacpp 2026.10.11549" > src/stoker/knowledge/data/flags/llamacpp/b11549.json

Help texts are not kept. Options that the build still names but refuses are left out.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys

from stoker.knowledge.help_text import parse_help


def render_catalogue(catalogue: dict[str, object]) -> str:
    """JSON with one option a line, so that two builds can be compared line by line."""
    options = catalogue.pop("options")
    assert isinstance(options, list)
    head = json.dumps(catalogue, indent=1)[:-2]
    rows = ",\n".join(f"  {json.dumps(option)}" for option in options)
    return f'{head},\n "options": [\n{rows}\n ]\n}}\n'


def _main() -> None:
    parser = argparse.ArgumentParser(description="Write a flag catalogue to stdout.")
    parser.add_argument("command", help="the build's llama-server")
    parser.add_argument("--build", required=True, help="for example b11549")
    parser.add_argument("--package", required=True, help="what was run, with its version")
    parser.add_argument("--date", required=True, help="when, as an ISO date")
    wanted = parser.parse_args()
    ran = subprocess.run(
        [wanted.command, "--help"], capture_output=True, text=True, timeout=60, check=True
    )
    source = {
        "kind": "observed",
        "where": f"llama-server --help of {wanted.package}",
        "version": wanted.build,
        "date": wanted.date,
    }
    catalogue: dict[str, object] = {
        "engine": "llamacpp",
        "build": wanted.build,
        "source": source,
        "options": parse_help(ran.stdout),
    }
    sys.stdout.write(render_catalogue(catalogue))


if __name__ == "__main__":
    _main()
