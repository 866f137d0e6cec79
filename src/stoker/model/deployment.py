"""The deployment: what a person declares for one served model.

The one pydantic model of the project, because it alone needs errors with positions and a JSON
Schema for editors. Unknown keys are errors. The field descriptions are what `stoker schema`
prints, what an editor shows and what the comments of a new file say; the validators here know
words and shapes, never an engine. Made by :mod:`stoker.spec`; read by everyone; it must never
look at the world.
"""

from __future__ import annotations

import ipaddress
import math
import re
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    model_validator,
)
from pydantic_core import PydanticCustomError

from stoker.model.contract import CONTRACT_TIMEOUT_SECONDS

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


def _text(pattern: str, message: str) -> Any:
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


def _check_no_parent(value: str) -> str:
    if ".." in re.split(r"[/@]", value):
        raise refusal("must not climb to a parent folder with `..`")
    return value


def _is_numeric_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _check_numeric_address(value: str) -> str:
    if not _is_numeric_address(value):
        has_port = _is_numeric_address(value.rpartition(":")[0].strip("[]"))
        hint = "127.0.0.1 for this machine alone, 0.0.0.0 or :: for every network it is in"
        raise refusal(
            "must be a numeric address", "the port stands in serve.port" if has_port else hint
        )
    return value


def _empty_mapping(value: object) -> object:
    """A key without a value: all below it is commented out, which is the same as left out."""
    return {} if value is None else value


def _empty_list(value: object) -> object:
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
    _text(_ENVIRONMENT_NAME_PATTERN, "must be letters, digits and underscores, no digit first"),
    AfterValidator(_check_environment_name),
]
SecretName = Annotated[
    str,
    _text(_ENVIRONMENT_NAME_PATTERN, "must be letters, digits and underscores, no digit first"),
]
ModelText = Annotated[
    str,
    _text(MODEL_PATTERN, "must be hf:ORG/NAME, path:/absolute/path or package:NAME"),
    AfterValidator(_check_no_parent),
]
KeyFile = Annotated[
    str, _text(r"^/.+$", "must be the absolute path of a file that holds the key, not the key")
]


class Part(BaseModel):
    """A part of the file: frozen, and strict about keys and types."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class ModelReference(Part):
    """Which weights, and where they come from."""

    ref: ModelText = Field(
        description="hf:ORG/NAME@REVISION, path:/absolute/path or package:NAME[==VERSION]"
    )
    file: (
        Annotated[
            str,
            _text(r"^[^/\x00][^\x00]*$", "must be a path inside the model, which has no / first"),
            AfterValidator(_check_no_parent),
        ]
        | None
    ) = Field(
        default=None,
        description="The file inside the repository, folder or package, where there are several",
    )


def _as_reference(value: object) -> object:
    return {"ref": value} if isinstance(value, str) else value


Reference = Annotated[
    ModelReference,
    BeforeValidator(_as_reference, json_schema_input_type=ModelText | ModelReference),
]


class Engine(Part):
    """Which engine serves the model, and what is set explicitly."""

    kind: str = Field(min_length=1, description="The engine that computes the answers")
    environment: Annotated[
        str,
        _text(r"^(embedded|system|path:/.+)$", "must be embedded, system or path:/absolute/path"),
    ] = Field(
        default="embedded",
        description="embedded: the pinned build that Stoker installs apart; "
        "system: the engine's command on the PATH; path:/...: an executable, or a virtual "
        "environment that has the engine",
    )
    settings: Annotated[
        dict[SettingName, SettingValue],
        BeforeValidator(
            _empty_mapping, json_schema_input_type=dict[SettingName, SettingValue] | None
        ),
    ] = Field(
        default_factory=dict,
        description="Engine flags without their dashes, as the engine names them; these win over "
        "defaults. true: the bare flag, false: leave it out",
    )
    env: Annotated[
        dict[EnvironmentName, str],
        BeforeValidator(_empty_mapping, json_schema_input_type=dict[EnvironmentName, str] | None),
    ] = Field(
        default_factory=dict, description="Environment variables of the engine; no secrets here"
    )
    secret_env: Annotated[
        dict[SecretName, KeyFile],
        BeforeValidator(_empty_mapping, json_schema_input_type=dict[SecretName, KeyFile] | None),
    ] = Field(
        default_factory=dict,
        description="Environment variables whose values are secrets: for each the file that holds "
        "it, one line, readable by its owner only",
        examples=[{"HF_TOKEN": "/etc/stoker/hf-token"}],
    )

    @model_validator(mode="after")
    def _says_each_variable_once(self) -> Engine:
        for name in self.secret_env:
            if name in self.env:
                raise refusal(f"{name} stands in `env` and in `secret_env`", "remove one of them")
        return self


class Serve(Part):
    """Where and under which name the model is published."""

    host: Annotated[str, AfterValidator(_check_numeric_address)] = Field(
        default="127.0.0.1", description="Numeric address to listen on"
    )
    port: int = Field(default=30000, ge=1, le=65535, description="Port to listen on")
    published_name: (
        Annotated[str, _text(r"^[^\s,\x00]+$", "must not contain blanks or commas")] | None
    ) = Field(
        default=None,
        min_length=1,
        max_length=200,
        description="The model's name in /v1/models; the deployment's name if left out",
        examples=["my-model"],
    )
    api_key_file: KeyFile | None = Field(
        default=None,
        description="A file with the API key, one line, readable by its owner only; "
        "without one, everybody who reaches the port may use the model",
        examples=["/etc/stoker/api-key"],
    )
    context_tokens: int | None = Field(
        default=None,
        ge=16,
        description="Longest request, prompt and answer together, in tokens",
        examples=[8192],
    )
    parallel_requests: int | None = Field(
        default=None,
        ge=1,
        le=4096,
        description="How many requests are answered at once",
        examples=[4],
    )


Promise = Literal[
    "tools",
    "reasoning",
    "thinking_switch",
    "structured_output",
    "regex",
    "speculation",
    "prefix_cache",
    "host_cache",
    "vision",
]
Api = Literal["completions", "responses", "messages"]


class Contract(Part):
    """Which promises must hold before the server counts as ready."""

    require: list[str] | None = Field(
        default=None,
        min_length=1,
        description="Names of checks (`stoker verify --list`); all checks of the level if left out",
        examples=[["NAME"]],
    )
    promises: Annotated[
        list[Promise], BeforeValidator(_empty_list, json_schema_input_type=list[Promise] | None)
    ] = Field(
        default_factory=list,
        description="What must work beside plain answers; what the engine's settings already "
        "tell need not be named",
        examples=[["tools", "structured_output"]],
    )
    apis: Annotated[
        list[Api], BeforeValidator(_empty_list, json_schema_input_type=list[Api] | None)
    ] = Field(
        default_factory=list,
        description="Interfaces beside chat that clients use, as paths below /v1",
        examples=[["completions"]],
    )
    timeout_seconds: int = Field(
        default=CONTRACT_TIMEOUT_SECONDS, ge=1, le=86400, description="For all quick checks at once"
    )


class Goal(Part):
    """A numeric target on a measurement: at most, or at least, so much."""

    metric: str = Field(
        min_length=1, description="For example ttft_p95_seconds or output_tokens_per_second"
    )
    at_most: float | None = Field(default=None, description="The goal is missed above this")
    at_least: float | None = Field(default=None, description="The goal is missed below this")

    @model_validator(mode="after")
    def _has_one_bound(self) -> Goal:
        if self.at_most is None and self.at_least is None:
            raise refusal("a goal needs `at_most` or `at_least`")
        if self.at_most is not None and self.at_least is not None:
            raise refusal(
                "a goal has `at_most` or `at_least`, not both", "write two goals for a range"
            )
        return self


class ServiceOptions(Part):
    """How the server runs as a service."""

    user: (
        Annotated[
            str, _text(r"^[a-z_][a-z0-9_-]{0,31}$", "must be the name of a user of this machine")
        ]
        | None
    ) = Field(
        default=None,
        description="The user it runs as; if left out, an unprivileged one when Stoker is root, "
        "else the user who applies",
        examples=["stoker"],
    )
    supervisor: Literal["auto", "supervisord", "systemd"] = Field(
        default="auto",
        description="What keeps the server running; auto: systemd where it starts services with "
        "the machine, for root and for users who linger (loginctl enable-linger), else "
        "supervisord, which Stoker brings along",
    )
    on_boot: bool = Field(default=True, description="Start when the machine starts")
    restart: Literal["on-failure", "always", "never"] = Field(
        default="on-failure", description="When to start it again: on-failure, always or never"
    )
    start_timeout_seconds: int | None = Field(
        default=None,
        ge=1,
        le=86400,
        description="For how long new lines in the log alone count as progress of a start; after "
        "that only what cannot be idle talk does (bytes read, percentages that rise, new phases)",
        examples=[900],
    )
    stall_timeout_seconds: int | None = Field(
        default=None,
        ge=1,
        le=86400,
        description="A start that makes no progress for so long is stuck, and is ended",
        examples=[600],
    )


def _gpus_shape(value: object) -> str | None:
    """Which of its three forms the value of ``gpus`` has, so that errors speak of that one."""
    if value in ("all", "none"):
        return "word"
    if isinstance(value, int) and not isinstance(value, bool):
        return "count"
    return "list" if isinstance(value, list) else None


def _check_gpu(value: object) -> object:
    is_index = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    # Digits alone are an index in quotes, which no machine has as a UUID.
    is_uuid = isinstance(value, str) and re.fullmatch(r"[^\s,]+", value) and not value.isdigit()
    if not (is_index or is_uuid):
        raise refusal("a GPU is named by its index, a whole number without quotes, or by its UUID")
    return value


def _check_gpus_differ(value: list[int | str]) -> list[int | str]:
    for position, item in enumerate(value):
        if item in value[:position]:
            raise refusal(f"names the GPU {item} twice")
    return value


Gpus = Annotated[
    Annotated[Literal["all", "none"], Tag("word")]
    | Annotated[int, Field(ge=1), Tag("count")]
    | Annotated[
        list[Annotated[int | str, BeforeValidator(_check_gpu)]],
        Field(min_length=1),
        AfterValidator(_check_gpus_differ),
        Tag("list"),
    ],
    Discriminator(
        _gpus_shape,
        custom_error_type="refusal",
        custom_error_message="must be all, none, how many (2), or a list of indexes ([0, 1])",
    ),
]


class Deployment(Part):
    """The declared wish for one served model."""

    name: Annotated[
        str,
        _text(NAME_PATTERN, "must be lower case letters, digits and dashes inside, at most 40"),
    ] = Field(description="Lower case letters, digits, dashes; at most 40")
    model: Reference = Field(
        description="The weights: hf:ORG/NAME@REVISION, path:/absolute/path or "
        "package:NAME[==VERSION]; or a mapping with `ref` and `file`"
    )
    draft: Reference | None = Field(
        default=None,
        description="A smaller model that drafts tokens (speculative decoding)",
        examples=["hf:ORG/NAME"],
    )
    engine: Engine = Field(description="Which engine serves the model, and what is set explicitly")
    gpus: Gpus = Field(
        default="all", description="all, none, how many, or a list of indexes or UUIDs"
    )
    recipe: Annotated[
        str,
        _text(
            r"^(none|(auto|[a-z0-9]+:[^\s+]+)(\+[A-Za-z0-9_.-]+)*)$",
            "must be auto, none or a recipe's id (`stoker recipes show MODEL`)",
        ),
    ] = Field(
        default="auto",
        max_length=400,
        description="Settings that a public collection has for the model on such GPUs; auto: of "
        "the recipe that fits in all, none: no recipe, or the id of one. +FEATURE behind it adds "
        "an optional part",
    )
    serve: Annotated[
        Serve, BeforeValidator(_empty_mapping, json_schema_input_type=Serve | None)
    ] = Field(
        default_factory=Serve, description="Where and under which name the model is published"
    )
    contract: Annotated[
        Contract, BeforeValidator(_empty_mapping, json_schema_input_type=Contract | None)
    ] = Field(
        default_factory=Contract,
        description="Which promises must hold before the server counts as ready",
    )
    goals: Annotated[
        list[Goal], BeforeValidator(_empty_list, json_schema_input_type=list[Goal] | None)
    ] = Field(
        default_factory=list,
        description="Numeric targets on measurements",
        examples=[[{"metric": "ttft_p95_seconds", "at_most": 1.5}]],
    )
    service: Annotated[
        ServiceOptions,
        BeforeValidator(_empty_mapping, json_schema_input_type=ServiceOptions | None),
    ] = Field(default_factory=ServiceOptions, description="How the server runs as a service")
    accept: Annotated[
        list[str], BeforeValidator(_empty_list, json_schema_input_type=list[str] | None)
    ] = Field(
        default_factory=list, description="Rules that may not block: you know and take the risk"
    )

    @property
    def published_name(self) -> str:
        """The name in /v1/models."""
        return self.serve.published_name or self.name
