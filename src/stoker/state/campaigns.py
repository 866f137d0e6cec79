"""Keeps the searches of `stoker tune`: one document each, written again after every trial.

A search costs hours, so nothing that it learned may be lost: the document is replaced as a whole,
and none is ever removed but by a person.
"""

from __future__ import annotations

import posixpath
import re

from stoker.errors import NotFound, StateError, UsageError
from stoker.model.campaign import Campaign
from stoker.model.layout import campaign_path, campaigns_folder
from stoker.model.plan import Folders
from stoker.ports import Host, ReadableHost
from stoker.state.documents import read_document, write_document

_ID = re.compile(r"t\d{8}-\d{6}-[0-9a-f]{4}")
_SUFFIX = ".json"
_MOST_NAMED = 5


def write_campaign(host: Host, folders: Folders, campaign: Campaign) -> str:
    """Keep a search as it is now, and return the document's path. Raises HostError."""
    if not _ID.fullmatch(campaign.id):
        raise StateError(f"{campaign.id!r} cannot name a search")
    host.make_folder(campaigns_folder(folders), 0o700)
    path = campaign_path(folders, campaign.id)
    write_document(host, path, campaign)
    return path


def list_campaigns(host: ReadableHost, folders: Folders) -> tuple[str, ...]:
    """The ids of all searches, the newest first. Raises HostError."""
    try:
        names = host.list_folder(campaigns_folder(folders))
    except NotFound:
        return ()
    ids = (name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX))
    return tuple(sorted(filter(_ID.fullmatch, ids), reverse=True))


def read_campaign(host: ReadableHost, folders: Folders, wanted: str) -> Campaign:
    """The search with this id, or the only one whose id begins so.

    Raises UsageError where that is none or several, StateError for a damaged document, HostError.
    """
    ids = list_campaigns(host, folders)
    found = [each for each in ids if wanted and each.startswith(wanted)]
    if len(found) != 1:
        known = ", ".join((found or list(ids))[:_MOST_NAMED])
        raise UsageError(
            f"{wanted} is the beginning of {len(found)} searches"
            if found
            else f"there is no search {wanted}",
            f"there are: {known}" if known else "`stoker tune FILE` begins one",
        )
    campaign = read_document(host, campaign_path(folders, found[0]), Campaign)
    if campaign is None or campaign.id != found[0]:
        name = posixpath.basename(campaign_path(folders, found[0]))
        raise StateError(f"{name} in {campaigns_folder(folders)} is not that search")
    return campaign
