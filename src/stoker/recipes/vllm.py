"""vLLM's public collection of recipes: one file for each model, put together as its site does.

Called by the command layer through ``FORMAT``. An entry has base arguments, variants (other
checkpoints of the model), strategies (how it is divided), blocks for hardware, and features. The
later layer wins: base, variant, variant on this machine, strategy with its size, the entry's own
words on the strategy, hardware, features. Pure; a key that is not understood is told.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from stoker.knowledge.recipes import FieldFlags, load_recipe_words
from stoker.model.finding import Source
from stoker.model.launch import Setting
from stoker.model.recipe import Recipe, RecipeFeature, RecipeFile, RecipeHardware
from stoker.recipes.args import Grammar, merge_settings, parse_arguments, parse_variables
from stoker.recipes.collection import (
    Complaints,
    Format,
    Names,
    Provenance,
    grammar_for,
    group,
    items,
    like,
    number,
    refused,
    text,
    words,
)
from stoker.recipes.vllm_features import Feature, choose_features
from stoker.recipes.vllm_hardware import (
    Profile,
    by_hardware,
    find_profile,
    fits,
    holds,
    of_generation,
    of_word,
    read_profiles,
    status_of,
    tensor_size,
)
from stoker.recipes.yaml import UnreadableYaml, read_yaml

_ENGINE = "vllm"
_TAXONOMY = "taxonomy.yaml"
_STRATEGY = re.compile(r"^strategies/([A-Za-z0-9_-]+)\.ya?ml$")
_ENTRY = re.compile(r"^models/[^/]+/[^/]+\.ya?ml$")
_VERSION = re.compile(r"^v?(\d+(?:\.\d+)*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """One file and all that helps to read it."""

    data: Mapping[str, object]
    profiles: Mapping[str, Profile]
    strategies: Mapping[str, Mapping[str, object]]
    source: Source
    complaints: Complaints
    flags: FieldFlags

    def part(self, name: str) -> Mapping[str, object]:
        return group(self.data.get(name))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """One command line that an entry offers: a variant, a strategy and a machine."""

    entry: _Entry
    id: str
    variant: str
    strategy: str
    profile: Profile
    grammar: Grammar

    @property
    def about_variant(self) -> Mapping[str, object]:
        return group(self.entry.part("variants").get(self.variant))

    @property
    def about_strategy(self) -> Mapping[str, object]:
        return self.entry.strategies.get(self.strategy, {})

    @property
    def override(self) -> Mapping[str, object]:
        return group(self.entry.part("strategy_overrides").get(self.strategy))

    @property
    def kind(self) -> str:
        return text(self.about_strategy.get("deploy_type")) or "single_node"


def choose(paths: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The shared files and the entries; none where the list of machines is not there."""
    if _TAXONOMY not in paths:
        return (), ()
    shared = [path for path in paths if path == _TAXONOMY or _STRATEGY.match(path)]
    return tuple(shared), tuple(sorted(path for path in paths if _ENTRY.match(path)))


def read(file: str, content: str, shared: Mapping[str, str], made: Provenance) -> RecipeFile:
    """The recipes of one entry."""
    try:
        data = read_yaml(content)
    except UnreadableYaml as error:
        return refused(file, error.place, error.sentence)
    if not isinstance(data, dict) or not text(group(data.get("model")).get("model_id")):
        return refused(file, "model.model_id", "it names no model")
    complaints = Complaints(file)
    taxonomy, strategies = _read_shared(shared, complaints)
    entry = _Entry(
        data=data,
        profiles=read_profiles(taxonomy),
        strategies=strategies,
        source=made.source(file),
        complaints=complaints,
        flags=load_recipe_words().flags[_ENGINE],
    )
    _check_keys(entry)
    recipes = tuple(_compile(case, hosts) for case, hosts in _with_hosts(entry))
    if not recipes:
        complaints.add("", "it offers no command line: no strategy fits any of its hardware")
    return RecipeFile(file=file, recipes=recipes, complaints=complaints.all())


FORMAT = Format(name="vllm-recipes", engine=_ENGINE, choose=choose, read=read)


def _read_shared(
    shared: Mapping[str, str], complaints: Complaints
) -> tuple[Mapping[str, object], dict[str, Mapping[str, object]]]:
    taxonomy: Mapping[str, object] = {}
    strategies: dict[str, Mapping[str, object]] = {}
    for path, content in shared.items():
        try:
            data = group(read_yaml(content))
        except UnreadableYaml as error:
            complaints.add(path, f"{error.place}: {error.sentence}")
            continue
        if path == _TAXONOMY:
            taxonomy = data
        elif found := _STRATEGY.match(path):
            strategies[text(data.get("name")) or found[1]] = data
    return taxonomy, strategies


def _check_keys(entry: _Entry) -> None:
    told, keys = entry.complaints, load_recipe_words().keys[_ENGINE]
    told.unknown_keys("", entry.data, keys["entry"])
    told.unknown_keys("model", entry.part("model"), keys["model"])
    for name, variant in entry.part("variants").items():
        told.unknown_keys(f"variants.{name}", variant, keys["variant"])
        for word, block in group(group(variant).get("hardware_overrides")).items():
            told.unknown_keys(f"variants.{name}.hardware_overrides.{word}", block, keys["block"])
    for word, block in entry.part("hardware_overrides").items():
        told.unknown_keys(f"hardware_overrides.{word}", block, keys["block"])
    for name, block in entry.part("strategy_overrides").items():
        told.unknown_keys(f"strategy_overrides.{name}", block, keys["override"])
    for word in group(entry.part("meta").get("hardware")):
        if word not in entry.profiles:
            told.add(f"meta.hardware.{word}", "the collection's list of hardware does not have it")
    for name in words(entry.data.get("compatible_strategies")):
        if name not in entry.strategies:
            told.add("compatible_strategies", f"there is no strategy {name[:60]}")


def _with_hosts(entry: _Entry) -> Iterator[tuple[_Case, int]]:
    """The cases that can be had, each with how many machines it takes.

    Layouts over several machines are kept for hardware alone that the entry names.
    """
    declared = group(entry.part("meta").get("hardware"))
    for case in _list_cases(entry):
        hosts = _hosts(case)
        if hosts == 1 or (hosts and case.profile.word in declared):
            yield case, hosts


def _list_cases(entry: _Entry) -> Iterator[_Case]:
    """All command lines, what the collection would choose first before the others."""
    base, names = text(entry.part("model").get("model_id")), Names()
    declared = group(entry.part("meta").get("hardware"))
    opened = [word for word, profile in entry.profiles.items() if profile.is_open]
    for variant in entry.part("variants") or {"default": None}:
        about = group(entry.part("variants").get(variant))
        version = text(about.get("min_vllm_version") or entry.part("model").get("min_vllm_version"))
        grammar = grammar_for(_ENGINE, version)
        for word in dict.fromkeys((*declared, *opened)):
            profile = find_profile(word, entry.profiles)
            for strategy in _strategies_on(entry, profile) if holds(about, profile) else ():
                yield _Case(
                    entry=entry,
                    id=names.give(f"{_ENGINE}:{base}/{variant}/{word}/{strategy}"),
                    variant=variant,
                    strategy=strategy,
                    profile=profile,
                    grammar=grammar,
                )


def _strategies_on(entry: _Entry, profile: Profile) -> list[str]:
    """The strategies that an entry offers on a machine, its own default first."""
    listed = words(entry.data.get("compatible_strategies"))
    gates = entry.part("strategy_hardware")
    granted = [
        name for name, gate in gates.items() if name not in listed and by_hardware(gate, profile)
    ]
    chosen = []
    for name in (*listed, *granted):
        gate = text(by_hardware(gates.get(name), profile)) if name in gates else ""
        if name in entry.strategies and gate != "unsupported":
            chosen.append(name)
    first = text(entry.data.get("default_strategy"))
    return sorted(chosen, key=lambda name: name != first)


def _hosts(case: _Case) -> int:
    """How many machines a command line takes; 0 for one that cannot be had."""
    profile, entry = case.profile, case.entry
    floor = _least_gpus(entry.data.get("strategy_min_gpus"), case.strategy, profile.word)
    memory = number(case.about_variant.get("vram_minimum_gb"))
    hosts = max(
        ceil(floor / profile.gpu_count),
        ceil(memory / profile.memory_gb) if profile.memory_gb else 1,
        1,
    )
    if case.kind == "single_node":
        return 1 if hosts == 1 or profile.counts_sockets else 0
    return max(hosts, 2) if profile.is_scalable else 0


def _least_gpus(told: object, strategy: str, word: str) -> int:
    """The fewest GPUs for a strategy: one number for all, or by strategy and by machine."""
    if not isinstance(told, Mapping):
        return number(told)
    here = told.get(word)
    nested = group(here).get(strategy) if isinstance(here, Mapping) else here
    return max(number(told.get(strategy)), number(nested))


def _layers(case: _Case, hosts: int) -> Iterator[tuple[str, object, object]]:
    """Each layer with its name, arguments and variables; the later wins."""
    entry, variant, override = case.entry, case.about_variant, case.override
    model, profile, strategy = entry.part("model"), case.profile, case.about_strategy
    yield "its base", model.get("base_args"), model.get("base_env")
    yield f"its variant {case.variant}", variant.get("extra_args"), variant.get("extra_env")
    yield (
        f"its variant {case.variant} on {profile.word}",
        *_block(of_word(variant.get("hardware_overrides"), profile)),
    )
    name = f"its strategy {case.strategy}"
    yield name, strategy.get("vllm_args"), strategy.get("env")
    yield name, _sizes(case, hosts), None
    yield name, override.get("extra_args"), override.get("env")
    yield name, override.get("vllm_args"), override.get("extra_env")
    instead = of_generation(override.get("hardware_overrides"), profile)
    if instead:
        yield f"{name} on {profile.generation}", *_block(instead)
    else:
        for blocks in (entry.data.get("hardware_overrides"), variant.get("hardware_overrides")):
            yield f"its hardware {profile.generation}", *_block(of_generation(blocks, profile))
    yield (
        f"its hardware {profile.word}",
        *_block(of_word(entry.data.get("hardware_overrides"), profile)),
    )
    yield f"{name} on {profile.word}", *_block(of_word(override.get("hardware_overrides"), profile))


def _block(block: Mapping[str, object]) -> tuple[object, object]:
    return block.get("extra_args"), block.get("extra_env")


def _sizes(case: _Case, hosts: int) -> list[str]:
    """Among how many GPUs a command divides the model, in the collection's own way."""
    profile, flags = case.profile, case.entry.flags
    count = profile.gpu_count
    if case.kind == "pd_cluster":
        return []
    flag = text(case.about_strategy.get("parallel_flag")) or f"--{flags.tensor}"
    if case.kind == "single_node":
        is_plain = case.strategy == "single_node_tp"
        size = tensor_size(case.about_variant, case.override, profile) if is_plain else count
        return [flag, str(size)]
    layout = text(case.about_strategy.get("parallelism"))
    if layout in ("tp_pp", "tp_dp"):
        across = flags.pipeline if layout == "tp_pp" else flags.data
        return [f"--{flags.tensor}", str(count), f"--{across}", str(hosts)]
    return [flag, str(count * hosts)]


def _compile(case: _Case, hosts: int) -> Recipe:
    settings: list[Setting] = []
    for name, arguments, variables in _layers(case, hosts):
        settings += _parse(case, name, arguments, variables)
    features = tuple(
        _feature(case, feature)
        for feature in choose_features(
            case.entry.data, variant=case.variant, strategy=case.strategy, profile=case.profile
        )
    )
    for feature in features:
        settings += feature.settings if feature.is_on else ()
    merged = merge_settings(settings, case.grammar)
    base = text(case.entry.part("model").get("model_id"))
    served = text(case.about_variant.get("model_id")) or base
    said = text(group(case.entry.part("meta").get("hardware")).get(case.profile.word))
    return Recipe(
        id=case.id,
        engine=_ENGINE,
        task=_task(case.entry),
        models=tuple(dict.fromkeys((served, base))),
        precision=text(case.about_variant.get("precision")),
        hardware=RecipeHardware(
            word=case.profile.word,
            status=status_of(said),
            said=said,
            brand=case.profile.brand,
            gpu=case.profile.gpu,
            arch=case.profile.arch,
            gpu_count=_gpu_count(case, merged, hosts),
            host_count=hosts,
            host_gpus=case.profile.gpu_count,
        ),
        strategy=case.strategy,
        versions=_versions(case),
        settings=merged,
        features=(*features, *_pools(case)),
        notes=tuple(_notes(case, hosts)),
        source=case.entry.source,
    )


def _parse(case: _Case, name: str, arguments: object, variables: object) -> list[Setting]:
    model = like(case.id, case.entry.source, f"the recipe sets it in {name}")
    flags, lost = parse_arguments(arguments, case.grammar, like=model)
    env, unfit = parse_variables(variables, like=model)
    case.entry.complaints.add(name.removeprefix("its "), *lost, *unfit)
    return [*flags, *env]


def _feature(case: _Case, feature: Feature) -> RecipeFeature:
    settings = _parse(case, f"its feature {feature.name}", feature.arguments, feature.variables)
    return RecipeFeature(
        name=feature.name, is_on=feature.is_on, summary=feature.summary, settings=tuple(settings)
    )


def _pools(case: _Case) -> Iterator[RecipeFeature]:
    """The two kinds of servers of a cluster that reads prompts and writes answers apart."""
    for role in ("prefill", "decode") if case.kind == "pd_cluster" else ():
        ours, theirs = group(case.override.get(role)), group(case.about_strategy.get(role))
        settings = [
            *_parse(case, f"its {role} pool", theirs.get("vllm_args"), theirs.get("env")),
            *_parse(case, f"its {role} pool", ours.get("vllm_args"), ours.get("env")),
            *_parse(case, f"its {role} pool", ours.get("extra_args"), None),
        ]
        summary = f"the servers that do the {role}"
        made = merge_settings(settings, case.grammar)
        yield RecipeFeature(name=role, is_on=False, summary=summary, settings=made)


def _gpu_count(case: _Case, settings: Sequence[Setting], hosts: int) -> int:
    """How many GPUs the sizes on the command line take together."""
    flags, count = case.entry.flags, 1
    for name in (flags.tensor, flags.data, flags.pipeline):
        identity = case.grammar.spell(name)
        for setting in settings:
            size = setting.value or ""
            if setting.kind == "flag" and case.grammar.identify(setting) == identity:
                count *= int(size) if re.fullmatch(r"[1-9][0-9]{0,5}", size) else 1
    return count if case.kind != "pd_cluster" else case.profile.gpu_count * hosts


def _task(entry: _Entry) -> str:
    tasks = words(entry.part("meta").get("tasks"))
    if not tasks or {"text", "multimodal"} & set(tasks):
        return "text"
    return tasks[0][:40]


def _versions(case: _Case) -> str:
    told = case.about_variant.get("min_vllm_version")
    found = _VERSION.match(text(told or case.entry.part("model").get("min_vllm_version")))
    return f">={found[1]}" if found else ""


def _notes(case: _Case, hosts: int) -> Iterator[str]:
    """What the collection says beside the settings, as sentences."""
    variant, model, profile = case.about_variant, case.entry.part("model"), case.profile
    if hosts > 1:
        yield f"it takes {hosts} machines of {profile.gpu_count} GPUs"
    elif not fits(variant, profile):
        yield "the collection asks for more memory than the machine has"
    if not profile.is_known:
        yield f"the collection's list of hardware lacks {profile.word}: its size is our own guess"
    if (variant.get("nightly_required") or model.get("nightly_required")) is True:
        yield "it needs a nightly build of the engine"
    elif not _versions(case):
        yield f"it names no release: {text(model.get('min_vllm_version')) or 'nothing'}"
    exact = of_word(variant.get("hardware_overrides"), profile).get("docker_image")
    if image := text(by_hardware(exact or variant.get("docker_image"), profile)):
        yield f"it was made for the image {image}"
    for needed in items(case.entry.data.get("dependencies")):
        brand = text(group(needed).get("brand")).lower()
        if note := text(group(needed).get("note")) if brand in ("", profile.brand) else "":
            yield f"it wants installed: {note}"
