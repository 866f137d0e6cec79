"""An engine and a flag of it, as a person reads them."""

from __future__ import annotations

from stoker.model.engine_shown import ShownEngine, ShownFlag

_INDENT = 16


def render_engine(engine: ShownEngine) -> str:
    """What it is, what it stands on, and whose list of its flags counts."""
    lines = [
        f"{engine.engine} {engine.version}",
        _row("environment", engine.environment),
        _row("command", engine.command),
    ]
    lines += [_row(name, part) for name, part in engine.stack.items() if part is not None]
    absent = [name for name, part in engine.stack.items() if part is None]
    lines += [_row(name, f"unknown: {reason}") for name, reason in engine.unknown.items()]
    lines += [_row("not there", ", ".join(absent))] if absent else []
    lines.append(_row("flags", f"{engine.flag_count}, {engine.flags}"))
    lines += [_row("note", note) for note in engine.notes]
    return "\n".join(lines) + "\n"


def render_flag(flag: ShownFlag) -> str:
    """Its names, its values, its default and its releases."""
    option = flag.option
    lines = [f"{flag.name} of {flag.engine} {flag.version}"]
    if option is None:
        lines.append(_row("not there", "this release does not have it"))
    else:
        lines.append(_row("names", ", ".join(option.names)))
        lines.append(_row("takes", option.argument or "nothing"))
        if option.choices:
            words = "one of" if option.kind == "choice" else "known are"
            lines.append(_row("values", f"{words} {', '.join(option.choices)}"))
        lines.append(_row("default", option.default or option.unknown.get("default", "none")))
    spans = [first if first == last else f"{first} to {last}" for first, last in flag.releases]
    lines += [_row("releases", ", ".join(spans))] if spans else []
    lines += [_row("note", words) for words in flag.says]
    lines.append(_row("set to", " ".join(flag.set_to) or "nothing: the engine decides"))
    return "\n".join(lines) + "\n"


def _row(name: str, text: str) -> str:
    return f"  {name:<{_INDENT - 2}}{text}"
