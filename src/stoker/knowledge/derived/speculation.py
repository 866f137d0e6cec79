"""How tokens are drafted ahead: what is set, what it needs, and what contradicts it.

Called by :mod:`stoker.knowledge.describe`. Flags and methods of the engines are data
(``data/speculation.toml``); one engine takes all of it as a JSON object, which is read here with
bounds and never trusted.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from stoker.knowledge.derived.checkpoint import describe_checkpoint
from stoker.knowledge.derived.subject import Subject
from stoker.knowledge.speculation import (
    EITHER,
    NEEDED,
    NONE,
    OWN,
    ConfigKeys,
    Method,
    load_speculation,
)
from stoker.model.facts import Plain, Unknown

#: Far longer than any such object that a person writes.
_MOST_CHARACTERS = 20_000
_NOTHING: Mapping[str, Plain] = {
    **dict.fromkeys(("method", "steps", "width", "tokens", "right_tokens", "capacity", "fitting")),
    **dict.fromkeys(("wrong_head", "draft_vocabulary", "draft_context_tokens", "lacking")),
    **dict.fromkeys(("is_on", "has_draft", "lacks_draft", "idle_draft", "is_tree"), False),
    **dict.fromkeys(("is_off_by_one", "is_beyond_tree", "is_incomplete", "could_draft"), False),
    **dict.fromkeys(("is_other_vocabulary", "is_short"), False),
    "problems": [],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is set. ``method`` is the canonical name of a known one, else as it is written.

    ``told`` are the keys of the JSON object, None without one; ``fault`` says why it is none.
    """

    method: str | None = None
    steps: int | None = None
    width: int | None = None
    tokens: int | None = None
    draft: str | None = None
    told: Mapping[str, Plain] | None = None
    fault: str = ""


def derive_speculation(
    subject: Subject, *, checkpoint: Mapping[str, Plain], settings: Mapping[str, Plain]
) -> dict[str, Plain]:
    """What rules ask about drafting.

    ``is_on`` with ``method``; ``steps``, ``width`` and ``tokens`` as they are set. ``has_draft``,
    ``lacks_draft`` (one is needed), ``idle_draft`` (one is given that the method does not use),
    ``wrong_head`` (the method that the draft is made for, where it is another), ``fitting`` (the
    method for the draft of the deployment), ``could_draft`` (the model has layers for it, and
    nothing is set). ``is_tree``: more than one branch; ``is_off_by_one``: a chain whose
    ``right_tokens`` are others; ``is_beyond_tree``: more tokens than the ``capacity`` of the tree;
    ``is_incomplete``: some numbers are given and others that they need are not. ``lacking``: a
    sentence about a method that this release does not have. ``problems``: sentences about the JSON
    object. ``is_other_vocabulary`` and ``is_short`` compare the draft's vocabulary and context.
    """
    engine, release = subject.table.kind, subject.table.catalogue.build
    table = load_speculation()
    flags = table.engine.get(engine)
    if flags is None:
        return dict(_NOTHING)
    methods = table.method[engine]
    wish = read_wish(engine, settings)
    row = methods.get(wish.method or "")
    draft = _describe_draft(subject)
    has_draft = subject.deployment.draft is not None or bool(wish.draft)
    return {
        **_NOTHING,
        "is_on": wish.method is not None,
        "method": wish.method,
        "has_draft": has_draft,
        **_count(wish),
        **_judge_draft(row, checkpoint, has_draft=has_draft),
        **_judge_head(subject, wish, draft),
        **_compare_models(subject, checkpoint, draft),
        "could_draft": _is_able(checkpoint, is_on=wish.method is not None),
        "lacking": _find_lack(wish, row, release),
        "problems": list(
            _find_problems(
                wish,
                row,
                release,
                checkpoint=checkpoint,
                keys=flags.keys,
                tensor=settings.get(flags.tensor),
            )
        ),
    }


def read_wish(engine: str, settings: Mapping[str, Plain]) -> Wish:
    """What the flags say together; what is no number or text says nothing."""
    flags, methods = load_speculation().engine[engine], load_speculation().method[engine]
    told, fault = parse_config(settings.get(flags.config)) if flags.config else (None, "")
    keys = told or {}
    name = _text(settings.get(flags.method)) or _text(keys.get(flags.keys.method))
    draft = _text(settings.get(flags.draft)) or _text(keys.get(flags.keys.draft))
    draft = None if draft in flags.off else draft
    if name is None and told is not None:
        # The engine then concludes the method from the model.
        name = draft if draft in methods else _conclude(draft, engine)
    if name in flags.off:
        name = None
    return Wish(
        method=_canonical(name, methods),
        steps=_number(settings.get(flags.steps)),
        width=_number(settings.get(flags.width)),
        tokens=_number(settings.get(flags.tokens)) or _number(keys.get(flags.keys.tokens)),
        draft=None if draft in methods else draft,
        told=told,
        fault=fault,
    )


def parse_config(value: Plain) -> tuple[Mapping[str, Plain] | None, str]:
    """The keys of a JSON object, underscores for dashes; or None and why it is none."""
    if value is None:
        return None, ""
    if not isinstance(value, str) or len(value) > _MOST_CHARACTERS:
        return None, "is not a JSON object"
    try:
        data = json.loads(value)
    except (ValueError, RecursionError):
        return None, "is not JSON"
    if not isinstance(data, dict):
        return None, "is not a JSON object"
    return {key.replace("-", "_"): item for key, item in data.items()}, ""


def _conclude(draft: str | None, engine: str) -> str | None:
    """The method that a draft's name stands for; else it is a model like any other."""
    if draft is None:
        return None
    return _find_head(draft.lower().replace("_", "-"), engine) or _plain_method(engine)


def _canonical(name: str | None, methods: Mapping[str, Method]) -> str | None:
    """The one name of a method; engines take it in any case of letters that they list."""
    if name is None:
        return None
    known = next((each for each in (name, name.upper(), name.lower()) if each in methods), name)
    return methods[known].same or known if known in methods else name


def _count(wish: Wish) -> dict[str, Plain]:
    """The numbers against each other; an engine without widths has nothing to compare."""
    steps, width, tokens = wish.steps, wish.width, wish.tokens
    said: dict[str, Plain] = {"steps": steps, "width": width, "tokens": tokens}
    given = [each is not None for each in (steps, width, tokens)]
    said["is_incomplete"] = wish.told is None and any(given[:2]) and not all(given)
    if steps is None or width is None:
        return said
    said["is_tree"] = width > 1
    said["right_tokens"] = steps + 1 if width == 1 else None
    said["is_off_by_one"] = width == 1 and tokens is not None and tokens != steps + 1
    said["capacity"] = 1 + width + (steps - 1) * width * width
    said["is_beyond_tree"] = width > 1 and tokens is not None and tokens > said["capacity"]
    return said


def _judge_draft(
    row: Method | None, checkpoint: Mapping[str, Plain], *, has_draft: bool
) -> dict[str, Plain]:
    """Whether who is to draft is there."""
    if row is None:
        return {}
    layers = checkpoint.get("draft_layers")
    lacks: Plain = False
    if row.draft == NEEDED:
        lacks = not has_draft
    elif row.draft in (OWN, EITHER) and not has_draft:
        lacks = layers if isinstance(layers, Unknown) else not layers
    return {"lacks_draft": lacks, "idle_draft": has_draft and row.draft == NONE}


def _judge_head(subject: Subject, wish: Wish, draft: Mapping[str, Plain]) -> dict[str, Plain]:
    """What the draft says it is made for, against the method that is set."""
    told = [wish.draft or "", _text(draft.get("class")) or ""]
    names = draft.get("names")
    told += [str(name) for name in names] if isinstance(names, list) else []
    text = " ".join(told).lower().replace("_", "-")
    engine = subject.table.kind
    made_for = _find_head(text, engine)
    methods = load_speculation().method[engine]
    canonical = _canonical(made_for, methods)
    is_wrong = made_for and wish.method in methods and wish.method != canonical
    fallback = _plain_method(engine) if subject.deployment.draft is not None else None
    return {"wrong_head": made_for if is_wrong else None, "fitting": made_for or fallback}


def _plain_method(engine: str) -> str | None:
    """The method for a draft that is a model like any other."""
    methods = load_speculation().method[engine]
    return next((name for name, method in methods.items() if method.is_plain), None)


def _find_head(text: str, engine: str) -> str | None:
    heads = load_speculation().head
    found = (head for head in heads if engine in head.methods and re.search(head.pattern, text))
    head = next(found, None)
    return head.methods[engine] if head else None


def _describe_draft(subject: Subject) -> Mapping[str, Plain]:
    reference = subject.deployment.draft
    if reference is None:
        return {}
    return describe_checkpoint(subject.facts.read("draft"), reference=reference.ref)


def _compare_models(
    subject: Subject, checkpoint: Mapping[str, Plain], draft: Mapping[str, Plain]
) -> dict[str, Plain]:
    """The draft's words and context against the model's; nothing without a draft."""
    if not draft:
        return {}
    words, own_words = draft.get("vocabulary"), checkpoint.get("vocabulary")
    context, own = draft.get("context_tokens"), subject.deployment.serve.context_tokens
    served = own if own is not None else checkpoint.get("context_tokens")
    return {
        "draft_vocabulary": words,
        "draft_context_tokens": context,
        "is_other_vocabulary": _test(words, own_words, operator.ne),
        "is_short": _test(context, served, operator.lt),
    }


def _test(left: Plain, right: Plain, holds: Callable[[int, int], bool]) -> bool | Unknown:
    """A comparison of two counts; unknown with one of them, and untrue of what is no count."""
    for value in (left, right):
        if isinstance(value, Unknown):
            return value
    return isinstance(left, int) and isinstance(right, int) and holds(left, right)


def _is_able(checkpoint: Mapping[str, Plain], *, is_on: bool) -> bool | Unknown:
    layers: Plain | Unknown = checkpoint.get("draft_layers")
    if is_on:
        return False
    return layers if isinstance(layers, Unknown) else bool(layers)


def _find_lack(wish: Wish, row: Method | None, release: str) -> str | None:
    """Why a method cannot be had in this release."""
    if wish.method is None:
        return None
    if row is None:
        return f"{wish.method} is none of its ways to draft"
    if not row.span.holds(release):
        return f"{wish.method} {row.span.explain(release)}"
    if not row.runs_in(release):
        return f"{wish.method} is a name in {release} that it cannot run; {row.works} can"
    return None


def _find_problems(
    wish: Wish,
    row: Method | None,
    release: str,
    *,
    checkpoint: Mapping[str, Plain],
    keys: ConfigKeys,
    tensor: Plain,
) -> Iterator[str]:
    """What is wrong with the JSON object."""
    if wish.fault:
        yield f"it {wish.fault}"
    if wish.told is None:
        return
    known = load_speculation().key
    for key in wish.told:
        span = known.get(key)
        if span is None:
            yield f"there is no key {key[:60]}"
        elif not span.holds(release):
            yield f"the key {key} {span.explain(release)}"
    yield from _find_bad_numbers(wish, row, checkpoint, keys=keys)
    ranks = wish.told.get(keys.ranks)
    if ranks is not None and ranks not in (1, tensor):
        yield f"{keys.ranks} is {ranks}, and must be 1 or the model's own"


def _find_bad_numbers(
    wish: Wish, row: Method | None, checkpoint: Mapping[str, Plain], *, keys: ConfigKeys
) -> Iterator[str]:
    told = wish.told or {}
    written = told.get(keys.tokens)
    if written is not None and _number(written) is None:
        yield f"{keys.tokens} is {written!r:.20}, and must be a number above zero"
    alone = row is not None and row.draft in (NONE, OWN) and not row.is_free
    if alone and wish.tokens is None and written is None:
        yield f"{wish.method} needs {keys.tokens}"
    layers, tokens = _number(checkpoint.get("draft_layers")), wish.tokens
    is_own = row is not None and row.draft == OWN
    if is_own and tokens and layers and tokens > layers and tokens % layers:
        yield f"{keys.tokens} is {tokens}, no multiple of the {layers} draft layers"
    most, least = (_number(told.get(key)) for key in (keys.longest, keys.shortest))
    if most is not None and least is not None and least > most:
        yield f"{keys.shortest} is {least}, more than {keys.longest} {most}"


def _text(value: Plain) -> str | None:
    return value if isinstance(value, str) and value else None


def _number(value: Plain) -> int | None:
    is_number = isinstance(value, int) and not isinstance(value, bool) and value > 0
    return value if is_number else None
