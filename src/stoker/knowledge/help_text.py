"""The flags of an engine from the text of its ``--help``, as llama.cpp's common_arg prints it.

Called where a user's own build is asked for its flags, and by the script that makes our catalogue.
Help texts are not kept. Options that the build still names but refuses are left out. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from stoker.model.facts import Plain

#: A help text is a few thousand lines; what is longer is something else.
_MOST_LINES = 20_000
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
    for line in text.splitlines()[:_MOST_LINES]:
        if line.startswith("-") and not line.startswith("-----"):
            if signature:
                yield signature, description
            signature, description = _split_line(line)
        elif line.startswith(" "):
            description = f"{description} {line.strip()}"
    if signature:
        yield signature, description


def parse_option(signature: str, description: str) -> dict[str, Plain]:
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


def parse_values(argument: str, description: str) -> dict[str, Plain]:
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


def parse_help(text: str) -> list[dict[str, Plain]]:
    """All rows, in the parser's own order."""
    return [
        parse_option(signature, description)
        for signature, description in split_help(text)
        if _REMOVED not in description
    ]


def _split_line(line: str) -> tuple[str, str]:
    gap = line[_DESCRIPTION_COLUMN - len(_GAP) : _DESCRIPTION_COLUMN]
    if gap == _GAP:
        return line[:_DESCRIPTION_COLUMN].rstrip(), line[_DESCRIPTION_COLUMN:].strip()
    return line.strip(), ""
