"""What another release would mean for a deployment, as a person reads it."""

from __future__ import annotations

from collections.abc import Iterable

from stoker.model.upgrade import FixedFlags, Upgrade, UpgradeItem

_MOST_DEFAULTS = 15


def render_upgrade(upgrade: Upgrade, *, shows_all: bool = False) -> str:
    """What breaks first, then what changes by itself, then the defaults that the file relies on."""
    title = f"{upgrade.engine} {upgrade.version_from} -> {upgrade.version_to}, for {upgrade.file}"
    lines = [title, *(f"  note: {note}" for note in upgrade.notes), ""]
    breaking = [item for item in upgrade.items if item.breaks]
    others = [item for item in upgrade.items if not item.breaks]
    lines += _section("Would not work as it does now:", breaking)
    lines += _section("Changes by itself, or soon:", others)
    if not breaking:
        lines.append("Nothing that this file sets stops working.")
    elif any(item.instead for item in breaking):
        to = upgrade.version_to
        lines.append(f"New names: stoker engine fix-flags {upgrade.file} --to {to}")
    lines += _defaults(upgrade, shows_all=shows_all)
    return "\n".join(lines) + "\n"


def _section(title: str, items: Iterable[UpgradeItem]) -> list[str]:
    told = [f"  {item.kind}: {item.says}" for item in items]
    return [title, *told, ""] if told else []


def _defaults(upgrade: Upgrade, *, shows_all: bool) -> list[str]:
    if not upgrade.defaults:
        return ["No default that the file relies on differs."]
    count = len(upgrade.defaults)
    shown = upgrade.defaults if shows_all else upgrade.defaults[:_MOST_DEFAULTS]
    lines = [f"Defaults that differ and that the file leaves to the engine ({count}):"]
    lines += [f"  {item.says}" for item in shown]
    return lines if len(shown) == count else [*lines, f"  and {count - len(shown)} more: --all"]


def render_fixed(fixed: FixedFlags) -> str:
    """Which flags got new names, and which could not."""
    lines = [f"  {old} -> {new}" for old, new in fixed.renamed]
    if lines:
        done = "Wrote" if fixed.is_written else "Would write"
        lines.insert(0, f"{done} the names of {fixed.engine} {fixed.version} to {fixed.file}:")
    else:
        lines.append(f"No flag has another name in {fixed.engine} {fixed.version}.")
    lines += [f"  left as it is: {words}" for words in fixed.left]
    return "\n".join(lines) + "\n"
