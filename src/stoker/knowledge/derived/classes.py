"""Whether the installed release of the engine has the class that the model's files name.

Called by :mod:`stoker.knowledge.describe`. What a release lacks it may still load in another way
(Transformers' own implementation, code of the model's own), so nothing here says that it fails.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from stoker.knowledge.derived.checkpoint import describe_checkpoint
from stoker.knowledge.derived.subject import Subject
from stoker.knowledge.model_classes import ModelClasses, load_model_classes
from stoker.model.facts import Plain, Unknown

_NOTHING: Mapping[str, Plain] = dict.fromkeys(("name", "is_known", "since", "until"))
#: Far more than any config.json lists.
_MOST_CLASSES = 16


def derive_classes(
    subject: Subject, *, checkpoint: Mapping[str, Plain], stack: Mapping[str, Plain]
) -> dict[str, Plain]:
    """``model`` and ``draft``, each with the ``name`` of its class; whether it ``is_known`` to the
    engine's release; ``since`` and ``until`` which release it is there, of those that were read.

    ``missing``: each class that this release lacks, with those that have it: "X (since 1.2)";
    ``foreign``: the model's class where no release has it (one of a draft is None then: engines
    make up the names of drafts). ``first`` and ``last`` are the releases that were read. All of it
    is None or empty for an engine whose classes were not read, and for a model without a class.
    """
    table = load_model_classes(subject.table.kind)
    if table is None:
        ends = dict.fromkeys(("first", "last"))
        return {"model": _NOTHING, "draft": _NOTHING, "missing": [], "foreign": [], **ends}
    model = _judge(table, _read_names(subject, "model", checkpoint), stack)
    draft = _judge(table, _read_names(subject, "draft", _describe_draft(subject)), stack)
    if draft["since"] is None:
        draft["is_known"] = None
    parts = {"": model, " of the draft": draft}
    return {
        "model": model,
        "draft": draft,
        "missing": _gather(list(_find_missing(parts, table)), (model, draft)),
        "foreign": _gather(list(_find_foreign(model)), (model,)),
        "first": table.releases[0],
        "last": table.releases[-1],
    }


def _describe_draft(subject: Subject) -> Mapping[str, Plain]:
    reference = subject.deployment.draft
    if reference is None:
        return {}
    return describe_checkpoint(subject.facts.read("draft"), reference=reference.ref)


def _read_names(
    subject: Subject, probe: str, described: Mapping[str, Plain]
) -> list[str] | Unknown | None:
    """All classes that the model names, since an engine takes the first that it has."""
    first = described.get("class")
    if not isinstance(first, str):
        return first if isinstance(first, Unknown) else None
    listed = subject.facts.read(f"{probe}.config.architectures")
    others = listed[:_MOST_CLASSES] if isinstance(listed, (list, tuple)) else ()
    return list(dict.fromkeys([first, *(each for each in others if isinstance(each, str))]))


def _judge(
    table: ModelClasses, names: list[str] | Unknown | None, stack: Mapping[str, Plain]
) -> dict[str, Plain]:
    if names is None:
        return dict(_NOTHING)
    if isinstance(names, Unknown):
        return dict.fromkeys(_NOTHING, names)
    found = next(filter(None, map(table.find, names)), None)
    return {
        "name": names[0],
        "is_known": _is_known(table, names, stack),
        "since": found.first if found else None,
        "until": found.last if found else None,
    }


def _is_known(
    table: ModelClasses, names: list[str], stack: Mapping[str, Plain]
) -> bool | Unknown | None:
    version, commit = stack.get("version"), stack.get("commit")
    if not isinstance(version, str):
        return version if isinstance(version, Unknown) else None
    told = [table.has_in(name, version) for name in names]
    if any(told):
        return True
    if isinstance(commit, str):
        return Unknown(reason=f"nobody read the model classes of commit {commit}")
    if None in told:
        return Unknown(reason=f"nobody read the model classes of version {version}")
    return False


def _find_missing(parts: Mapping[str, Mapping[str, Plain]], table: ModelClasses) -> Iterator[str]:
    for whose, part in parts.items():
        if part["is_known"] is False and part["since"] is not None:
            until = part["until"]
            is_gone = until != table.releases[-1]
            when = f"{part['since']} to {until}" if is_gone else f"since {part['since']}"
            yield f"{part['name']}{whose} ({when})"


def _find_foreign(part: Mapping[str, Plain]) -> Iterator[str]:
    if part["is_known"] is False and part["since"] is None:
        yield str(part["name"])


def _gather(found: list[str], parts: tuple[Mapping[str, Plain], ...]) -> Plain:
    """What was found; where nothing was and something is not known, the reason."""
    unknown = (part["is_known"] for part in parts if isinstance(part["is_known"], Unknown))
    return found or next(unknown, found)
