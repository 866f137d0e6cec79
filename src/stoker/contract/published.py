"""What a server says of its model in /v1/models beside the name: how much one request may hold.

Pure and total. The OpenAI interface has no field for it; each engine has its own.
"""

from __future__ import annotations

from stoker.contract.reply import parse_json
from stoker.model.contract import Exchange, Request
from stoker.model.facts import Plain, Unknown, read_path

LIST = Request(method="GET", path="/v1/models")

#: No machine holds so many.
_ABSURD_TOKENS = 1 << 40

#: The fields, best first: SGLang and vLLM (max_model_len), llama.cpp (meta.n_ctx, of each slot; its
#: n_ctx_train is what the model was trained for and says nothing of the server), gateways.
_FIELDS = ("max_model_len", "meta.n_ctx", "context_length", "context_window")


def find_entry(listing: Exchange, name: str) -> Plain | Unknown:
    """The model of this name in the list, else the first; Unknown where there is none."""
    models = read_path(parse_json(listing.body), "data")
    if not isinstance(models, list) or not models:
        return Unknown(reason="no list of models")
    named = [each for each in models if name in _names(each)]
    return named[0] if named else models[0]


def _names(model: Plain) -> list[Plain]:
    aliases = read_path(model, "aliases")
    return [read_path(model, "id"), *(aliases if isinstance(aliases, list) else ())]


def read_context_field(entry: Plain | Unknown) -> tuple[str, Plain]:
    """The field with the context length and its value, as it was sent; an empty name for none."""
    for field in _FIELDS:
        value = read_path(entry, field)
        if value is not None and not isinstance(value, Unknown):
            return field, value
    return "", None


def read_context_tokens(listing: Exchange, name: str) -> int | None:
    """The published context length in tokens, None where there is none that can be one."""
    _, value = read_context_field(find_entry(listing, name))
    return read_count(value)


def read_count(value: Plain | Unknown) -> int | None:
    """A number of tokens, None for what cannot be one."""
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 < value < _ABSURD_TOKENS else None
