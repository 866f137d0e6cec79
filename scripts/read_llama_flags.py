"""Make the flag catalogue of a llama-server build from its own parser's help.

Run by hand when a new build is adopted:

    python scripts/read_llama_flags.py LLAMA_SERVER --build b11549 --date 2026-11-29 \
        --package "xllamacpp 2026.10.11549" > src/stoker/knowledge/data/flags/llamacpp/b11549.json

Help texts are not kept. Options that the build still names but refuses are left out.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Iterator

#: Where the description starts; a signature that reaches within three columns of it stands alone
#: on its line (common_arg::to_string in common/arg.cpp).
_DESCRIPTION_COLUMN = 40
_GAP = "   "

_NAME = re.compile(r"(--?[A-Za-z0-9][\w.-]*)(?:,\s+|\s+|$)")
_ENV = re.compile(r"\(env:\s*([^)\s]+)\)")
_DEFAULT = re.compile(r"\(default:\s*([^()]*(?:\([^()]*\)[^()]*)*)\)")
_REMOVED = "the argument has been removed"


def split_help(text: str) -> Iterator[tuple[str, str]]:
    """Pairs of signature and description, one for each option."""
    signature, description = "", ""
    for line in text.splitlines():
        if line.startswith("-") and not line.startswith("-----"):
            if signature:
                yield signature, description
            signature, description = _split_line(line)
        elif line.startswith(" "):
            description = f"{description} {line.strip()}"
    if signature:
        yield signature, description


def parse_option(signature: str, description: str) -> dict[str, object]:
    """One row of the catalogue."""
    names: list[str] = []
    rest = signature
    while found := _NAME.match(rest):
        names.append(found[1])
        rest = rest[found.end() :]
    env, default = _ENV.search(description), _DEFAULT.search(description)
    return {
        "names": names,
        "argument": rest.strip() or None,
        "env": env[1] if env else None,
        "default": default[1].strip() if default else None,
    }


def parse_help(text: str) -> list[dict[str, object]]:
    """All rows, in the parser's own order."""
    return [
        parse_option(signature, description)
        for signature, description in split_help(text)
        if _REMOVED not in description
    ]


def render_catalogue(catalogue: dict[str, object]) -> str:
    """JSON with one option a line, so that two builds can be compared line by line."""
    options = catalogue.pop("options")
    assert isinstance(options, list)
    head = json.dumps(catalogue, indent=1)[:-2]
    rows = ",\n".join(f"  {json.dumps(option)}" for option in options)
    return f'{head},\n "options": [\n{rows}\n ]\n}}\n'


def _split_line(line: str) -> tuple[str, str]:
    gap = line[_DESCRIPTION_COLUMN - len(_GAP) : _DESCRIPTION_COLUMN]
    if gap == _GAP:
        return line[:_DESCRIPTION_COLUMN].rstrip(), line[_DESCRIPTION_COLUMN:].strip()
    return line.strip(), ""


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
