"""Rules: what must not be, should not be, or is worth knowing, as data with its own examples.

Called by the plan and diagnose commands. A rule is one block of TOML: a condition, the sentences
for a person, the change that would mend it, where the knowledge comes from, and at least one
example each where it fires and where it is clear. The loader refuses a rule that lacks one of
them. Nothing here looks at a host: a rule sees the tree it is given, and only that.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from stoker.errors import DataError
from stoker.knowledge.conditions import Answer, Condition, evaluate_condition, parse_condition
from stoker.knowledge.datafiles import check_source, list_data, parse_toml, read_text
from stoker.knowledge.structure import structure
from stoker.knowledge.subjects import name_subject
from stoker.knowledge.templates import fill_template, list_placeholders, read_leaf, render_template
from stoker.model.facts import Plain, Unknown
from stoker.model.finding import Finding, Severity, Source, Status

#: At `resolve` rules choose settings, before there is a launch; at the others they find faults.
RESOLVE = "resolve"
STAGES = (RESOLVE, "plan", "diagnose")

_ID = re.compile(r"^[a-z][a-z0-9-]*\.[a-z][a-z0-9-]*$")
_SEVERITY_ORDER = {Severity.BLOCK: 0, Severity.WARNING: 1, Severity.NOTE: 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One case that a rule must judge so: facts by dotted path, the status, maybe the sentence."""

    status: Status
    facts: Mapping[str, Plain] = field(default_factory=dict)
    says: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule. ``applies`` names engine kinds, all where it is empty.

    ``unless`` names rules whose findings make this one's pointless: it says nothing where one of
    them fired, and it is not told as unknown where one of them is. ``change`` maps paths of the
    deployment to new values; ``summary``, ``remedy`` and text values of ``change`` may name paths
    of the tree in braces.

    ``set`` and ``set_env`` are flags (without dashes) and variables that a rule of the resolve
    stage chooses where it fires, unless a higher origin has chosen; their text values may name
    paths too, and a value that is not known chooses nothing. ``summary`` is then the reason of
    the setting, and ``remedy`` says what would happen without it.
    """

    id: str
    title: str
    severity: Severity
    stages: tuple[str, ...]
    when: Condition
    summary: str
    remedy: str
    change: Mapping[str, Plain] = field(default_factory=dict)
    set: Mapping[str, Plain] = field(default_factory=dict)
    set_env: Mapping[str, Plain] = field(default_factory=dict)
    source: Source
    applies: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    example: tuple[Example, ...]


@cache
def load_rules() -> tuple[Rule, ...]:
    """All rules of our data files, by file and place in it. Raises DataError."""
    rules: list[Rule] = []
    for topic in list_data("rules", ".toml"):
        origin = f"rules/{topic}.toml"
        rules.extend(parse_rules(read_text(origin), origin=origin))
    ids = [rule.id for rule in rules]
    if doubled := sorted({rule_id for rule_id in ids if ids.count(rule_id) > 1}):
        raise DataError(f"more than one rule is named {', '.join(doubled)}")
    if lost := sorted({name for rule in rules for name in rule.unless} - set(ids)):
        raise DataError(f"a rule gives way to {', '.join(lost)}, which is none")
    return tuple(rules)


def parse_rules(text: str, *, origin: str) -> tuple[Rule, ...]:
    """The rules of one TOML text; ``origin`` names it in the DataError of a malformed rule."""
    data = parse_toml(text, origin=origin)
    if set(data) != {"rule"} or not isinstance(data["rule"], list):
        raise DataError(f"{origin}: expected [[rule]] blocks and nothing else")
    return tuple(_parse_rule(row, f"{origin}: rule {n + 1}") for n, row in enumerate(data["rule"]))


def evaluate_rules(
    rules: Sequence[Rule],
    tree: Mapping[str, Plain],
    *,
    stage: str,
    accept: Collection[str] = (),
) -> tuple[Finding, ...]:
    """What the rules of a stage say about a tree, gravest first.

    A rule that fired is there unless another one says it better; one that could not be judged is
    only where it would have blocked, and then names what is missing. ``accept`` are rules whose
    risk the owner takes.
    """
    kind = read_leaf(tree, "deployment.engine.kind")
    judged = [
        (rule, _judge(rule, tree, accept=accept))
        for rule in rules
        if stage in rule.stages and (not rule.applies or kind in rule.applies)
    ]
    findings = {rule.id: finding for rule, finding in judged if finding is not None}
    gave_way = {rule.id for rule, finding in judged if finding and _gives_way(rule, findings)}
    told = [finding for name, finding in findings.items() if name not in gave_way]
    return tuple(sorted(told, key=lambda each: (_SEVERITY_ORDER[each.severity], each.rule)))


def status_of(answer: Answer) -> Status:
    """The word for an answer."""
    if answer.truth is None:
        return Status.UNKNOWN
    return Status.FIRED if answer.truth else Status.CLEAR


def _gives_way(rule: Rule, findings: Mapping[str, Finding]) -> bool:
    """Whether another rule says all that is to be said. One that is accepted does not."""
    grave = [findings[name] for name in rule.unless if name in findings]
    is_unknown = findings[rule.id].status is Status.UNKNOWN
    return any(
        (is_unknown or other.status is Status.FIRED) and not other.accepted for other in grave
    )


def _judge(rule: Rule, tree: Mapping[str, Plain], *, accept: Collection[str]) -> Finding | None:
    answer = evaluate_condition(rule.when, tree)
    status = status_of(answer)
    if status is Status.FIRED:
        return _fired(rule, tree, answer, accepted=rule.id in accept)
    if status is Status.UNKNOWN and rule.severity is Severity.BLOCK:
        return _unknown(rule, answer, accepted=rule.id in accept)
    return None


def _fired(rule: Rule, tree: Mapping[str, Plain], answer: Answer, *, accepted: bool) -> Finding:
    change = {path: fill_template(value, tree) for path, value in rule.change.items()}
    told = {path: read_leaf(tree, path) for path in list_placeholders(rule.summary)}
    evidence = {**answer.evidence, **told}
    return Finding(
        rule=rule.id,
        status=Status.FIRED,
        severity=rule.severity,
        summary=render_template(rule.summary, tree),
        remedy=render_template(rule.remedy, tree),
        change=change if not _has_unknown(change) else {},
        evidence={key: value for key, value in evidence.items() if not isinstance(value, Unknown)},
        source=rule.source,
        accepted=accepted,
    )


def _unknown(rule: Rule, answer: Answer, *, accepted: bool) -> Finding:
    reasons = "; ".join(dict.fromkeys(answer.missing.values()))
    return Finding(
        rule=rule.id,
        status=Status.UNKNOWN,
        severity=rule.severity,
        summary=f"cannot tell whether {_inside_sentence(rule.title)}: {reasons}",
        evidence=answer.evidence,
        missing=tuple(dict.fromkeys(name_subject(path) for path in answer.missing)),
        source=rule.source,
        accepted=accepted,
    )


def _inside_sentence(title: str) -> str:
    """Without its capital, unless it begins with a name in capitals (``GPUs``)."""
    return title if title[1:2].isupper() else f"{title[:1].lower()}{title[1:]}"


def _has_unknown(change: Mapping[str, Plain | Unknown]) -> bool:
    return any(isinstance(value, Unknown) for value in change.values())


def _parse_rule(row: Plain, where: str) -> Rule:
    if not isinstance(row, Mapping) or "when" not in row:
        raise DataError(f"{where}: a rule needs a condition under when")
    where = f"{where} ({row.get('id', 'without an id')})"
    condition = parse_condition(row["when"], where=f"{where}.when")
    rule = structure(Rule, {**row, "when": condition}, where=where)
    _check_rule(rule, where)
    return rule


def _check_rule(rule: Rule, where: str) -> None:
    check_source(rule.source, where=where)
    if not _ID.match(rule.id):
        raise DataError(f"{where}: an id is topic.what-is-wrong in lower case")
    if not rule.stages or not frozenset(rule.stages) <= frozenset(STAGES):
        raise DataError(f"{where}: stages are some of {', '.join(STAGES)}")
    if (RESOLVE in rule.stages) != bool(rule.set or rule.set_env):
        raise DataError(f"{where}: rules of the resolve stage set something, and only they do")
    if not rule.summary or not rule.remedy:
        raise DataError(f"{where}: a person needs a summary and a remedy")
    if rule.source.kind == "inferred" and rule.severity is Severity.BLOCK:
        raise DataError(f"{where}: what is only inferred may warn, never block")
    if not {Status.FIRED, Status.CLEAR} <= {example.status for example in rule.example}:
        raise DataError(f"{where}: at least one fired and one clear example are needed")
