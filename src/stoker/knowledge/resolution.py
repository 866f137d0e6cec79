"""Which settings our own rules choose for a deployment, each with its reason and source.

Called where a deployment is resolved. Pure: a tree and rules in, settings out; who wins against
whom is the order of :class:`stoker.model.launch.Origin`, which the engine's adapter heeds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from stoker.knowledge.conditions import evaluate_condition
from stoker.knowledge.rules import RESOLVE, Rule, evaluate_rules, status_of
from stoker.knowledge.templates import fill_template, read_leaf
from stoker.model.engine_table import FlagCatalogue
from stoker.model.explanation import RuleAnswer
from stoker.model.facts import Plain, Unknown
from stoker.model.finding import Finding, Status
from stoker.model.launch import Origin, Setting
from stoker.model.units import write_word

#: What was measured goes before what a text says, and that before what we conclude.
_TRUST = {kind: rank for rank, kind in enumerate(("observed", "documented", "inferred"))}


def propose_settings(
    rules: Sequence[Rule], tree: Mapping[str, Plain], catalogue: FlagCatalogue
) -> tuple[Setting, ...]:
    """What the rules of the resolve stage choose, of two about one flag the better founded first.

    A flag that the catalogue does not have is never proposed: a rule may be older or newer than
    the engine.
    """
    by_id = {rule.id: rule for rule in rules}
    findings = evaluate_rules(rules, tree, stage=RESOLVE)
    fired = [each for each in findings if each.status is Status.FIRED]
    fired.sort(key=lambda each: (_TRUST[each.source.kind], each.rule))
    return tuple(
        setting
        for finding in fired
        for setting in _settings_of(by_id[finding.rule], finding, tree, catalogue)
    )


def explain_rules(
    rules: Sequence[Rule],
    tree: Mapping[str, Plain],
    catalogue: FlagCatalogue,
    *,
    name: str,
    kind: str = "flag",
) -> tuple[RuleAnswer, ...]:
    """What every rule that may choose one flag or variable says here, also those that do not."""
    engine = read_leaf(tree, "deployment.engine.kind")
    wanted = catalogue.identify(name, kind)
    answers: list[RuleAnswer] = []
    for rule in rules:
        chosen = {**dict.fromkeys(rule.set, "flag"), **dict.fromkeys(rule.set_env, "env")}
        named = [each for each, its in chosen.items() if catalogue.identify(each, its) == wanted]
        if named and (not rule.applies or engine in rule.applies):
            value = {**rule.set, **rule.set_env}[named[0]]
            answers.append(_answer(rule, tree, fill_template(value, tree)))
    return tuple(answers)


def _answer(rule: Rule, tree: Mapping[str, Plain], value: Plain | Unknown) -> RuleAnswer:
    answer = evaluate_condition(rule.when, tree)
    word = None if isinstance(value, Unknown) else write_word(value)
    return RuleAnswer(
        rule=rule.id,
        title=rule.title,
        value=word,
        status=status_of(answer),
        missing=tuple(f"{path}: {reason}" for path, reason in answer.missing.items()),
        evidence=answer.evidence,
    )


def _settings_of(
    rule: Rule, finding: Finding, tree: Mapping[str, Plain], catalogue: FlagCatalogue
) -> Iterator[Setting]:
    for name, value in rule.set.items():
        if catalogue.find(name) is not None:
            yield from _make(catalogue.spell(name), fill_template(value, tree), finding, "flag")
    for name, value in rule.set_env.items():
        yield from _make(name, fill_template(value, tree), finding, "env")


def _make(name: str, value: Plain | Unknown, finding: Finding, kind: str) -> Iterator[Setting]:
    """One setting; none for a value that is not known, or is a no."""
    if isinstance(value, Unknown) or value is None or value is False:
        return
    words = [write_word(item) for item in (value if isinstance(value, list) else [value])]
    yield Setting(
        name=name,
        value=words[0] if words else None,
        more=tuple(word for word in words[1:] if word is not None),
        kind=kind,
        origin=Origin.RULE,
        reason=finding.summary,
        source=finding.source,
        rule=finding.rule,
    )
