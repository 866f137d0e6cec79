"""The deployment: what a person declares for one served model.

The one pydantic model of the project, because it alone needs errors with positions and a JSON
Schema for editors. Unknown keys are errors. The field descriptions are what `stoker schema`
prints and what an editor shows.
"""

from __future__ import annotations

import ipaddress
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator

NAME_PATTERN = r"^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$"
MODEL_PATTERN = (
    r"^(hf:[\w.-]+/[\w.-]+(@[\w./-]+)?|path:/.+|package:[A-Za-z0-9._-]+(==[A-Za-z0-9._!+-]+)?)$"
)

Scalar = bool | int | float | str
EnvironmentName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


class Part(BaseModel):
    """A part of the file: frozen, and strict about keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class ModelReference(Part):
    """Which weights, and where they come from."""

    ref: str = Field(
        pattern=MODEL_PATTERN,
        description="hf:ORG/NAME@REVISION, path:/absolute/path or package:NAME[==VERSION]",
    )
    file: str | None = Field(
        default=None,
        pattern=r"^[^/\x00][^\x00]*$",
        description="The file inside the repository, folder or package, where there are several",
    )


def _as_reference(value: object) -> object:
    return {"ref": value} if isinstance(value, str) else value


Reference = Annotated[ModelReference, BeforeValidator(_as_reference)]


class Engine(Part):
    """Which engine serves the model, and what is set explicitly."""

    kind: str = Field(description="llamacpp, sglang or vllm")
    environment: str = Field(
        default="embedded",
        pattern=r"^(embedded|path:/.+)$",
        description="embedded: the pinned build that Stoker installs apart; "
        "path:/...: an executable, or a virtual environment that has the engine",
    )
    settings: dict[str, Scalar | list[Scalar] | None] = Field(
        default_factory=dict,
        description="Engine flags without their dashes, as the engine names them; these win over "
        "defaults. true: the bare flag, false: leave it out",
    )
    env: dict[EnvironmentName, str] = Field(
        default_factory=dict, description="Environment variables of the engine; no secrets here"
    )


class Serve(Part):
    """Where and under which name the model is published."""

    host: str = Field(default="127.0.0.1", description="Numeric address to listen on")
    port: int = Field(default=30000, ge=1, le=65535)
    published_name: str | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        pattern=r"^[^\s,\x00]+$",
        description="The model's name in /v1/models; the deployment's name if left out",
    )
    api_key_file: str | None = Field(
        default=None,
        pattern=r"^/.+",
        description="A file with the API key, one line, readable by its owner only",
    )
    context_tokens: int | None = Field(
        default=None, ge=16, description="Longest request, prompt and answer together"
    )
    parallel_requests: int | None = Field(
        default=None, ge=1, le=4096, description="How many requests are answered at once"
    )

    @field_validator("host")
    @classmethod
    def _is_numeric(cls, value: str) -> str:
        try:
            ipaddress.ip_address(value)
        except ValueError:
            message = "must be a numeric address such as 127.0.0.1, ::1 or 0.0.0.0"
            raise ValueError(message) from None
        return value


class Contract(Part):
    """Which promises must hold before the server counts as ready."""

    require: list[str] | None = Field(
        default=None,
        description="Names of checks (`stoker verify --list`); all checks of the level if left out",
    )
    timeout_seconds: int = Field(default=120, ge=1, le=86400)


class Goal(Part):
    """A numeric target on a measurement."""

    metric: str = Field(description="For example ttft_p95_seconds or output_tokens_per_second")
    at_most: float | None = None
    at_least: float | None = None


class ServiceOptions(Part):
    """How the server runs as a service."""

    user: str | None = Field(
        default=None,
        pattern=r"^[a-z_][a-z0-9_-]{0,31}$",
        description="The user it runs as; if left out, an unprivileged one when Stoker is root, "
        "else the user who applies",
    )
    supervisor: Literal["auto", "supervisord"] = "auto"
    on_boot: bool = Field(default=True, description="Start when the machine starts")
    restart: Literal["on-failure", "always", "never"] = "on-failure"
    start_timeout_seconds: int | None = Field(
        default=None, ge=1, le=86400, description="How long loading may take before it has failed"
    )


class Deployment(Part):
    """The declared wish for one served model."""

    name: str = Field(
        pattern=NAME_PATTERN, description="Lower case letters, digits, dashes; at most 40"
    )
    model: Reference
    draft: Reference | None = Field(
        default=None, description="A smaller model that drafts tokens (speculative decoding)"
    )
    engine: Engine
    gpus: Literal["all", "none"] | int | list[int | str] = Field(
        default="all", description="all, none, how many, or a list of indexes or UUIDs"
    )
    serve: Serve = Field(default_factory=Serve)
    contract: Contract = Field(default_factory=Contract)
    goals: list[Goal] = Field(default_factory=list)
    service: ServiceOptions = Field(default_factory=ServiceOptions)
    accept: list[str] = Field(
        default_factory=list, description="Rules that may not block: you know and take the risk"
    )

    @property
    def published_name(self) -> str:
        """The name in /v1/models."""
        return self.serve.published_name or self.name
