"""The single values of a deployment: which words and shapes they may have.

Used by :mod:`stoker.model.deployment` alone, whose parts are made of them. The validators know
words and shapes, never an engine.
"""

from __future__ import annotations

import ipaddress
import math
import re
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticCustomError

NAME_PATTERN = r"^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$"
_HUB_NAME = r"[A-Za-z0-9_][A-Za-z0-9._-]*"
MODEL_PATTERN = (
    rf"^(hf:{_HUB_NAME}/{_HUB_NAME}(@[A-Za-z0-9_][A-Za-z0-9._/-]*)?"
    r"|path:/.+|package:[A-Za-z0-9._-]+(==[A-Za-z0-9._!+-]+)?)$"
)
_SETTING_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.-]*$"
_ENVIRONMENT_NAME_PATTERN = r"^[A-Za-z_][A-Za-z0-9_]*$"

#: Words that make a name look as if its value were a secret, and last words that say it is not:
#: `ssl-key-file` names a file, `return-tokens-as-token-ids` numbers.
_SECRET_WORDS = frozenset(
    {"key", "keys", "token", "secret", "secrets", "password", "passwords", "credentials"}
)
_POINTER_WORDS = frozenset({"file", "files", "path", "paths", "folder", "dir", "id", "ids"})
#: Engines count tokens: in a flag the word is a secret at the end alone, and not behind these.
_COUNTED_WORD = "token"
_COUNTING_WORDS = frozenset({"per", "first"})


def is_secret_name(name: str) -> bool:
    """Whether a flag or variable of this name carries a secret, as far as its words tell."""
    words = [word for word in re.split(r"[^a-z0-9]+", name.lower()) if word]
    found = _SECRET_WORDS.intersection(words)
    if found == {_COUNTED_WORD} and name.islower():
        return words[-1] == _COUNTED_WORD and _COUNTING_WORDS.isdisjoint(words[-2:-1])
    return bool(found) and words[-1] not in _POINTER_WORDS


def refusal(message: str, hint: str = "") -> PydanticCustomError:
    """A validation error in our own words, which :mod:`stoker.spec` passes on unchanged."""
    return PydanticCustomError("refusal", "{message}", {"message": message, "hint": hint})


def matching(pattern: str, message: str) -> Any:
    """A constraint on text. Editors show ``patternErrorMessage``, and so does the parser."""
    return Field(pattern=pattern, json_schema_extra={"patternErrorMessage": message})


def _refuse_secret(name: str) -> None:
    if is_secret_name(name):
        raise refusal(
            f"`{name}` looks as if it carried a secret, and plans, journals and reports show "
            "what stands here",
            "for the server's own key use serve.api_key_file, the path of a file that holds it; "
            "other variables that are secrets belong in engine.secret_env, each with the path of "
            "its file",
        )


def _check_setting_name(name: str) -> str:
    bare, is_pair, value = name.lstrip("-").partition("=")
    if not re.fullmatch(_SETTING_PATTERN, bare):
        raise refusal(f"`{name}` cannot be the name of a flag" if name else "a flag needs a name")
    if is_pair:
        raise refusal(f"`{name}` is a name and a value in one", f"write `{bare}: {value}`")
    if bare != name:
        raise refusal("the name of a flag is written without its dashes", f"write `{bare}`")
    _refuse_secret(name)
    return name


def _check_environment_name(name: str) -> str:
    _refuse_secret(name)
    return name


def check_no_parent(value: str) -> str:
    """A path that does not leave its folder."""
    if ".." in re.split(r"[/@]", value):
        raise refusal("must not climb to a parent folder with `..`")
    return value


def _is_numeric_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def check_numeric_address(value: str) -> str:
    """An address that needs no look-up."""
    if not _is_numeric_address(value):
        has_port = _is_numeric_address(value.rpartition(":")[0].strip("[]"))
        hint = "127.0.0.1 for this machine alone, 0.0.0.0 or :: for every network it is in"
        raise refusal(
            "must be a numeric address", "the port stands in serve.port" if has_port else hint
        )
    return value


def empty_mapping(value: object) -> object:
    """A key without a value: all below it is commented out, which is the same as left out."""
    return {} if value is None else value


def empty_list(value: object) -> object:
    """A key without anything behind it is an empty list."""
    return [] if value is None else value


def _check_setting_value(value: object) -> object:
    """Speak for the whole union of types, which would name each member in an error of its own."""
    items = value if isinstance(value, list) else [value]
    if any(isinstance(item, (list, dict)) for item in items):
        raise refusal(
            "must be text, a number, true, false or a list of these",
            "a flag that takes JSON gets it as text, in quotes",
        )
    if any(isinstance(item, float) and not math.isfinite(item) for item in items):
        raise refusal("must be a finite number")
    if isinstance(value, list) and None in value:
        raise refusal("an item of the list has no value")
    return value


Scalar = bool | int | float | str
SettingName = Annotated[
    str, AfterValidator(_check_setting_name), Field(json_schema_extra={"pattern": _SETTING_PATTERN})
]
SettingValue = Annotated[Scalar | list[Scalar] | None, BeforeValidator(_check_setting_value)]
EnvironmentName = Annotated[
    str,
    matching(_ENVIRONMENT_NAME_PATTERN, "must be letters, digits and underscores, no digit first"),
    AfterValidator(_check_environment_name),
]
SecretName = Annotated[
    str,
    matching(_ENVIRONMENT_NAME_PATTERN, "must be letters, digits and underscores, no digit first"),
]
ModelText = Annotated[
    str,
    matching(MODEL_PATTERN, "must be hf:ORG/NAME, path:/absolute/path or package:NAME"),
    AfterValidator(check_no_parent),
]
KeyFile = Annotated[
    str, matching(r"^/.+$", "must be the absolute path of a file that holds the key, not the key")
]
