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
#: The parser of such an option takes whatever it is given, and does nothing with it.
_IGNORED = "(DEPRECATED)"

#: How the help writes that a number is wanted. The ranges are not those of the parser, which also
#: takes 50 where the help of one polling level says ``<0|1>``.
_NUMBERS = frozenset(
    {"N", "P", "L", "INDEX", "SEED", "SECONDS", "SIMILARITY", "<0|1>", "<0...100>"}
)
_WORD = r"[a-z0-9][a-z0-9_+-]*"
_BRACED = re.compile(rf"\{{({_WORD}(?:,{_WORD})+)\}}")
_SWITCH = re.compile(rf"\[({_WORD}(?:\|{_WORD})+)\]")
_LISTED = re.compile(rf"{_WORD}(?:,{_WORD})+")
_ALLOWED = re.compile(rf"allowed values: ({_WORD}(?:, {_WORD})*)")
_EXPLAINED = re.compile(rf" - ({_WORD}): ")
_QUOTED = re.compile(rf"'({_WORD})'")
#: What the parser takes for the words of a switch beside them (is_truthy, is_falsey and is_autoy
#: in common/arg.cpp).
_SPELLINGS = {"on": ["enabled", "true", "1"], "off": ["disabled", "false", "0"], "auto": ["-1"]}


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
    argument = rest.strip() or None
    env, default = _ENV.search(description), _DEFAULT.search(description)
    row = {
        "names": names,
        "argument": argument,
        "env": env[1] if env else None,
        "default": default[1].strip() if default else None,
    }
    return row | ({} if argument is None else parse_values(argument, description))


def parse_values(argument: str, description: str) -> dict[str, object]:
    """Which values an option takes: ``kind``, ``choices`` and ``also``, nothing where any may do.

    ``kind`` is number (or one of the choices), choice (one of them) or list (of them, with
    commas); ``also`` are spellings that the parser takes and the help does not tell.
    """
    if _IGNORED in description:
        return {}
    if argument in _NUMBERS:
        words = list(dict.fromkeys(_QUOTED.findall(description)))
        return {"kind": "number"} | ({"choices": words} if words else {})
    if switch := _SWITCH.fullmatch(argument):
        words = switch[1].split("|")
        also = [spelling for word in words for spelling in _SPELLINGS.get(word, [])]
        return {"kind": "choice", "choices": words, "also": also}
    if _LISTED.fullmatch(argument):
        return {"kind": "list", "choices": argument.split(",")}
    words = _find_words(argument, description)
    return {"kind": "choice", "choices": words} if len(words) > 1 else {}


def _find_words(argument: str, description: str) -> list[str]:
    """The words that are named as the only values."""
    if braced := _BRACED.fullmatch(argument):
        return braced[1].split(",")
    if allowed := _ALLOWED.search(description):
        return allowed[1].split(", ")
    explained = _EXPLAINED.findall(description)
    default = _DEFAULT.search(description)
    is_word = default is not None and re.fullmatch(_WORD, default[1]) is not None
    more = [default[1]] if default and is_word and explained else []
    return list(dict.fromkeys([*explained, *more]))


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
