"""Running the examples that rules carry.

Called by the tests (and by whoever writes a rule): the examples are the rules' own proof.
"""

from __future__ import annotations

from collections.abc import Mapping

from stoker.errors import DataError
from stoker.knowledge.conditions import evaluate_condition, list_paths
from stoker.knowledge.rules import Example, Rule, status_of
from stoker.knowledge.templates import fill_template, list_placeholders, read_leaf, render_template
from stoker.model.facts import Plain, Unknown
from stoker.model.finding import Status

_NULL = "@null"
#: Parts of the tree where a name that is not there means that nobody has set it.
_UNSET = ("settings.", "env.")


def build_example_tree(facts: Mapping[str, Plain]) -> dict[str, Plain]:
    """The tree of an example: ``{"launch.port": 1}`` becomes ``{"launch": {"port": 1}}``.

    TOML has no null; the text ``@null`` stands for it. Raises DataError where one path goes
    through the value of another.
    """
    tree: dict[str, Plain] = {}
    for path, value in facts.items():
        *parents, last = path.split(".")
        branch = tree
        for parent in parents:
            branch = branch.setdefault(parent, {})
            if not isinstance(branch, dict):
                raise DataError(f"the example's path {path} goes through a value")
        branch[last] = _with_nulls(value)
    return tree


def _with_unset(rule: Rule, facts: Mapping[str, Plain]) -> dict[str, Plain]:
    """The facts, and nothing for each setting and variable that the example does not name."""
    asked = (path for path in list_paths(rule.when) if path.startswith(_UNSET))
    return {**dict.fromkeys(asked), **facts}


def _with_nulls(value: Plain) -> Plain:
    if isinstance(value, Mapping):
        return {key: _with_nulls(item) for key, item in value.items()}
    return None if value == _NULL else value


def check_example(rule: Rule, example: Example) -> str:
    """Why the example does not hold, or an empty text when it does."""
    tree = build_example_tree(_with_unset(rule, example.facts))
    status = status_of(evaluate_condition(rule.when, tree))
    if status is not example.status:
        return f"{rule.id}: expected {example.status}, found {status} for {dict(example.facts)}"
    summary = render_template(rule.summary, tree)
    if example.says and example.says != summary:
        return f"{rule.id}: expected the sentence {example.says!r}, found {summary!r}"
    named = {path: read_leaf(tree, path) for path in list_placeholders(rule.summary)}
    if status is Status.FIRED and any(isinstance(value, Unknown) for value in named.values()):
        return f"{rule.id}: a fired example must give all values of its sentence: {summary!r}"
    chosen = [fill_template(value, tree) for value in (*rule.set.values(), *rule.set_env.values())]
    if status is Status.FIRED and any(isinstance(value, Unknown) for value in chosen):
        return f"{rule.id}: a fired example must give all values that it sets"
    return ""
