"""What the guard knows of the server whose contract it tries, read from its orders."""

from __future__ import annotations

from collections.abc import Mapping

from stoker.errors import UsageError
from stoker.guard.reading import (
    Part,
    read_many,
    read_object,
    read_perhaps,
    read_text,
    read_truth,
    read_whole_number,
)
from stoker.model.contract import Acceptance, Feature, Manners, Offer, Offered, Subject
from stoker.model.facts import Plain


def parse_subject(data: Plain, place: str) -> Subject:
    """The subject that JSON-shaped data holds. Raises UsageError as the other readers do."""
    part = Part(data, place)
    part.take("schema", read_text, Subject.SCHEMA)
    subject = Subject(
        published_name=part.take("published_name", read_text),
        aliases=part.take("aliases", read_many(read_text), ()),
        manners=part.take("manners", _parse_manners, Manners()),
        context_tokens=part.take("context_tokens", read_perhaps(read_whole_number), None),
        parallel_requests=part.take("parallel_requests", read_perhaps(read_whole_number), None),
        kv_tokens=part.take("kv_tokens", read_perhaps(read_whole_number), None),
        features=part.take("features", _parse_features, {}),
        is_name_declared=part.take("is_name_declared", read_truth, True),  # noqa: FBT003
    )
    part.finish()
    return subject


def _parse_manners(data: Plain, place: str) -> Manners:
    part, default = Part(data, place), Manners()
    texts = read_many(read_text)
    manners = Manners(
        engine=part.take("engine", read_text, default.engine),
        title=part.take("title", read_text, default.title),
        answers_any_model=part.take("answers_any_model", read_perhaps(read_truth), None),
        keeps_seed=part.take("keeps_seed", read_perhaps(read_truth), None),
        open_paths=part.take("open_paths", texts, default.open_paths),
        health_paths=part.take("health_paths", texts, default.health_paths),
        metrics_path=part.take("metrics_path", read_text, default.metrics_path),
        running=part.take("running", texts, default.running),
        regex_path=part.take("regex_path", read_text, default.regex_path),
        thinking_off=part.take("thinking_off", read_object, default.thinking_off),
        acceptance=part.take("acceptance", _parse_acceptance, default.acceptance),
        stumbles_on=part.take("stumbles_on", texts, default.stumbles_on),
    )
    part.finish()
    return manners


def _parse_acceptance(data: Plain, place: str) -> Acceptance:
    part = Part(data, place)
    texts = read_many(read_text)
    acceptance = Acceptance(
        accepted=part.take("accepted", texts, ()),
        drafts=part.take("drafts", texts, ()),
        length=part.take("length", texts, ()),
        off=part.take("off", read_object, {}),
    )
    part.finish()
    return acceptance


def _parse_features(data: Plain, place: str) -> Mapping[str, Offered]:
    return {
        _parse_feature(name, place): _parse_offered(each, f"{place}.{name}")
        for name, each in read_object(data, place).items()
    }


def _parse_feature(name: str, place: str) -> Feature:
    try:
        return Feature(name)
    except ValueError as error:
        raise UsageError(f"`{place}.{name}` is no feature that this guard knows") from error


def _parse_offered(data: Plain, place: str) -> Offered:
    part = Part(data, place)
    offer = part.take("offer", read_text)
    reason = part.take("reason", read_text, "")
    part.finish()
    if offer not in list(Offer):
        raise UsageError(f"`{place}.offer` is neither of {', '.join(Offer)}")
    return Offered(offer=Offer(offer), reason=reason)
