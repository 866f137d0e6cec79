"""SGLang's public cookbook: files of model families, each configuration written out for hardware.

Called by the command layer through ``FORMAT``. The generated files say everything in full; a file
that has only its short source is written out first (:mod:`stoker.recipes.sglang_sources`). The
cookbook says for which hardware a configuration is, and nothing of a test. Pure; a key that is not
understood is told.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from stoker.knowledge.recipes import FieldFlags, load_recipe_words
from stoker.model.launch import Setting
from stoker.model.recipe import Recipe, RecipeFeature, RecipeFile, RecipeHardware, RecipeStatus
from stoker.recipes.args import Grammar, merge_settings, parse_arguments, parse_variables
from stoker.recipes.collection import (
    Complaints,
    Format,
    Names,
    Provenance,
    grammar_for,
    group,
    like,
    number,
    refused,
    text,
    words,
)
from stoker.recipes.sglang_sources import write_out
from stoker.recipes.yaml import UnreadableYaml, read_yaml

_ENGINE = "sglang"
_VENDORS = re.compile(r"^(?:data/models/)?vendors\.ya?ml$")
_FILE = re.compile(r"^((?:data/models/)?)(generated|src)/((?:[^/]+/)?[^/]+\.ya?ml)$")
_VERSION = re.compile(r"(?:^|/)v(\d+(?:\.\d+)+)/")
#: The words of the cookbook for a configuration that people should take first.
_FIRST = ("default", "balanced")


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    """One file and all that helps to read it."""

    path: str
    version: str
    vendors: Mapping[str, object]
    made: Provenance
    grammar: Grammar
    flags: FieldFlags
    complaints: Complaints


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """One configuration of one model on one kind of hardware."""

    id: str
    file: _File
    model: Mapping[str, object]
    path: str
    word: str
    about: Mapping[str, object]

    @property
    def attributes(self) -> Mapping[str, object]:
        return group(self.about.get("attributes"))

    @property
    def name(self) -> str:
        return text(self.about.get("name")) or "default"

    @property
    def precision(self) -> str:
        return text(self.attributes.get("quantization"))


def choose(paths: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The shared files and the entries: the generated files, and sources that have none."""
    found = {path: match for path in paths if (match := _FILE.match(path))}
    generated = {(match[1], match[3]) for match in found.values() if match[2] == "generated"}
    entries = [
        path
        for path, match in found.items()
        if match[2] == "generated" or (match[1], match[3]) not in generated
    ]
    return tuple(path for path in paths if _VENDORS.match(path)), tuple(sorted(entries))


def read(file: str, content: str, shared: Mapping[str, str], made: Provenance) -> RecipeFile:
    """The recipes of one file."""
    try:
        data = read_yaml(content)
        vendors = [group(read_yaml(each)).get("vendors") for each in shared.values()]
    except UnreadableYaml as error:
        return refused(file, error.place, error.sentence)
    if not isinstance(data, dict) or not isinstance(data.get("families"), list):
        return refused(file, "families", "it holds no families of models")
    found = _VERSION.search(file)
    version = found[1] if found else ""
    complaints = Complaints(file)
    about = _File(
        path=file,
        version=version,
        vendors=group(vendors[0]) if vendors else {},
        made=made,
        grammar=grammar_for(_ENGINE, version),
        flags=load_recipe_words().flags[_ENGINE],
        complaints=complaints,
    )
    whole = data if _is_written_out(data) else write_out(data, about.vendors, complaints)
    recipes = tuple(_compile(case) for case in _list_cases(about, whole))
    if not recipes:
        complaints.add("", "it offers no command line")
    return RecipeFile(file=file, recipes=recipes, complaints=complaints.all())


FORMAT = Format(name="sglang-cookbook", engine=_ENGINE, choose=choose, read=read)


def _is_written_out(data: Mapping[str, object]) -> bool:
    """Whether every model has its attributes and configurations, as a generated file has."""
    models = [model for family in _list(data, "families") for model in _list(family, "models")]
    return (
        bool(models) and all("attributes" in model for model in models) and "defaults" not in data
    )


def _list(data: object, key: str) -> list[Mapping[str, object]]:
    found = group(data).get(key)
    return [group(each) for each in found] if isinstance(found, list) else []


def _list_cases(file: _File, data: Mapping[str, object]) -> Iterator[_Case]:
    told, keys, names = file.complaints, load_recipe_words().keys[_ENGINE], Names()
    for model, path in _list_models(file, data):
        place = f"models.{text(model.get('name'))}"
        for word, hardware in group(model.get("hardware")).items():
            told.unknown_keys(f"{place}.{word}", hardware, keys["hardware"])
            for about in _configurations(hardware):
                told.unknown_keys(f"{place}.{word}", about, keys["configuration"])
                told.unknown_keys(f"{place}.{word}.engine", about.get("engine"), keys["engine"])
                name = names.give(_name(file, path, word, about))
                yield _Case(id=name, file=file, model=model, path=path, word=word, about=about)


def _list_models(
    file: _File, data: Mapping[str, object]
) -> Iterator[tuple[Mapping[str, object], str]]:
    """The models of all families, each with its path on the hub."""
    told, keys = file.complaints, load_recipe_words().keys[_ENGINE]
    told.unknown_keys("", data, keys["file"])
    for family in _list(data, "families"):
        told.unknown_keys("families", family, keys["family"])
        for model in _list(family, "models"):
            name, path = text(model.get("name")), text(model.get("model_path"))
            told.unknown_keys(f"models.{name}", model, keys["model"])
            if path:
                yield model, path
            else:
                told.add(f"models.{name}", "it has no model_path")


def _name(file: _File, path: str, word: str, about: Mapping[str, object]) -> str:
    precision = text(group(about.get("attributes")).get("quantization")) or "any"
    at = f"@{file.version}" if file.version else ""
    return f"{_ENGINE}:{path}/{precision}/{word}/{text(about.get('name')) or _FIRST[0]}{at}"


def _configurations(hardware: object) -> list[Mapping[str, object]]:
    """The configurations for one kind of hardware, those to take first before the others.

    An older form has them by the engine's version.
    """
    found = _list(hardware, "configurations")
    for version in group(group(hardware).get("versions")).values():
        found += _list(version, "configurations")
    return sorted(found, key=_rank)


def _rank(about: Mapping[str, object]) -> tuple[bool, bool]:
    optimization = group(about.get("attributes")).get("optimization")
    return about.get("name") != _FIRST[0], optimization != _FIRST[1]


def _compile(case: _Case) -> Recipe:
    engine = group(case.about.get("engine"))
    llm = group(group(case.model.get("attributes")).get("llm"))
    settings = merge_settings(
        [*_sizes(case, engine), *_model(case, llm), *_draft(case, engine), *_parse(case, engine)],
        case.file.grammar,
    )
    known = load_recipe_words().find_hardware(case.word)
    count = _gpu_count(engine)
    hosts = ceil(count / known.per_host) if known else 1
    needs_hosts = text(case.attributes.get("nodes")) not in ("", "single")
    served = text(case.about.get("quantized_model_path")) or case.path
    return Recipe(
        id=case.id,
        engine=_ENGINE,
        task="text" if "llm" in group(case.model.get("attributes")) and llm else "diffusion",
        models=tuple(dict.fromkeys((served, case.path))),
        precision=case.precision,
        hardware=RecipeHardware(
            word=case.word,
            status=RecipeStatus.STATED,
            brand=known.brand if known else "",
            gpu=known.key if known else "",
            arch=known.arch if known else "",
            gpu_count=count,
            host_count=max(hosts, 2 if needs_hosts else 1),
            host_gpus=known.per_host if known else count,
        ),
        strategy=case.name,
        versions=f">={case.file.version}" if case.file.version else "",
        settings=settings,
        features=tuple(_pools(case)),
        notes=tuple(_notes(case, hosts)),
        source=case.file.made.source(case.file.path),
    )


def _gpu_count(engine: Mapping[str, object]) -> int:
    """Attention that is divided by data stays within the tensor group; replicas multiply it."""
    tensor, data = number(engine.get("tp")) or 1, number(engine.get("dp")) or 1
    return tensor if engine.get("enable_dp_attention") is True else tensor * data


def _sizes(case: _Case, engine: Mapping[str, object]) -> Iterator[Setting]:
    flags = case.file.flags
    for key, name in (("tp", flags.tensor), ("dp", flags.data), ("ep", flags.expert)):
        if size := number(engine.get(key)):
            yield _flag(case, name, str(size), f"its {key}")
        elif engine.get(key) is not None:
            case.file.complaints.add(f"{case.path}.{case.word}.{key}", "this is no number of GPUs")
    if engine.get("enable_dp_attention") is True:
        yield _flag(case, flags.data_attention, None, "its enable_dp_attention")


def _model(case: _Case, llm: Mapping[str, object]) -> Iterator[Setting]:
    flags, keys = case.file.flags, load_recipe_words().keys[_ENGINE]["llm"]
    case.file.complaints.unknown_keys(f"models.{case.path}.llm", llm, keys)
    named = (
        ("tool_parser", flags.tool_call),
        ("reasoning_parser", flags.reasoning),
        ("chat_template", flags.chat_template),
    )
    for key, name in named:
        if value := text(llm.get(key)):
            yield _flag(case, name, value, f"its {key}")


def _draft(case: _Case, engine: Mapping[str, object]) -> Iterator[Setting]:
    """The model that drafts is told once, and meant for the configurations that draft."""
    draft, flags = text(case.model.get("speculative_draft_model")), case.file.flags
    family = next(
        (each.others for each in load_recipe_words().together if each.engine == _ENGINE), ""
    )
    drafts = any(each.lstrip("-").startswith(family) for each in words(engine.get("extra_args")))
    if draft and family and drafts:
        yield _flag(case, flags.draft, draft, "its speculative_draft_model")


def _flag(case: _Case, name: str, value: str | None, layer: str) -> Setting:
    made = _like(case, layer)
    flag = case.file.grammar.spell(name)
    flag = flag if flag.startswith("-") else f"--{flag}"
    return Setting(
        name=flag,
        value=value,
        origin=made.origin,
        reason=made.reason,
        source=made.source,
        rule=made.rule,
    )


def _like(case: _Case, layer: str) -> Setting:
    source = case.file.made.source(case.file.path)
    return like(case.id, source, f"the recipe sets it in {layer}")


def _parse(case: _Case, engine: Mapping[str, object]) -> list[Setting]:
    made = _like(case, f"its configuration {case.name}")
    flags, lost = parse_arguments(engine.get("extra_args"), case.file.grammar, like=made)
    env, unfit = parse_variables(engine.get("env_vars"), like=made)
    case.file.complaints.add(f"{case.path}.{case.word}.{case.name}", *lost, *unfit)
    return [*flags, *env]


def _pools(case: _Case) -> Iterator[RecipeFeature]:
    """The two kinds of servers of a cluster that reads prompts and writes answers apart."""
    for role in ("prefill", "decode"):
        engine = group(case.about.get(role))
        if engine:
            settings = merge_settings(
                [*_sizes(case, engine), *_parse(case, engine)], case.file.grammar
            )
            summary = f"the servers that do the {role}"
            yield RecipeFeature(name=role, is_on=False, summary=summary, settings=settings)


def _notes(case: _Case, hosts: int) -> Iterator[str]:
    if hosts > 1:
        yield f"it takes {hosts} machines, though the cookbook calls it a single one"
    if load_recipe_words().find_hardware(case.word) is None:
        yield f"nobody described the hardware {case.word}"
    if optimization := text(case.attributes.get("optimization")):
        yield f"it is meant for: {optimization}"
    if case.about.get("prefill") or case.about.get("decode"):
        yield "it has servers of two kinds, for prompts and for answers"
