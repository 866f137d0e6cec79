"""Small engines in the styles that real ones are written in, as text of our own."""

from textwrap import dedent

from scripts.read_flags.package import Package

ENVIRON = """
import os

class EnvField:
    def __init__(self, default):
        self.default = default

class EnvBool(EnvField):
    pass

class EnvInt(EnvField):
    pass

def _guess():
    import torch
    return torch.version.hip is not None

class Envs:
    SGLANG_TRACE = EnvBool(False)
    SGLANG_WORKERS = EnvInt(4)
    SGLANG_HIP = EnvBool(_guess)
    SGLANG_FOLDER = EnvInt(lambda: os.path.join(os.path.expanduser("~/.cache"), "it"))

envs = Envs()
"""

DATACLASS = """
import argparse
import dataclasses
import json
import os
from typing import List, Optional

from sglang.srt.environ import envs
from sglang.srt.parsers import Parsers
from torch import device_count

BACKENDS = ["triton", "fa3"]
BACKENDS += ["flashinfer"]
BACKENDS.append("aiter")
BUCKETS = ("one", "two")


@dataclasses.dataclass
class ServerArgs:
    model_path: str
    port: int = 30000
    device_count: int = device_count()
    log_requests: bool = os.getenv("SGLANG_LOG_IT") == "1"
    labels: Optional[List[str]] = None
    exclude: List[str] = dataclasses.field(default_factory=lambda: ["/health"])

    @staticmethod
    def add_cli_args(parser: argparse.ArgumentParser):
        parser.add_argument("--model-path", "--model", type=str, required=True, help="The path.")
        parser.add_argument("--port", type=int, default=ServerArgs.port)
        parser.add_argument("--gpus", type=int, default=ServerArgs.device_count)
        parser.add_argument("--log", action="store_true", default=ServerArgs.log_requests)
        parser.add_argument("--backend", choices=BACKENDS + ["none"], default="triton")
        parser.add_argument("--parser", choices=["auto"] + list(Parsers.table.keys()))
        group = parser.add_mutually_exclusive_group()
        group.add_argument("--fast", action="store_true")
        group.add_argument("--slow", action=argparse.BooleanOptionalAction, default=True)
        for bucket in BUCKETS:
            parser.add_argument(
                f"--bucket-{bucket}", type=float, nargs="+", default=ServerArgs.labels
            )
        choices = {"pytorch"}
        if envs.SGLANG_TRACE.get():
            choices.add("traced")
        parser.add_argument("--sampler", choices=choices)
        parser.add_argument("--exclude", type=str, nargs="*", default=["/health"])
        parser.add_argument("--extra", type=json.loads, default='{"a": 1}')
        parser.add_argument("--header", action="append")
        parser.add_argument(
            "--old-port",
            action=DeprecatedAlias,
            new_flag="--port",
            type=int,
            default=argparse.SUPPRESS,
        )
        parser.add_argument("--gone", action=DeprecatedAction, help="--gone is deprecated now.")


class DeprecatedAlias(argparse.Action):
    def __init__(self, option_strings, dest, new_flag=None, **kwargs):
        super().__init__(option_strings, dest, **kwargs)


class DeprecatedAction(argparse.Action):
    def __init__(self, option_strings, dest, nargs=0, **kwargs):
        super().__init__(option_strings, dest, nargs=nargs, **kwargs)
"""

PARSERS = """
from sglang.srt.kinds import Kind

class Parsers:
    table = {}
    more = {"late": Kind.LATE}

def register_parsers():
    for name in ("first", "second"):
        Parsers.table[name] = object

register_parsers()
"""

KINDS = """
from enum import Enum, auto

class Kind(str, Enum):
    EARLY = "early"
    LATE = "late"
"""

ANNOTATED_ARGUMENTS = """
import dataclasses
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

A = Annotated


class Arg(msgspec.Struct, frozen=True):
    help: str = ""
    choices: list | None = None
    aliases: list[str] | None = None
    no_cli: bool = False


def add_from(parser, cls):
    hints = get_type_hints(cls, include_extras=True)
    for field in msgspec.structs.fields(cls):
        kind = hints[field.name]
        if get_origin(kind) is not Annotated:
            continue
        inner, *extras = get_args(kind)
        arg = next((each for each in extras if isinstance(each, Arg)), Arg())
        if arg.no_cli:
            continue
        optional = [each for each in get_args(inner) if each is not type(None)]
        if get_origin(inner) is Union and len(optional) == 1:
            inner = optional[0]
        kwargs = {"help": arg.help}
        if get_origin(inner) is Literal:
            kwargs["choices"] = list(get_args(inner))
        elif get_origin(inner) is list:
            kwargs["nargs"], kwargs["type"] = "+", get_args(inner)[0]
        elif inner is bool:
            kwargs["action"] = "store_true"
        else:
            kwargs["type"] = inner
        if arg.choices:
            kwargs["choices"] = arg.choices
        if field.default is not msgspec.NODEFAULT:
            kwargs["default"] = field.default
        elif field.default_factory is not msgspec.NODEFAULT:
            kwargs["default"] = field.default_factory()
        parser.add_argument("--" + field.name.replace("_", "-"), *(arg.aliases or []), **kwargs)
"""

ANNOTATED_FIELDS = """
from typing import List, Literal, Optional

import msgspec

from sglang.srt.arguments import A, Arg
from sglang.srt.lists import *


class Model(msgspec.Struct):
    _NS_PATH = "model"
    model_path: A[str, Arg(help="The path.", aliases=["--model"])]
    dtype: A[str, Arg(choices=DTYPES)] = "auto"
    mode: A[Literal["a", "b"], "How."] = "a"
    handler: Optional[object] = None


class Serving(msgspec.Struct):
    _NS_PATH = "serving"
    port: A[int, "The port."] = 30000
    quiet: A[bool, "Say less."] = False
    urls: A[List[str], "Where."] = msgspec.field(default_factory=list)
    secret: A[Optional[str], Arg(no_cli=True)] = None
    ratio: A[Optional[float], "A part."] = None
"""

ANNOTATED_RECORD = """
import msgspec

from sglang.srt.arguments import add_from
from sglang.srt.environ import envs
from sglang.srt.fields import Model, Serving


class ServerArgs:
    @staticmethod
    def add_cli_args(parser):
        add_from(parser, ServerArgs)
        parser.add_argument("--config", type=str)


def collect(sources):
    kinds, defaults = {}, {}
    for source in sources:
        for field in msgspec.structs.fields(source):
            kinds[field.name] = field.type
            if field.default is not msgspec.NODEFAULT:
                defaults[field.name] = field.default
            elif field.default_factory is not msgspec.NODEFAULT:
                defaults[field.name] = msgspec.field(default_factory=field.default_factory)
    return kinds, defaults


_kinds, _defaults = collect([Model, Serving])
ServerArgs.__annotations__ = {**_kinds, **ServerArgs.__annotations__}
ServerArgs = msgspec.defstruct(
    "ServerArgs",
    [
        (name, kind, _defaults[name]) if name in _defaults else (name, kind)
        for name, kind in ServerArgs.__annotations__.items()
    ],
    namespace={key: value for key, value in vars(ServerArgs).items() if key != "__dict__"},
)
"""

CONFIGS = """
from dataclasses import field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

import vllm.envs as envs
from vllm.platforms import current_platform

if TYPE_CHECKING:
    from vllm.far import Method
else:
    Method = str

Half = Literal["half", "float16"]
DType = Literal["auto", Half]
Ranks = Literal[1, 8, 16]


def config(cls):
    return dataclass(cls)


@config
class Inner:
    level: int = 3


@config
class Config:
    LIMIT: ClassVar[int] = 7
    model: str = "small"
    dtype: DType = "auto"
    \"\"\"The numbers.\"\"\"
    rank: Ranks = 16
    method: Method | Literal["x", "y"] | None = None
    length: int = Field(default=None, gt=0)
    part: float = Field(default=0.9, le=1)
    eager: bool = False
    \"\"\"Deprecated: no longer of any effect.\"\"\"
    names: list[str] | None = None
    table: dict[str, Any] = field(default_factory=dict)
    inner: Inner = field(default_factory=Inner)
    seeds: tuple[int, ...] = (1, 2)
    device: str = current_platform.device
    debug: bool = envs.VLLM_DEBUG
    \"\"\"Say more.\"\"\"
"""

ENGINE_ARGUMENTS = """
import argparse
import copy
import json
from dataclasses import MISSING, fields, is_dataclass
from types import UnionType
from typing import Annotated, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from vllm.config import Config, get_attr_docs
from vllm.plugins import load_general_plugins


def optional_type(return_type):
    def _optional_type(val):
        return None if val == "None" else return_type(val)

    return _optional_type


def hints_of(kind):
    if get_origin(kind) is Annotated:
        return hints_of(get_args(kind)[0])
    if get_origin(kind) in {Union, UnionType}:
        found = set()
        for part in get_args(kind):
            found.update(hints_of(part))
        return found
    return {kind}


def is_type(hint, kind):
    return hint is kind or get_origin(hint) is kind


def has(hints, kind):
    return any(is_type(hint, kind) for hint in hints)


def get_kwargs(cls):
    docs = get_attr_docs(cls)
    kwargs = {}
    for each in fields(cls):
        hints = hints_of(each.type)
        if each.default is not MISSING:
            default = each.default
            if isinstance(default, FieldInfo):
                if default.default_factory is None:
                    default = default.default
                else:
                    default = default.default_factory()
        elif each.default_factory is not MISSING:
            default = each.default_factory()
        made = kwargs[each.name] = {"default": default, "help": docs.get(each.name, "").strip()}
        if any(is_dataclass(hint) for hint in hints):

            def parse_dataclass(val):
                return val

            made["type"] = parse_dataclass
        elif has(hints, bool):
            made["action"] = argparse.BooleanOptionalAction
        elif has(hints, Literal):
            options = get_args(next(hint for hint in hints if is_type(hint, Literal)))
            key = "metavar" if has(hints, str) else "choices"
            made.update({"type": type(options[0]), key: sorted(options)})
        elif has(hints, list):
            listed = next(hint for hint in hints if is_type(hint, list))
            made.update({"type": get_args(listed)[0], "nargs": "+"})
        elif has(hints, tuple):
            made.update({"type": int, "nargs": "+"})
        elif has(hints, int):
            made["type"] = int
        elif has(hints, float):
            made["type"] = float
        elif has(hints, dict):
            made["type"] = json.loads
        elif has(hints, str):
            made["type"] = str
        else:
            raise ValueError(f"Unsupported type {hints}.")
        if type(None) in hints and not has(hints, bool):
            made["type"] = optional_type(made["type"])
    return copy.deepcopy(kwargs)


class EngineArgs:
    @staticmethod
    def add_cli_args(parser):
        kwargs = get_kwargs(Config)
        group = parser.add_argument_group(title="Config", description=Config.__doc__)
        for name in kwargs:
            if name not in ("part", "method"):
                group.add_argument("--" + name.replace("_", "-"), **kwargs[name])
        group.add_argument("--part", "-p", **{**kwargs["part"], "default": None})
        kwargs["method"]["metavar"] = kwargs["method"].get("metavar")
        group.add_argument("--method", **kwargs["method"])
        return parser


class AsyncEngineArgs(EngineArgs):
    quiet: bool = False

    @staticmethod
    def add_cli_args(parser):
        load_general_plugins()
        parser = EngineArgs.add_cli_args(parser)
        parser.add_argument("--quiet", action="store_true", default=AsyncEngineArgs.quiet)
        parser.add_argument("--task", deprecated=True)
        return parser
"""

FRONT_END = """
import json

from vllm.config import config
from vllm.engine.arg_utils import AsyncEngineArgs, get_kwargs


@config
class BaseFrontendArgs:
    role: str = "assistant"

    @classmethod
    def _customize(cls, kwargs):
        kwargs["role"]["metavar"] = "ROLE"
        return kwargs

    @classmethod
    def add_cli_args(cls, parser):
        kwargs = cls._customize(get_kwargs(cls))
        group = parser.add_argument_group(title=cls.__name__.replace("Args", ""))
        for key, value in kwargs.items():
            group.add_argument(f"--{key.replace('_', '-')}", **value)
        return parser


@config
class FrontendArgs(BaseFrontendArgs):
    api_key: list[str] | None = None
    origins: list[str] | None = None

    @classmethod
    def _customize(cls, kwargs):
        kwargs = super()._customize(kwargs)
        kwargs["origins"]["type"] = json.loads
        del kwargs["origins"]["nargs"]
        return kwargs


def make_arg_parser(parser):
    parser.add_argument("model_tag", type=str, nargs="?")
    parser = FrontendArgs.add_cli_args(parser)
    return AsyncEngineArgs.add_cli_args(parser)
"""

VARIABLES = """
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    VLLM_DEBUG: bool = False
    VLLM_PORT: int | None = None
    VLLM_ROOT: str = ""

environment_variables = {
    "VLLM_DEBUG": lambda: bool(int(os.getenv("VLLM_DEBUG", "0"))),
    "VLLM_PORT": lambda: int(os.getenv("VLLM_PORT")) if "VLLM_PORT" in os.environ else None,
    "VLLM_ROOT": lambda: os.uname().nodename,
}
"""


def make_package(name: str, **modules: str) -> Package:
    """A release of our own; ``srt__environ`` is the module ``srt/environ.py``."""
    sources = {f"{name}/__init__.py": ""}
    for key, text in modules.items():
        parts = key.split("__")
        for depth in range(1, len(parts)):
            sources[f"{name}/{'/'.join(parts[:depth])}/__init__.py"] = ""
        sources[f"{name}/{'/'.join(parts)}.py"] = dedent(text)
    return Package(file=f"{name}-9.8.7.tar.gz", name=name, version="9.8.7", sources=sources)


def dataclass_style(**more: str) -> Package:
    """SGLang as it declares a dataclass and then each argument by hand."""
    modules = {
        "srt__environ": ENVIRON,
        "srt__server_args": DATACLASS,
        "srt__parsers": PARSERS,
        "srt__kinds": KINDS,
    }
    return make_package("sglang", **{**modules, **more})


def annotated_style() -> Package:
    """SGLang as it collects annotated groups of fields into a struct."""
    return make_package(
        "sglang",
        srt__environ=ENVIRON,
        srt__arguments=ANNOTATED_ARGUMENTS,
        srt__lists="DTYPES = ['auto', 'half']\n_HIDDEN = 1\n",
        srt__fields=ANNOTATED_FIELDS,
        srt__server_args=ANNOTATED_RECORD,
    )


def config_style() -> Package:
    """vLLM as it turns the fields of its config classes into arguments."""
    return make_package(
        "vllm",
        config=CONFIGS,
        envs=VARIABLES,
        engine__arg_utils=ENGINE_ARGUMENTS,
        entrypoints__openai__cli_args=FRONT_END,
    )
