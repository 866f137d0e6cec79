"""The deployment: what a person declares for one served model.

The one pydantic model of the project, because it alone needs errors with positions and a JSON
Schema for editors. Unknown keys are errors. The field descriptions are what `stoker schema`
prints, what an editor shows and what the comments of a new file say; the validators here know
words and shapes, never an engine. Made by :mod:`stoker.spec`; read by everyone; it must never
look at the world.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

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

from stoker.model.contract import CONTRACT_TIMEOUT_SECONDS
from stoker.model.deployment_fields import (
    NAME_PATTERN,
    EnvironmentName,
    KeyFile,
    ModelText,
    SecretName,
    SettingName,
    SettingValue,
    check_no_parent,
    check_numeric_address,
    empty_list,
    empty_mapping,
    matching,
    refusal,
)


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
            matching(
                r"^[^/\x00][^\x00]*$", "must be a path inside the model, which has no / first"
            ),
            AfterValidator(check_no_parent),
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


class Tuned(Part):
    """Which of the settings a search has found, and where that is written down.

    A setting whose value has been changed since is the owner's again.
    """

    evidence: str = Field(
        min_length=1, max_length=80, description="The search that found it (`stoker tune --show`)"
    )
    says: str = Field(
        default="", max_length=300, description="What was measured, in a sentence for a person"
    )
    settings: dict[SettingName, SettingValue] = Field(
        default_factory=dict, description="Flags as they were found"
    )
    env: dict[EnvironmentName, str] = Field(
        default_factory=dict, description="Variables as they were found"
    )


class Engine(Part):
    """Which engine serves the model, and what is set explicitly."""

    kind: str = Field(min_length=1, description="The engine that computes the answers")
    environment: Annotated[
        str,
        matching(
            r"^(embedded|system|path:/.+)$", "must be embedded, system or path:/absolute/path"
        ),
    ] = Field(
        default="embedded",
        description="embedded: the pinned build that Stoker installs apart; "
        "system: the engine's command on the PATH; path:/...: an executable, or a virtual "
        "environment that has the engine",
    )
    settings: Annotated[
        dict[SettingName, SettingValue],
        BeforeValidator(
            empty_mapping, json_schema_input_type=dict[SettingName, SettingValue] | None
        ),
    ] = Field(
        default_factory=dict,
        description="Engine flags without their dashes, as the engine names them; these win over "
        "defaults. true: the bare flag, false: leave it out",
    )
    env: Annotated[
        dict[EnvironmentName, str],
        BeforeValidator(empty_mapping, json_schema_input_type=dict[EnvironmentName, str] | None),
    ] = Field(
        default_factory=dict, description="Environment variables of the engine; no secrets here"
    )
    secret_env: Annotated[
        dict[SecretName, KeyFile],
        BeforeValidator(empty_mapping, json_schema_input_type=dict[SecretName, KeyFile] | None),
    ] = Field(
        default_factory=dict,
        description="Environment variables whose values are secrets: for each the file that holds "
        "it, one line, readable by its owner only",
        examples=[{"HF_TOKEN": "/etc/stoker/hf-token"}],
    )
    tuned: Tuned | None = Field(
        default=None,
        description="Written by `stoker tune`: which settings it found",
        json_schema_extra={"readOnly": True},
    )

    @model_validator(mode="after")
    def _says_each_variable_once(self) -> Engine:
        for name in self.secret_env:
            if name in self.env:
                raise refusal(f"{name} stands in `env` and in `secret_env`", "remove one of them")
        return self


class Serve(Part):
    """Where and under which name the model is published."""

    host: Annotated[str, AfterValidator(check_numeric_address)] = Field(
        default="127.0.0.1", description="Numeric address to listen on"
    )
    port: int = Field(default=30000, ge=1, le=65535, description="Port to listen on")
    published_name: (
        Annotated[str, matching(r"^[^\s,\x00]+$", "must not contain blanks or commas")] | None
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
        list[Promise], BeforeValidator(empty_list, json_schema_input_type=list[Promise] | None)
    ] = Field(
        default_factory=list,
        description="What must work beside plain answers; what the engine's settings already "
        "tell need not be named",
        examples=[["tools", "structured_output"]],
    )
    apis: Annotated[
        list[Api], BeforeValidator(empty_list, json_schema_input_type=list[Api] | None)
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
            str, matching(r"^[a-z_][a-z0-9_-]{0,31}$", "must be the name of a user of this machine")
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
        matching(NAME_PATTERN, "must be lower case letters, digits and dashes inside, at most 40"),
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
        matching(
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
    serve: Annotated[Serve, BeforeValidator(empty_mapping, json_schema_input_type=Serve | None)] = (
        Field(
            default_factory=Serve, description="Where and under which name the model is published"
        )
    )
    contract: Annotated[
        Contract, BeforeValidator(empty_mapping, json_schema_input_type=Contract | None)
    ] = Field(
        default_factory=Contract,
        description="Which promises must hold before the server counts as ready",
    )
    goals: Annotated[
        list[Goal], BeforeValidator(empty_list, json_schema_input_type=list[Goal] | None)
    ] = Field(
        default_factory=list,
        description="Numeric targets on measurements",
        examples=[[{"metric": "ttft_p95_seconds", "at_most": 1.5}]],
    )
    service: Annotated[
        ServiceOptions,
        BeforeValidator(empty_mapping, json_schema_input_type=ServiceOptions | None),
    ] = Field(default_factory=ServiceOptions, description="How the server runs as a service")
    accept: Annotated[
        list[str], BeforeValidator(empty_list, json_schema_input_type=list[str] | None)
    ] = Field(
        default_factory=list, description="Rules that may not block: you know and take the risk"
    )

    @property
    def published_name(self) -> str:
        """The name in /v1/models."""
        return self.serve.published_name or self.name
