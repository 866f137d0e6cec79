"""The words of a command line as flags, by the engine's own catalogue where there is one. Pure.

Two spellings of one option are one flag; a variable that an engine reads in a flag's stead is that
flag too. An engine without a catalogue is read as plainly as its grammar allows.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from stoker.knowledge.servers import Grammar
from stoker.model.comparison import Flag
from stoker.model.engine_table import FlagCatalogue, Option

#: What looks like a flag and is a number: a value.
_NUMBER = re.compile(r"-\.?\d")
_PLAIN_NUMBER = re.compile(r"[-+]?\d+(\.\d+)?")
#: argparse's words for a flag that takes any number of values in one use.
_SEVERAL = ("*", "+")
#: How a help text says what a bare flag is by itself.
_SWITCHED = {"enabled": "on", "true": "on", "disabled": "off", "false": "off"}
#: How the names of a switch begin, and those of its opposite.
_SWITCH_WORDS = (("enable-", "disable-"), ("disable-", "enable-"))
#: Words by which a help text describes the absence of a value.
_DESCRIPTIONS = frozenset({"unused", "none", "disabled", "enabled", "default"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandLine:
    """The flags of a command line in their order, and the words that belong to none."""

    flags: tuple[Flag, ...] = ()
    loose: tuple[str, ...] = ()


def parse_words(
    words: Sequence[str], grammar: Grammar, catalogue: FlagCatalogue | None
) -> CommandLine:
    """All flags as they stand there, each use on its own."""
    flags: list[Flag] = []
    loose: list[str] = []
    place = 0
    while place < len(words):
        flag, count = _read_flag(words[place:], grammar, catalogue)
        if flag is not None:
            flags.append(flag)
        elif grammar.positional and not loose:
            name = grammar.positional
            loose.append(words[place])
            flags.append(Flag(name=name, spelled=name, values=(words[place],)))
        else:
            loose.append(words[place])
        place += count
    # The word that stands for a flag is accounted for.
    is_read = bool(grammar.positional and loose)
    return CommandLine(flags=tuple(flags), loose=tuple(loose[is_read:]))


def add_variables(
    flags: Sequence[Flag],
    env: Mapping[str, str],
    grammar: Grammar,
    catalogue: FlagCatalogue | None,
) -> tuple[Flag, ...]:
    """The flags, and before them those that variables stand for.

    A flag on the command line wins over its variable, unless every use counts.
    """
    written = {flag.name for flag in flags}
    options = catalogue.options if catalogue else ()
    added = _added(grammar, catalogue)
    found = (
        _flag_of_variable(option, env[option.env], grammar)
        for option in options
        if option.env is not None and option.env in env
    )
    kept = [flag for flag in found if flag.name not in written or flag.name in added]
    return (*kept, *flags)


def last_uses(
    flags: Iterable[Flag], grammar: Grammar, catalogue: FlagCatalogue | None = None
) -> tuple[tuple[Flag, ...], tuple[Flag, ...]]:
    """The uses that count, in their order, and those that a later one overrides."""
    listed, added = list(flags), _added(grammar, catalogue)
    last = {flag.name: place for place, flag in enumerate(listed)}
    counts = [place == last[flag.name] or flag.name in added for place, flag in enumerate(listed)]
    return (
        tuple(flag for flag, does in zip(listed, counts, strict=True) if does),
        tuple(flag for flag, does in zip(listed, counts, strict=True) if not does),
    )


def _added(grammar: Grammar, catalogue: FlagCatalogue | None) -> frozenset[str]:
    """The names of flags of which every use counts: by the grammar, and as the parser says."""
    options = catalogue.options if catalogue else ()
    told = (own_name(option) for option in options if option.repeatable)
    return frozenset(grammar.repeatable).union(told)


def anchor(path: str, directory: str) -> str:
    """A path seen from the root, without dots; an empty one stays empty."""
    if not path or not directory:
        return path
    return posixpath.normpath(posixpath.join(directory, path))


def own_name(option: Option) -> str:
    """The name of an option that this project shows: its first long one."""
    return next((name for name in option.names if name.startswith("--")), option.names[0])


def is_negative(option: Option, spelled: str) -> bool:
    """Whether a spelling of a bare option switches it off.

    The catalogue lists the spellings that switch off behind those that switch on. Where it has
    the type from a parser of Python's, they are the opposite of a name before them; elsewhere at
    least one of them begins with ``--no-``.
    """
    names = option.names
    if option.type:
        before = names[: names.index(spelled)] if spelled in names else ()
        return any(spelled in _opposites(name) for name in before)
    on = [name for name in names if name.startswith("--") and not name.startswith("--no-")]
    if option.argument is not None or not on or not any(n.startswith("--no-") for n in names):
        return False
    return spelled in names[names.index(on[-1]) + 1 :]


def _opposites(name: str) -> tuple[str, ...]:
    """The names that switch off what a name switches on."""
    word = name.removeprefix("--")
    swapped = (
        f"--{other}{word.removeprefix(prefix)}"
        for prefix, other in _SWITCH_WORDS
        if word.startswith(prefix)
    )
    return (f"--no-{word}", *swapped) if name.startswith("--") else ()


def known_default(option: Option) -> str | None:
    """The value that an option has when it is left out, as a value that could be written.

    Help texts explain their defaults (``8192, 0 = no minimum``), and some only describe them
    (``same as --threads``, ``unused``); for these the answer is None.
    """
    text = option.default or ""
    head = re.split(r"[,;]| [=-] ", text)[0].strip()
    if option.argument is None:
        return _SWITCHED.get(head)
    if _PLAIN_NUMBER.fullmatch(head) or head in option.choices:
        return head
    is_described = " " in text or text in _DESCRIPTIONS or text.startswith("--")
    return None if is_described or option.default is None else text.strip('"')


def _read_flag(
    words: Sequence[str], grammar: Grammar, catalogue: FlagCatalogue | None
) -> tuple[Flag | None, int]:
    """The flag that the first word begins, and how many words it takes; None for a loose word."""
    spelled, joined = _split(words[0], grammar, catalogue)
    option = _find(spelled, catalogue)
    if option is None and not _looks_like_flag(spelled):
        return None, 1
    name = own_name(option) if option else _dashed(spelled)
    if option is None and catalogue and (known := _find(catalogue.complete(spelled), catalogue)):
        option, name = known, own_name(known)
    elif option is None and (whole := _find_whole(spelled, catalogue)):
        option = whole  # the part keeps its own name
    has_value = joined is not None
    count = 0 if has_value else _count_values(words, option, grammar, catalogue)
    flag = Flag(
        name=name,
        spelled=spelled,
        values=(joined,) if joined is not None else tuple(words[1 : 1 + count]),
        is_off=option is not None and is_negative(option, _dashed(spelled)),
        is_known=option is not None,
    )
    return flag, 1 + count


def _split(word: str, grammar: Grammar, catalogue: FlagCatalogue | None) -> tuple[str, str | None]:
    """A word as a flag and the value that sticks to it, None for no value.

    ``--port=1`` is one everywhere; for argparse ``-tp=1`` and ``-O3`` are too.
    """
    spelled, equals, joined = word.partition("=")
    is_python = grammar.words == "argparse" and catalogue is not None
    if equals and (spelled.startswith("--") or (is_python and _find(spelled, catalogue))):
        return spelled, joined
    if is_python and catalogue and _looks_like_flag(word) and _find(word, catalogue) is None:
        for length in range(len(word) - 1, 1, -1):
            option = None if word.startswith("--") else _find(word[:length], catalogue)
            if option is not None and option.argument is not None:
                return word[:length], word[length:]
    return word, None


def _find_whole(spelled: str, catalogue: FlagCatalogue | None) -> Option | None:
    """The option of which a flag with a dot in it is a part."""
    head, dot, _ = spelled.partition(".")
    return _find(head, catalogue) if dot and catalogue and catalogue.has_parts else None


def _count_values(
    words: Sequence[str],
    option: Option | None,
    grammar: Grammar,
    catalogue: FlagCatalogue | None,
) -> int:
    """How many words behind a flag are its values."""
    if option is not None and option.argument is None:
        return 0
    if option is not None and grammar.words == "one":
        wanted = 2 if own_name(option) in grammar.two else 1
        return min(wanted, len(words) - 1)
    free = list(_until_flag(words[1:], catalogue))
    if option is None:
        return len(free[:1] if grammar.words == "one" else free)
    most = int(option.nargs) if option.nargs.isdigit() else 1
    return len(free if option.nargs in _SEVERAL else free[:most])


def _until_flag(words: Sequence[str], catalogue: FlagCatalogue | None) -> Iterator[str]:
    for word in words:
        if _looks_like_flag(word) or _find(word, catalogue) is not None:
            return
        yield word


def _looks_like_flag(word: str) -> bool:
    return len(word) > 1 and word.startswith("-") and not _NUMBER.match(word)


def _find(spelled: str, catalogue: FlagCatalogue | None) -> Option | None:
    """The option that is spelled exactly so; the catalogue's own search is more forgiving."""
    if catalogue is None or not spelled.startswith("-"):
        return None
    name = _dashed(spelled)
    return next((option for option in catalogue.options if name in option.names), None)


def _dashed(spelled: str) -> str:
    """Both kinds of engine read underscores in a long flag as dashes."""
    return spelled.replace("_", "-") if spelled.startswith("--") else spelled


def _flag_of_variable(option: Option, value: str, grammar: Grammar) -> Flag:
    name, variable = own_name(option), option.env or ""
    if option.argument is not None:
        return Flag(name=name, spelled=name, values=(value,), variable=variable)
    is_off = value not in grammar.truths
    return Flag(name=name, spelled=name, is_off=is_off, variable=variable)
