"""What a prediction of memory says, in the words that rules ask for: the names, with no answers.

The prediction stands above the layer of knowledge and is put into the tree by whoever makes a plan
(:mod:`stoker.commands.forecast`). Until then, and where nothing is predicted, all of it is None,
and no rule about it fires.
"""

from __future__ import annotations

from stoker.model.facts import Plain

#: ``is_predicted``; ``room`` for a cache beside the weights and ``held``, whether the pool holds
#: one request of ``wished_tokens`` (each yes, doubtful, unlikely or no); ``is_sure``: the weights
#: alone, at their least, leave too little for it; ``is_wished``: the context was set; ``least_``,
#: ``likely_`` and ``most_tokens`` that one request can have; ``host_cache`` (the same words:
#: whether it fits); what a process may lock.
_NAMES = (
    "is_predicted", "room", "room_line", "held", "is_sure", "is_wished", "wished_tokens",
    "least_tokens", "likely_tokens", "most_tokens", "host_cache", "host_needed_bytes",
    "host_usable_bytes", "host_line", "is_beyond_lock", "lock_needed_bytes", "lock_allowed_bytes",
)  # fmt: skip


def nothing_predicted() -> dict[str, Plain]:
    """Every name, without an answer."""
    return dict.fromkeys(_NAMES)
