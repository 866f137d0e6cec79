"""What another release of its engine would mean for a deployment, and names that were mended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeItem:
    """One flag or variable that differs between the two releases.

    ``kind``: removed, renamed, shortened (the beginning of a flag), shape (other words behind it),
    value (what the deployment sets is taken no more), chosen (Stoker sets it otherwise there),
    deprecated or default. ``before`` and ``after`` are values or defaults, None for none.
    ``instead`` is the new name, without dashes, empty where none is certain. ``breaks``: with this
    file as it is, the engine would refuse to start or would no longer do what the file asks for.
    """

    name: str
    kind: str
    says: str
    before: str | None = None
    after: str | None = None
    instead: str = ""
    breaks: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgrade:
    """All differences that concern one deployment file.

    ``known_from`` and ``known_to`` are the builds whose flags were compared, for a version that
    is not known the nearest one. ``defaults``: flags and variables that the deployment leaves to
    the engine and that have another default there.
    """

    SCHEMA: ClassVar[str] = "upgrade/1"

    file: str
    engine: str
    version_from: str
    version_to: str
    known_from: str
    known_to: str
    items: tuple[UpgradeItem, ...]
    defaults: tuple[UpgradeItem, ...]
    notes: tuple[str, ...] = ()

    @property
    def breaks(self) -> bool:
        """Whether anything would not work as it does now."""
        return any(item.breaks for item in self.items)


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedFlags:
    """Flags of a deployment file that got the names of a release.

    ``renamed`` are pairs of old and new names; ``left`` is what was found and cannot be mended
    by a new name. ``is_written`` is false where nothing was to be done, or only a look was wanted.
    """

    SCHEMA: ClassVar[str] = "fixed-flags/1"

    file: str
    engine: str
    version: str
    renamed: tuple[tuple[str, ...], ...]
    left: tuple[str, ...]
    is_written: bool
