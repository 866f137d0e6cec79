"""A new deployment file with a comment for every key, as `stoker init` writes it.

Comments and defaults come from the pydantic model, so that they cannot drift. It must never
decide a value: the caller knows the model and the machine.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from stoker.model.deployment import Deployment, ModelReference, Part
from stoker.model.facts import Plain
from stoker.spec.render import render_yaml
from stoker.spec.vocabulary import find_part

_WIDTH = 92
_HEADER = (
    "What this machine serves. Change it, then run `stoker plan` to see what would happen.",
    "Keys right behind a # are left out; each says whether it shows the default or an example.",
)


def load_embedded_example() -> str:
    """The text of the deployment file for the engine and the model that Stoker brings along."""
    return (resources.files(__package__) / "embedded.yaml").read_text(encoding="utf-8")


def render_template(
    values: Mapping[str, Plain],
    *,
    schema_path: str,
    notes: Sequence[str] = (),
    engine_kinds: Sequence[str] = (),
) -> str:
    """The text of a new deployment file.

    ``values`` maps dotted paths to what the file sets; ``name``, ``model`` and ``engine.kind``
    must be among them. All other keys stand there commented out. ``schema_path`` is where the
    JSON Schema lies, as seen from the file (``./stoker.schema.json``); editors read it.
    ``notes`` are sentences for the top of the file, such as what was found on the machine;
    ``engine_kinds`` are the engines that Stoker knows, for the comment of ``engine.kind``.
    Raises ValueError for a path that no deployment file has, or when a required one is missing.
    """
    lines = [f"# yaml-language-server: $schema={schema_path}"]
    for paragraph in (*_HEADER, *notes):
        lines += _comment(paragraph, "")
    left = dict(values)
    more = {"engine.kind": ", ".join(engine_kinds)}
    for name, about in Deployment.model_fields.items():
        lines += ["", *_entry(name, about, left, more)]
    if left:
        raise ValueError(f"a deployment file has no {', '.join(left)}")
    return "\n".join(lines) + "\n"


def _entry(
    path: str, about: FieldInfo, values: dict[str, Plain], more: Mapping[str, str]
) -> Iterator[str]:
    """The lines of one key; what is taken from ``values`` is removed there.

    ``more`` is what its comment says beside the model's description, by path.
    """
    if path not in values and _is_written_by_us(about):
        return
    margin = "  " * path.count(".")
    sentence = ": ".join(filter(None, (about.description, more.get(path))))
    yield from _comment(sentence, margin)
    name = path.rpartition(".")[2]
    part = _group(path)
    if path in values:
        yield from _indent({name: values.pop(path)}, margin)
    elif part is not None:
        yield f"{margin}{name}:"
        for inner, about_inner in part.model_fields.items():
            yield from _entry(f"{path}.{inner}", about_inner, values, more)
    else:
        first, *others = _indent({name: _example(path, about)}, f"{margin}#")
        yield f"{first}  # {'for example' if about.examples else 'the default'}"
        yield from others


def _is_written_by_us(about: FieldInfo) -> bool:
    """Whether Stoker itself writes a key, so that nobody need know it beforehand."""
    extra = about.json_schema_extra
    return isinstance(extra, dict) and extra.get("readOnly") is True


def _group(path: str) -> type[Part] | None:
    """The part whose keys stand below this one, if they do: a model is one line, goals a list."""
    part = find_part(tuple(path.split(".")))
    is_group = part is not None and part is not ModelReference and "." not in path
    return part if is_group and path != "goals" else None


def _example(path: str, about: FieldInfo) -> Plain:
    """What a key that is not set shows: its default or, where that says nothing, an example."""
    if about.is_required():
        raise ValueError(f"a deployment file needs {path}")
    if about.examples:
        return about.examples[0]
    default = about.get_default(call_default_factory=True)
    if default is None or default is PydanticUndefined:
        raise ValueError(f"the model has neither a default nor an example for {path}")
    return default


def _comment(paragraph: str, margin: str) -> list[str]:
    return textwrap.wrap(
        paragraph,
        _WIDTH,
        initial_indent=f"{margin}# ",
        subsequent_indent=f"{margin}# ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _indent(value: Plain, margin: str) -> list[str]:
    return textwrap.indent(render_yaml(value), margin).splitlines()
