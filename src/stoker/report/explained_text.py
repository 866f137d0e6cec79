"""Why each setting has its value, as a person reads it."""

from __future__ import annotations

from stoker.model.explanation import Explained, Explanation, RuleAnswer
from stoker.model.finding import Status
from stoker.model.launch import Setting

_MOST_CHOICES = 30


def render_explained(explained: Explained) -> str:
    """All explanations; rules that did not choose are told where one flag alone was asked for."""
    lines = [f"{explained.name}: {explained.engine} {explained.build}", ""]
    is_alone = len(explained.explanations) == 1
    for explanation in explained.explanations:
        lines += _explanation(explanation, is_alone=is_alone)
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _explanation(explanation: Explanation, *, is_alone: bool) -> list[str]:
    setting = explanation.setting
    if setting is None:
        lines = [f"{_name(explanation)}: not set"]
    else:
        value = "" if setting.value is None else f" {_value(setting)}"
        lines = [f"{_name(explanation)}{value}"]
        lines.append(f"    chosen by {setting.chosen_by}: {setting.reason}")
        lines += _source(explanation, setting)
        lines += [_other(setting, other) for other in setting.instead_of]
    without = explanation.without.removeprefix("without it ").removeprefix(", ")
    lines.append(f"    {'without it' if setting else 'so'}: {without}")
    if is_alone:
        lines += _about_the_flag(explanation)
        lines += [line for answer in explanation.rules for line in _rule(answer)]
    return lines


def _other(setting: Setting, other: Setting) -> str:
    """Whom the chosen one goes before; somebody who says the same is one reason more."""
    if (other.value, other.more) == (setting.value, setting.more):
        return f"    as {other.chosen_by} says: {other.reason}"
    return f"    instead of {_value(other)} of {other.chosen_by}: {other.reason}"


def _source(explanation: Explanation, setting: Setting) -> list[str]:
    source = setting.source
    if source is None:
        return []
    parts = [f"{source.kind}, {source.where}", source.version]
    if explanation.age_days is not None and source.date:
        days = explanation.age_days
        ago = "today" if days == 0 else f"{days} {'day' if days == 1 else 'days'} ago"
        parts.append(f"{source.date}, {ago}")
    return [f"    source: {', '.join(part for part in parts if part)}"]


def _about_the_flag(explanation: Explanation) -> list[str]:
    lines = []
    if explanation.choices:
        shown = explanation.choices[:_MOST_CHOICES]
        rest = len(explanation.choices) - len(shown)
        more = f" and {rest} more" if rest else ""
        lines.append(f"    values: {', '.join(shown)}{more}")
    if explanation.since:
        lines.append(f"    known releases with it: {explanation.since} to {explanation.until}")
    return lines


def _rule(answer: RuleAnswer) -> list[str]:
    value = answer.value or "it"
    said = {
        Status.FIRED: f"chooses {value}",
        Status.CLEAR: "does not choose here",
        Status.UNKNOWN: "cannot tell",
    }[answer.status]
    lines = [f"    rule {answer.rule} {said}: {answer.title}"]
    lines += [f"        needs {missing}" for missing in answer.missing]
    if answer.status is not Status.UNKNOWN:
        lines += [f"        {path}: {value}" for path, value in answer.evidence.items()]
    return lines


def _name(explanation: Explanation) -> str:
    if explanation.kind == "positional":
        return "(first word)"
    return f"${explanation.name}" if explanation.kind == "env" else explanation.name


def _value(setting: Setting) -> str:
    return "the bare flag" if setting.value is None else " ".join((setting.value, *setting.more))
