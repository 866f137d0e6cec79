"""Finding the server behind a URL: one clear sentence for whatever is there instead.

Called by `stoker verify URL`. The one question that every OpenAI-compatible server answers, its
list of models, tells whether there is one. This module must never send the key anywhere but to
the place that was named.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from stoker.commands.addresses_of import (
    Access,
    Place,
    find_addresses,
    is_open_road,
    reach,
    speaks_tls,
)
from stoker.commands.subject import MODELS_PATH, Listing, parse_listing, told_subject
from stoker.contract.judgement import quote
from stoker.contract.reply import describe_status, find_message
from stoker.errors import EndpointError, StokerError, UsageError
from stoker.model.contract import Exchange, Feature, Offer, Offered, Request, Subject
from stoker.ports import Endpoint

LISTING_SECONDS = 15.0
#: Where it asks to be asked later.
PATIENCE_SECONDS = 60.0
_LISTING = Request(method="GET", path=MODELS_PATH, timeout_seconds=LISTING_SECONDS)

#: Puts limits around an endpoint, given where its name leads; empty for one without a name.
Wrap = Callable[[Endpoint, str], Endpoint]

_IS_IT_RIGHT = "see whether the address and the port are right, and whether a server runs there"
_NO_SERVER = "give the address that clients of the OpenAI interface use, without /v1 at its end"


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A server that answers, what it is, and what an operator should know of the way to it."""

    endpoint: Endpoint
    subject: Subject
    notes: tuple[str, ...] = ()


def find_server(place: Place, access: Access, *, published_name: str, wrap: Wrap) -> Found:
    """The server at a place, its endpoint wrapped.

    ``published_name``: which model is meant; given one, a server without a list of models is
    taken as well. Raises UsageError where no such server is, EndpointError where it is broken.
    """
    addresses = find_addresses(place)
    notes = _warn(place, access, addresses)
    address, bare, reply = reach(place, access, _LISTING, addresses)
    endpoint = wrap(bare, "" if place.is_numeric else address)
    if reply.status == 429:
        reply = endpoint.exchange(replace(_LISTING, timeout_seconds=PATIENCE_SECONDS))
    listing = None if reply.error or reply.status != 200 else parse_listing(reply.body)
    if listing is None:
        if not published_name or not _may_answer(reply):
            raise _explain(place, access, reply, addresses)
        listing = Listing(models=({"id": published_name},))
    subject = told_subject(endpoint, listing, published_name)
    subject = replace(
        subject,
        features={**subject.features, Feature.KEY: _offer_key(access)},
        is_name_declared=bool(published_name),
    )
    return Found(endpoint=endpoint, subject=subject, notes=notes)


def _may_answer(reply: Exchange) -> bool:
    """Whether a server that lists no models may answer a question all the same."""
    is_there = reply.status in (200, 404, 405, 501)
    return is_there and not reply.error and not (_is_page(reply) and reply.status == 200)


def _warn(place: Place, access: Access, addresses: Sequence[str]) -> tuple[str, ...]:
    if access.key is None or not is_open_road(place, addresses):
        return ()
    warning = (
        f"the key is sent to {place.url} unencrypted, over networks that are not yours: "
        "everybody on the way can read it; use https://, or a tunnel"
    )
    return (warning,)


def _offer_key(access: Access) -> Offered:
    """Whoever has a key for a server expects that nobody gets in without."""
    if access.key is None:
        return Offered(offer=Offer.ABSENT, reason="no key was given for it (--key-file)")
    return Offered(offer=Offer.PROMISED, reason="a key was given for it (--key-file)")


# --- what is there instead ---


def _explain(
    place: Place, access: Access, reply: Exchange, addresses: Sequence[str]
) -> StokerError:
    if reply.error:
        return _explain_error(place, access, reply, addresses)
    url, said = place.url, describe_status(reply)
    if 300 <= reply.status < 400:
        return UsageError(
            f"{url} answers {MODELS_PATH} with a redirect ({reply.status}), which is not followed",
            f"give the address that it leads to: curl -sI {url}{MODELS_PATH} shows it",
        )
    if reply.status in (401, 403):
        hint = "is it the right one?" if access.key else "give it in a file: --key-file FILE"
        return UsageError(f"{url} wants an API key: it answers {said}", hint)
    if reply.status == 429:
        return EndpointError("protocol", f"{url} refuses requests: {said}", "try again later")
    if _is_page(reply):
        return UsageError(
            f"{url} answers {MODELS_PATH} with a web page (HTTP {reply.status}): there is no "
            "OpenAI-compatible server",
            _NO_SERVER,
        )
    if reply.status >= 500:
        hint = "it may still be loading its model" if reply.status == 503 else "see its log"
        return EndpointError("protocol", f"{url} answers {MODELS_PATH} with {said}", hint)
    if reply.status == 400 and speaks_tls_instead(place, addresses):
        return _tls_instead(place)
    if reply.status != 200:
        return UsageError(
            f"{url} has no {MODELS_PATH}: it answers {said}",
            f"{_NO_SERVER}; for one without a list of models name the model: --published-name",
        )
    message = find_message(reply.body)
    found = quote(message) if message else "nothing"
    return UsageError(
        f"{url} answers {MODELS_PATH} with no list of models: {found}",
        f"there is another service, or no model in it yet; {_NO_SERVER}",
    )


def _explain_error(
    place: Place, access: Access, reply: Exchange, addresses: Sequence[str]
) -> StokerError:
    url, said = place.url, reply.error
    match reply.error_kind:
        case "refused":
            return UsageError(f"{url} cannot be reached: {said}", _IS_IT_RIGHT)
        case "tls":
            return UsageError(f"{url} cannot be reached: {said}", _tls_hint(place, access, said))
        case "timeout":
            return _explain_silence(url, reply)
    if speaks_tls_instead(place, addresses):
        return _tls_instead(place)
    return EndpointError("protocol", f"{url} sent no usable reply: {said}", _NO_SERVER)


def _explain_silence(url: str, reply: Exchange) -> StokerError:
    if "no connection" in reply.error:
        return UsageError(f"{url} cannot be reached: {reply.error}", _IS_IT_RIGHT)
    did = "began a reply and did not end it" if reply.status else "gave no reply"
    return EndpointError(
        "timeout",
        f"{url} took the connection and {did} within {LISTING_SECONDS:g} s",
        "see whether it hangs or is overloaded: its log, and its processes",
    )


def speaks_tls_instead(place: Place, addresses: Sequence[str]) -> bool:
    """Whether plain HTTP was sent to a server that wants TLS."""
    return place.scheme == "http" and any(speaks_tls(place, each) for each in addresses)


def _tls_instead(place: Place) -> UsageError:
    url = place.url
    return UsageError(f"{url} does not speak plain HTTP but TLS", f"write https{url[4:]}")


def _tls_hint(place: Place, access: Access, said: str) -> str:
    from stoker.endpoints.wire import NO_TLS

    if NO_TLS in said:
        return f"write http{place.url[5:]} if it speaks plain HTTP"
    if "not trusted" not in said:
        return "its TLS does not go together with this machine's"
    if "mismatch" in said or "doesn't match" in said:
        return "call it by the name that its certificate is for"
    if "expired" in said or "not yet valid" in said:
        return "renew its certificate, or set the clock of this machine"
    if access.ca_file:
        return f"{access.ca_file} does not hold the authority that signed it"
    return "if it is yours, give its authority or the certificate itself: --ca-file FILE (PEM)"


def _is_page(reply: Exchange) -> bool:
    begin = reply.body.lstrip()[:200].lower()
    return "html" in reply.media_type or begin.startswith(("<!doctype html", "<html"))
