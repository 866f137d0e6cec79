"""Two ways to start a server side by side, and what differs between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """One flag of a command line.

    ``name`` is the option's own name, whatever alias was written (``--ctx-size`` for ``-c``);
    ``spelled`` is what was written. ``values`` are the words that belong to it, none for a bare
    flag; ``is_off`` says that a bare one switches off (``--no-jinja``). ``is_known``: whether the
    engine's catalogue has it. ``variable``: the environment variable that it came from, empty for
    the command line. The values may be secret, so no repr shows them.
    """

    name: str
    spelled: str
    values: tuple[str, ...] = field(default=(), repr=False)
    is_off: bool = False
    is_known: bool = True
    variable: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """What one side has under a name.

    ``values`` in their order; empty for a secret, of which ``digest`` is kept instead. ``note``:
    why the value is not known, empty if it is.
    """

    values: tuple[str, ...] = field(default=(), repr=False)
    digest: str = field(default="", repr=False)
    note: str = ""

    @property
    def is_secret(self) -> bool:
        """Whether it must not be shown."""
        return bool(self.digest or self.note)


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One way to start a server, in a shape that can be compared.

    ``title`` names it for a person. ``kind`` is the engine's, empty for one that was not
    recognised; ``program`` what is executed, ``interpreter`` the file of the program that runs it,
    empty for none or unknown. ``flags`` by their own names, ``variables`` by name; ``reasons``
    says for some of these why they are set. ``user`` is None where it is not known.
    ``is_whole``: whether the variables are all that the server gets, as a process knows, or only
    those that were declared.
    """

    title: str
    kind: str
    program: str
    interpreter: str = ""
    flags: Mapping[str, Item] = field(default_factory=dict)
    variables: Mapping[str, Item] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    user: str | None = None
    is_whole: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One name under which two sides have something else.

    ``what``: engine, program, interpreter, user, flag or variable. ``a`` and ``b`` are as they are
    shown, None where a side has nothing under the name; a secret is ``***``. ``note`` says why,
    where that is known.
    """

    what: str
    name: str
    a: str | None
    b: str | None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What differs between two sides.

    ``same_by_default`` are flags that one side writes down and the other leaves at the very same
    default: no differences. ``equal_count``: how many names have the same on both sides. ``notes``
    are sentences about what could not be compared.
    """

    SCHEMA: ClassVar[str] = "diff/1"

    a: str
    b: str
    differences: tuple[Difference, ...] = ()
    same_by_default: tuple[str, ...] = ()
    equal_count: int = 0
    notes: tuple[str, ...] = ()

    @property
    def is_same(self) -> bool:
        """Whether both would serve in the same way."""
        return not self.differences
