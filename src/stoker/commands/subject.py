"""What the contract is tried on: what a deployment promises, and what a server says of itself.

Called before every verification, and where the guard's orders are written. Asks only what any
client may ask; changes nothing.
"""

from __future__ import annotations

from stoker.knowledge.manners import load_manners, read_offers
from stoker.model.contract import Feature, Manners, Offer, Offered, Subject
from stoker.model.facts import Plain
from stoker.model.generation import Generation
from stoker.model.launch import Launch


def promised_subject(generation: Generation) -> Subject:
    """What the settings of a deployment promise, without a question to the server."""
    launch = generation.launch
    known = load_manners().get(launch.engine)
    serve = generation.deployment.get("serve") or {}
    return Subject(
        published_name=launch.published_name,
        manners=known.manners if known else Manners(),
        context_tokens=_whole(serve.get("context_tokens")),
        parallel_requests=_whole(serve.get("parallel_requests")),
        features={
            **(read_offers(known.features, launch.settings) if known else {}),
            Feature.KEY: _offer_key(launch),
        },
    )


def _offer_key(launch: Launch) -> Offered:
    if launch.secrets:
        return Offered(offer=Offer.PROMISED, reason="a key file is set")
    return Offered(offer=Offer.ABSENT, reason="no key is set")


def _whole(value: Plain) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
