"""What becomes of each word of an engine's command: taken, withheld, not known, a secret.

Called by :mod:`stoker.recipes.notes.read`. A value is taken only where the text itself says it, the
engine's release has the flag, and nothing in it needs its owner's word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from stoker.knowledge.derived.values import fits
from stoker.knowledge.engines import engine_kinds, load_engine_table
from stoker.knowledge.engines import load_variables as declared_variables
from stoker.knowledge.notes import load_note_forms
from stoker.knowledge.servers import find_grammar
from stoker.knowledge.variables import load_variables
from stoker.model.engine_table import ReservedFlag
from stoker.model.note import NotedSetting, Verdict
from stoker.recipes.notes.budget import current_budget
from stoker.recipes.notes.flag_names import FlagBook, Named
from stoker.recipes.notes.secrets import HIDDEN, hide_secrets, is_secret
from stoker.recipes.notes.shell import Word
from stoker.recipes.notes.text import REPLACEMENT, find_marks, has_mark
from stoker.recipes.notes.units import Unit, split_units

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,100}")
_MODEL_KEY = "model"
_GPUS_KEY = "gpus"
_MAY_BE_BARE = ("?", "*")
#: So many variables of a release must begin alike for the beginning to be the engine's own.
_PREFIX_COUNT = 10
_MAX_SHOWN_CHARACTERS = 80
#: A flag's value is a few words; JSON may be a page.
MAX_VALUE_CHARACTERS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Judging:
    """By what words are judged: the engine's flags, what was consented to, and where they stand.

    ``variables``: names of variables of the text by the word that their values are part of.
    """

    book: FlagBook
    consents: frozenset[str] = frozenset()
    line: int = 0
    variables: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def judge_words(words: Sequence[str], judging: Judging) -> tuple[NotedSetting, ...]:
    """A verdict for every flag of a command, in its order."""
    judged = [_judge_unit(unit, judging) for unit in split_units(words, judging.book)]
    return tuple(_without_earlier(judged, judging.book))


def judge_variables(env: Mapping[str, Word], judging: Judging) -> tuple[NotedSetting, ...]:
    """A verdict for every variable of a command."""
    return tuple(_judge_variable(name, word, judging) for name, word in env.items())


def model_of(words: Sequence[str], book: FlagBook) -> str:
    """The model that a command serves; empty where the text does not say it."""
    rows = _reserved(book)
    for unit in split_units(words, book):
        is_model = _key_of(unit.named, rows, book) == _MODEL_KEY
        if is_model and unit.values and not _unknown_reason(unit.values):
            return unit.values[0]
    return ""


# Flags.


def _judge_unit(unit: Unit, judging: Judging) -> NotedSetting:
    named, book = unit.named, judging.book
    if named is None:
        return _stray(unit, judging)
    noted = NotedSetting(
        name=named.flag or hide_secrets(named.written),
        written=hide_secrets(named.written),
        kind="flag",
        verdict=Verdict.TAKEN,
        values=unit.values,
        renamed=named.sentence if named.flag else "",
        line=judging.line,
        variables=judging.variables.get(unit.text.replace(" ", "=", 1), ())
        or tuple(name for value in unit.values for name in judging.variables.get(value, ())),
    )
    if _holds_secret(unit, noted.what, book):
        return _hide(noted, _reserved_key(named, book))
    if named.flag is None:
        values = tuple(map(hide_secrets, unit.values))
        reason = f"{named.sentence}{_likeness(named, book)}"
        return replace(noted, verdict=Verdict.FOREIGN, reason=reason, values=values)
    if reason := _unknown_reason(unit.values) or _lacks_value(named, unit.values):
        return replace(noted, verdict=Verdict.UNKNOWN, reason=reason, values=())
    if reason := _unfit_reason(named, unit.values, book):
        return replace(noted, verdict=Verdict.FOREIGN, reason=reason)
    return _judge_known(noted, named, judging)


def _likeness(named: Named, book: FlagBook) -> str:
    return book.liken(named) if current_budget().spend_likeness() else ""


def _holds_secret(unit: Unit, what: str, book: FlagBook) -> bool:
    is_key = unit.named is not None and unit.named.flag in find_grammar(book.kind).keys
    return is_key or any(is_secret(what, value) for value in unit.values)


def show_words(words: Sequence[str], book: FlagBook) -> Iterator[str]:
    """The words for a person: whatever would be judged a secret is not among them."""
    for unit in split_units(words, book):
        named = unit.named
        what = (named.flag or named.written).lstrip("-") if named else ""
        if named is None or not unit.values or not _holds_secret(unit, what, book):
            yield hide_secrets(unit.text)
        else:
            sign = "=" if unit.text.startswith(f"{named.written}=") else " "
            is_written = unit.text.startswith(named.written)
            yield f"{hide_secrets(named.written)}{sign}{HIDDEN}" if is_written else HIDDEN


def _lacks_value(named: Named, values: Sequence[str]) -> str:
    option = named.option
    if option is None or option.argument is None or values or option.nargs in _MAY_BE_BARE:
        return ""
    return "no value stands behind it"


def _unfit_reason(named: Named, values: Sequence[str], book: FlagBook) -> str:
    """Why the release would refuse a value; empty where it takes it or may take it."""
    option = named.option
    if option is None or option.argument is None or "." in named.written:
        return ""
    unfit = next((value for value in values if not fits(value, option)), None)
    return "" if unfit is None else f"{book.release} takes no {hide_secrets(unfit)[:60]!r} for it"


def _judge_known(noted: NotedSetting, named: Named, judging: Judging) -> NotedSetting:
    consented = noted.what in judging.consents
    rows = _reserved(judging.book)
    row = _reserved_row(named, rows)
    key = _key_of(named, rows, judging.book)
    if row is not None and not key:
        return replace(noted, verdict=Verdict.FOREIGN, reason=row.reason)
    need = load_note_forms().needs_consent(noted.what, "flag", " ".join(noted.values))
    if key and not consented:
        opened = f"; {need.reason}" if need and not need.flags else ""
        reason = f"a deployment says it as {key}{opened}"
        return replace(noted, verdict=Verdict.ELSEWHERE, key=key, reason=reason)
    if need is not None and not consented:
        return replace(noted, verdict=Verdict.WITHHELD, reason=need.reason, key=key)
    return replace(noted, key=key)


def _stray(unit: Unit, judging: Judging) -> NotedSetting:
    """A word that belongs to no flag."""
    word = unit.values[0]
    shown = hide_secrets(word)[:_MAX_SHOWN_CHARACTERS]
    reason = _unknown_reason((word,)) or "it belongs to no flag"
    verdict = Verdict.UNKNOWN if has_mark(word) else Verdict.FOREIGN
    return NotedSetting(
        name=shown, written=shown, kind="word", verdict=verdict, reason=reason, line=judging.line
    )


def _hide(noted: NotedSetting, key: str) -> NotedSetting:
    instead = f"put it into a file and name that under {key}" if key else "it is not kept"
    return replace(noted, verdict=Verdict.SECRET, values=(), key=key, reason=f"a secret: {instead}")


def _unknown_reason(values: Sequence[str]) -> str:
    """Why values are not known; empty for values that are."""
    for value in values:
        for raw, reason in find_marks(value):
            return f"{hide_secrets(raw)}: {reason}"
        if REPLACEMENT in value:
            return "it holds a character that cannot be seen"
        if len(value) > MAX_VALUE_CHARACTERS:
            return f"it has more than {MAX_VALUE_CHARACTERS} characters"
        if has_mark(value) or not value.replace("\n", "").replace("\t", "").isprintable():
            return "it is no plain text"
    return ""


def _without_earlier(judged: Sequence[NotedSetting], book: FlagBook) -> Iterator[NotedSetting]:
    """All of them; of a flag that is given twice the earlier one is overridden."""
    last: dict[str, int] = {}
    for place, noted in enumerate(judged):
        last[_identity(noted, book)] = place
    for noted in judged:
        later = judged[last[_identity(noted, book)]]
        option = book.resolve(noted.name).option if noted.kind == "flag" else None
        counts = option is not None and (option.repeatable or _is_repeatable(noted.name, book))
        if later is noted or counts or "." in noted.name or noted.kind != "flag":
            yield noted
            continue
        differs = later.values != noted.values
        reason = "given again with another value" if differs else "given again"
        yield replace(
            noted, verdict=Verdict.OVERRIDDEN, reason=f"{reason} behind it; the last one counts"
        )


def _identity(noted: NotedSetting, book: FlagBook) -> str:
    option = book.resolve(noted.name).option if noted.kind == "flag" else None
    return option.names[0] if option and "." not in noted.name else f"{noted.kind} {noted.name}"


def _is_repeatable(name: str, book: FlagBook) -> bool:
    return name in find_grammar(book.kind).repeatable


def _reserved(book: FlagBook) -> tuple[ReservedFlag, ...]:
    return load_engine_table(book.kind).reserved if book.kind in engine_kinds() else ()


def _reserved_row(named: Named | None, rows: Sequence[ReservedFlag]) -> ReservedFlag | None:
    names = named.option.names if named and named.option else ()
    return next((row for row in rows if row.flag in names), None)


def _reserved_key(named: Named, book: FlagBook) -> str:
    row = _reserved_row(named, _reserved(book))
    return row.key if row else ""


def _key_of(named: Named | None, rows: Sequence[ReservedFlag], book: FlagBook) -> str:
    """The deployment's key for a flag, empty for none."""
    row = _reserved_row(named, rows)
    if row is not None:
        return row.key
    grammar = find_grammar(book.kind)
    return _MODEL_KEY if named and named.flag and named.flag == grammar.positional else ""


# Variables.


def _judge_variable(name: str, word: Word, judging: Judging) -> NotedSetting:
    noted = NotedSetting(
        name=hide_secrets(name),
        written=hide_secrets(name),
        kind="env",
        verdict=Verdict.TAKEN,
        values=(word.text,),
        line=judging.line,
        variables=word.variables,
    )
    known = load_variables()
    if is_secret(name, word.text):
        return _hide(noted, f"engine.secret_env.{name}")
    if not _VARIABLE.fullmatch(name):
        reason = "it is no name of a variable"
        return replace(noted, verdict=Verdict.FOREIGN, reason=reason, values=())
    if reason := _unknown_reason((word.text,)):
        return replace(noted, verdict=Verdict.UNKNOWN, reason=reason, values=())
    if name in load_note_forms().gpus.variables:
        reason = f"a deployment says it as {_GPUS_KEY}"
        return replace(noted, verdict=Verdict.ELSEWHERE, key=_GPUS_KEY, reason=reason)
    need = load_note_forms().needs_consent(name, "env", word.text)
    if need is not None and name not in judging.consents:
        return replace(noted, verdict=Verdict.WITHHELD, reason=need.reason)
    if not known.matters(name):
        reason = "no engine and no library under it is known to read it"
        return replace(noted, verdict=Verdict.FOREIGN, reason=reason, values=())
    return replace(noted, reason=_undeclared(name, judging.book))


def _undeclared(name: str, book: FlagBook) -> str:
    """What is to be said of a variable with an engine's prefix that the release does not name."""
    if book.lifetimes is None:
        return ""
    declared = declared_variables(book.kind, book.release)
    prefix = f"{name.partition('_')[0]}_"
    if name in declared or sum(each.startswith(prefix) for each in declared) < _PREFIX_COUNT:
        return ""
    return f"{book.release} declares no such variable"
