"""What a deployment sets now, of the things that can be tuned.

Called by :mod:`stoker.knowledge.spaces` and where a configuration goes into a file. Pure. A name is
a flag without dashes, an entry of a flag's JSON object behind a dot, a variable in capitals, or
``draft``, the deployment's own key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from stoker.knowledge.derived.subject import Subject
from stoker.knowledge.space_rows import DRAFT_KEY
from stoker.model.engine_table import parse_entries
from stoker.model.facts import Plain
from stoker.model.launch import Origin, Setting
from stoker.model.tuning import Choice
from stoker.model.units import write_word

#: Fields of ``serve`` that are a flag of most engines, by the ids of the rows of their tables.
_ROOM = ("context_tokens", "parallel_requests")


@dataclass(frozen=True, kw_only=True)
class Present:
    """A deployment as its launch has it. ``tree`` is the description that rules read."""

    subject: Subject
    tree: Mapping[str, Plain]

    @cached_property
    def _by_identity(self) -> Mapping[str, tuple[Setting, ...]]:
        groups: dict[str, tuple[Setting, ...]] = {}
        for setting in self.subject.settings:
            identity = self.subject.table.catalogue.identify(setting.name, setting.kind)
            groups[identity] = (*groups.get(identity, ()), setting)
        return groups

    @cached_property
    def _identities(self) -> dict[str, str]:
        """What was looked up: a catalogue is long, and the same names come again and again."""
        return {}

    def identify(self, name: str) -> str:
        """What a name is about; two spellings of one flag, and its variable, are the same."""
        if name not in self._identities:
            self._identities[name] = self._identify(name)
        return self._identities[name]

    def _identify(self, name: str) -> str:
        catalogue = self.subject.table.catalogue
        if name.isupper():
            return catalogue.identify(name, "env")
        return catalogue.identify(catalogue.spell(split_entry(name)[0]))

    def has(self, name: str) -> bool:
        """Whether the engine of this release has such a flag at all; any variable may be set."""
        catalogue = self.subject.table.catalogue
        return name == DRAFT_KEY or name.isupper() or self._option(name, catalogue) is not None

    def takes(self, name: str, value: Plain) -> bool:
        """Whether this release's flag takes the value, as far as its catalogue tells."""
        catalogue = self.subject.table.catalogue
        option = self._option(name, catalogue)
        if option is None or split_entry(name)[1] or option.argument is None:
            return self.has(name)
        listed = {*option.choices, *option.also}
        is_closed = option.kind in ("choice", "list") or (option.type == "str" and option.choices)
        return not is_closed or not listed or write_word(value) in listed

    def _option(self, name: str, catalogue: Plain) -> Plain:
        return catalogue.find_whole(split_entry(name)[0])

    def settings_of(self, name: str) -> tuple[Setting, ...]:
        """The settings of the launch about a name."""
        return self._by_identity.get(self.identify(name), ())

    def entries_of(self, flag: str) -> Mapping[str, Plain]:
        """The JSON object that a flag is given; empty where it is given none."""
        told = self.settings_of(flag)
        return parse_entries(told[-1].value or "") if told else {}

    def is_set(self, name: str) -> bool:
        """Whether anybody sets it."""
        if name == DRAFT_KEY:
            return self.subject.deployment.draft is not None
        flag, entry = split_entry(name)
        return entry in self.entries_of(flag) if entry else bool(self.settings_of(name))

    def value_of(self, name: str) -> Plain:
        """The value in force, of the engine's own default where nobody sets it."""
        flag, entry = split_entry(name)
        if entry:
            return self.entries_of(flag).get(entry)
        if name.isupper():
            told = self.settings_of(name)
            return told[-1].value if told else None
        return self.tree["settings"].get(name)

    def holds(self, choice: Choice, *, explicitly: bool) -> bool:
        """Whether the deployment has this choice now.

        ``explicitly``: somebody sets each of its values, the engine's default does not count.
        """
        wanted = {**choice.settings, **choice.variables}
        return all(
            self._holds(name, value, explicitly=explicitly) for name, value in wanted.items()
        )

    def _holds(self, name: str, value: Plain, *, explicitly: bool) -> bool:
        if value is None:
            return not self.is_set(name)
        if explicitly and not self.is_set(name):
            return False
        return _is_alike(value, self.value_of(name))

    def is_fixed(self, name: str) -> bool:
        """Whether the deployment file itself says what the value is."""
        deployment = self.subject.deployment
        if name == DRAFT_KEY:
            return False
        identity = self.identify(name)
        if any(self.identify(each) == identity for each in deployment.engine.env):
            return True
        flag, entry = split_entry(name)
        for own, value in deployment.engine.settings.items():
            if self.identify(own) == identity and (
                not entry or "." in own or entry in parse_entries(str(value))
            ):
                return True
        return bool(self.room_key(flag)) and self._is_said(self.room_key(flag))

    def _is_said(self, key: str) -> bool:
        return getattr(self.subject.deployment.serve, key.removeprefix("serve.")) is not None

    def room_key(self, flag: str) -> str:
        """The deployment's own key for a flag (``serve.parallel_requests``); empty without one."""
        rows = self.subject.table.settings
        named = (name for name in _ROOM if name in rows and not rows[name].is_shared)
        identity = self.identify(flag)
        found = (name for name in named if self.identify(rows[name].flag) == identity)
        return next((f"serve.{name}" for name in found), "")

    def is_proposed(self, name: str) -> bool:
        """Whether somebody else than the deployment file would set it."""
        return any(
            each.origin is not Origin.USER or each.instead_of for each in self.settings_of(name)
        )


def split_entry(name: str) -> tuple[str, str]:
    """A flag, and the entry of its JSON object that a name is about; empty for the flag itself."""
    flag, _, entry = name.partition(".")
    return flag, entry


def _is_alike(value: Plain, present: Plain) -> bool:
    """A value of a row against one in force; texts of defaults may say more than the value."""
    if isinstance(value, bool) or isinstance(present, bool):
        return str(value).lower() == str(present).lower()
    told = str(write_word(present)).partition(",")[0]
    number = to_number(value)
    return bool(write_word(value) == told) or (number is not None and number == to_number(told))


def to_number(value: Plain) -> float | None:
    """The number that a value is, or that its text says; None for anything else."""
    try:
        return None if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        return None
