"""The short sources of SGLang's cookbook, written out as its own compiler does.

Called by :mod:`stoker.recipes.sglang` for a file that has no generated one. Every model gets every
configuration of the defaults on every hardware; a value of the hardware goes before one of the
configuration, and one of the quantization before both. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from stoker.recipes.collection import Complaints, group, items, text, words

_SIZES = ("tp", "dp", "ep", "enable_dp_attention")
_LLM = ("thinking_capability", "tool_parser", "reasoning_parser", "chat_template")
_DEFAULT_QUANTIZATION = "fp8"
_UNQUANTIZED = "bf16"
_THINKING, _HYBRID = "thinking", "hybrid"
#: Stands for all hardware of the defaults.
_ANY = "default"

Data = Mapping[str, object]


def write_out(data: Data, vendors: Data, complaints: Complaints) -> dict[str, object]:
    """The same file with every model and every configuration in full."""
    families = []
    for family in items(data.get("families")):
        about = group(family)
        models = about.get("models")
        if not isinstance(models, list):
            complaints.add(f"families.{text(about.get('name'))}", "it has no models")
            continue
        for model in models:
            if "extra_args" in group(model) or "env_vars" in group(model):
                place = f"models.{text(group(model).get('name'))}"
                complaints.add(place, "arguments of a model are not read, nor by its compiler")
        made = [each for model in models for each in _models(model, about, data, vendors)]
        families.append({"name": about.get("name"), "models": made})
    return {"vendor": data.get("vendor"), "families": families}


def _models(model: object, family: Data, data: Data, vendors: Data) -> Iterator[dict[str, object]]:
    """The models that one item stands for: itself, or one for each quantization and capability."""
    about = {"name": model} if isinstance(model, str) else group(model)
    if "base_name" not in about:
        name = text(about.get("name"))
        quantization = text(about.get("quantization"))
        yield _model(about, name, quantization or _DEFAULT_QUANTIZATION, (family, data, vendors))
        return
    base = "-".join(filter(None, (text(family.get("name")), text(about.get("base_name")))))
    named = group(family.get("model_name_suffix") or family.get("capability_suffix"))
    for capability in words(about.get("capabilities")) or ("base",):
        after = text(named.get(capability))
        for quantization in words(about.get("quantizations")) or (_UNQUANTIZED,):
            suffix = group(about.get("quant_suffix") or family.get("quant_suffix"))
            usual = "" if quantization == _UNQUANTIZED else f"-{quantization.upper()}"
            end = text(suffix.get(quantization, usual))
            made = _model(about, f"{base}{after}{end}", quantization, (family, data, vendors))
            yield _without_thoughts(made, capability)


def _without_thoughts(made: dict[str, object], capability: str) -> dict[str, object]:
    """Of the models of one series only those that think have a parser of thoughts."""
    llm = group(group(made["attributes"]).get("llm"))
    if capability == _THINKING or llm.get("thinking_capability") == _HYBRID or not llm:
        return made
    told = {key: value for key, value in llm.items() if key != "reasoning_parser"}
    return {**made, "attributes": {"llm": told}}


def _model(
    about: Data, name: str, quantization: str, around: tuple[Data, Data, Data]
) -> dict[str, object]:
    family, data, vendors = around
    vendor = text(about.get("vendor") or family.get("vendor") or data.get("vendor"))
    vendor = vendor or text(data.get("company"))
    owner = text(group(vendors.get(vendor)).get("huggingface_org")) or vendor
    paths = group(about.get("quantized_paths"))
    path = text(paths.get(quantization)) or text(about.get("model_path")) or f"{owner}/{name}"
    defaults = group(data.get("defaults"))
    return {
        "name": name,
        "model_path": path,
        "attributes": _attributes(about, family),
        "speculative_draft_model": about.get("speculative_draft_model"),
        "hardware": {
            word: {"configurations": _configurations(about, here, defaults, quantization)}
            for word, here in _hardware(about, defaults).items()
            if _allows(here, quantization)
        },
    }


def _attributes(about: Data, family: Data) -> dict[str, object]:
    if "diffusion" in about or "diffusion" in family:
        return {"diffusion": {**group(family.get("diffusion")), **group(about.get("diffusion"))}}
    layers = (family, group(family.get("llm")), about, group(about.get("llm")))
    told = {key: layer[key] for layer in layers for key in _LLM if layer.get(key)}
    return {"llm": told or {"thinking_capability": None}}


def _hardware(about: Data, defaults: Data) -> dict[str, Data]:
    """What is said of each hardware: the model's own words, else those of the defaults."""
    own, shared = about.get("hardware"), defaults.get("hardware")
    told = own or shared
    if isinstance(told, list):
        return {str(word): {} for word in told}
    default = group(group(told).get(_ANY))
    named = [word for word in group(told) if word != _ANY]
    if default or not named:
        named += [word for word in _words_of(shared) if word not in named]
    return {
        word: {**group(group(shared).get(word)), **default, **group(group(told).get(word))}
        for word in named
    }


def _words_of(shared: object) -> list[str]:
    return [str(word) for word in shared] if isinstance(shared, (list, dict)) else []


def _allows(here: Data, quantization: str) -> bool:
    allowed = words(here.get("valid_quants"))
    return not allowed or quantization in allowed


def _configurations(
    about: Data, here: Data, defaults: Data, quantization: str
) -> list[dict[str, object]]:
    """Every configuration in full; those of the hardware or the model stand in place of the
    defaults'."""
    own = (items(layer.get("configurations")) for layer in (here, about, defaults))
    found = next(filter(None, own), [{"name": "default"}])
    by_quantization = {
        **group(about.get(quantization)),
        **group(group(about.get("quant_overrides")).get(quantization)),
    }
    told = text(about.get("quantization"))
    layers = (here, by_quantization)
    return [_configuration(group(each), layers, told or quantization) for each in found]


def _configuration(told: Data, layers: tuple[Data, Data], quantization: str) -> dict[str, object]:
    here, by_quantization = layers
    engine: dict[str, object] = {}
    for layer in (here, told, by_quantization):
        engine |= {key: layer[key] for key in _SIZES if layer.get(key) is not None}
    arguments = [
        word for layer in (here, told, by_quantization) for word in items(layer.get("extra_args"))
    ]
    variables = {
        key: value
        for layer in (here, told, by_quantization)
        for key, value in group(layer.get("env_vars")).items()
    }
    engine |= {"extra_args": arguments, "env_vars": variables}
    return {
        "name": told.get("name"),
        "attributes": {
            "nodes": told.get("nodes"),
            "optimization": told.get("optimization"),
            "quantization": text(told.get("quantization")) or quantization,
        },
        "engine": engine,
    }
