"""The grids that `scripts/record_surface.py` measures: which knobs, which flags, which requests.

Knobs and choices are named as in `src/stoker/knowledge/data/spaces`, from which their priors and
spreads come too. A grid's points are in the order of its knobs: the first knob is varied last, so
that a part that is complete in all other knobs exists at any time.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_LLAMACPP = ROOT / ".cache" / "xllamacpp-venv" / "bin" / "llama-server"
_GGUF = ROOT / ".cache" / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
_VLLM = ROOT / ".cache" / "engines" / "vllm-0.32.0" / "bin" / "vllm"
_SAFETENSORS = ROOT / ".cache" / "engines" / "models" / "smollm2-hf"

#: What is asked, all at once: every second text repeats itself, and so does its continuation.
PROMPTS = (
    "Amber: one two three one two three one two three one two three",
    "Birch: The lighthouse keeper opened the door and saw",
    "Cedar: 0, 1, 0, 1, 0, 1, 0, 1,",
    "Daisy: Tomatoes grow best when the soil is",
    "Ebony: <li>a</li>\n<li>a</li>\n<li>a</li>\n",
    "Fern: A bridge carries the weight of a train because",
    "Grass: red green blue red green blue red green blue red green blue",
    "Hazel: In the year of the great flood the town",
)

#: What vLLM's flag for speculation takes.
_NGRAM = (
    '{"method":"ngram","num_speculative_tokens":{draft-tokens},'
    '"prompt_lookup_max":3,"prompt_lookup_min":2}'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Knob:
    """A knob of a grid. ``flags``: what each choice writes, in natural order where ``is_ordered``.

    ``variables``: what a choice sets in the environment. The rest is as in the file's format.
    """

    id: str
    flags: Mapping[str, tuple[str, ...]]
    default: str
    is_ordered: bool = False
    variables: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    only_with: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    priors: Mapping[str, float] = field(default_factory=dict)
    spread: float = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """What is started and varied. ``words`` come before the knobs' flags; ``{port}`` is put in.

    ``tokens``: the length of each answer. ``repetitions``: how often the requests are sent after
    one start, after ``warmups`` that are not counted. ``start_seconds``: how long a start may take.
    """

    name: str
    title: str
    engine: str
    release: str
    model: str
    words: tuple[str, ...]
    knobs: tuple[Knob, ...]
    variables: Mapping[str, str] = field(default_factory=dict)
    tokens: int = 20
    repetitions: int = 1
    warmups: int = 0
    start_seconds: float = 30.0

    def list_configurations(self) -> Iterator[dict[str, str]]:
        """All that may be set, each once: a knob that means nothing has its default."""
        for chosen in itertools.product(*(knob.flags for knob in self.knobs)):
            found = dict(zip((knob.id for knob in self.knobs), chosen, strict=True))
            if all(self._means(knob, found) for knob in self.knobs):
                yield found

    def _means(self, knob: Knob, chosen: Mapping[str, str]) -> bool:
        told = all(chosen[other] in choices for other, choices in knob.only_with.items())
        return told or chosen[knob.id] == knob.default

    def render(self, chosen: Mapping[str, str], port: int) -> list[str]:
        """The command line of a configuration."""
        words = [word.replace("{port}", str(port)) for word in self.words]
        values = {f"{{{knob}}}": value for knob, value in chosen.items()}
        for word in itertools.chain.from_iterable(k.flags[chosen[k.id]] for k in self.knobs):
            names = [name for name in values if name in word]
            words.append(word.replace(names[0], values[names[0]]) if names else word)
        return words

    def render_variables(self, chosen: Mapping[str, str]) -> dict[str, str]:
        """The environment of a configuration, beside what is passed on."""
        found = dict(self.variables)
        for knob in self.knobs:
            found.update(knob.variables.get(chosen[knob.id], {}))
        return found


LLAMACPP = Grid(
    name="llamacpp-mixture-8",
    title="llama.cpp on one core of a processor, eight short requests at once",
    engine="llamacpp",
    release="b11549",
    model="SmolLM2-135M-Instruct-Q4_1",
    words=(
        *(str(_LLAMACPP), "--model", str(_GGUF), "--host", "127.0.0.1", "--port", "{port}"),
        *("--ctx-size", "8192"),
    ),
    knobs=(
        Knob(
            id="micro-batch",
            flags={"16": ("--ubatch-size", "16"), "512": ("--ubatch-size", "512")},
            default="512",
            is_ordered=True,
        ),
        Knob(
            id="threads",
            flags={count: ("--threads", count, "--threads-batch", count) for count in ("1", "2")},
            default="1",
            is_ordered=True,
            spread=0.3,
        ),
        Knob(
            id="cache-values",
            flags={kind: ("--cache-type-v", kind) for kind in ("f16", "q8_0")},
            default="f16",
        ),
        Knob(
            id="flash-attention",
            flags={state: ("--flash-attn", state) for state in ("on", "off")},
            default="on",
            spread=0.12,
        ),
        Knob(
            id="draft-length",
            flags={"8": (), "24": ()},
            default="24",
            is_ordered=True,
            only_with={"speculation": ("ngram-simple", "ngram-mod")},
            spread=0.08,
        ),
        Knob(
            id="speculation",
            flags={
                "none": (),
                "ngram-simple": (
                    *("--spec-type", "ngram-simple", "--spec-ngram-simple-size-n", "4"),
                    *("--spec-ngram-simple-size-m", "{draft-length}"),
                ),
                "ngram-mod": (
                    *("--spec-type", "ngram-mod", "--spec-ngram-mod-n-match", "4"),
                    *("--spec-ngram-mod-n-min", "1", "--spec-ngram-mod-n-max", "{draft-length}"),
                ),
            },
            default="none",
            priors={"ngram-mod": 0.05},
            spread=0.3,
        ),
        Knob(
            id="slots",
            flags={count: ("--parallel", count) for count in ("1", "4", "8")},
            default="4",
            is_ordered=True,
            priors={"8": 0.2},
            spread=0.35,
        ),
    ),
)

VLLM = Grid(
    name="vllm-mixture-8",
    title="vLLM on one core of a processor, eight short requests at once",
    engine="vllm",
    release="0.32.0",
    model="SmolLM2-135M-Instruct, bfloat16",
    words=(
        *(str(_VLLM), "serve", str(_SAFETENSORS), "--host", "127.0.0.1", "--port", "{port}"),
        *("--served-model-name", "m", "--max-model-len", "2048", "--enforce-eager"),
    ),
    variables={
        "HF_HUB_OFFLINE": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "1",
        "VLLM_NO_USAGE_STATS": "1",
    },
    repetitions=2,
    warmups=1,
    start_seconds=180.0,
    knobs=(
        Knob(
            id="cache-type",
            flags={"auto": (), "fp8": ("--kv-cache-dtype", "fp8")},
            default="auto",
        ),
        Knob(
            id="requests",
            flags={count: ("--max-num-seqs", count) for count in ("8", "4")},
            default="4",
            is_ordered=True,
            priors={"8": -0.1},
            spread=0.15,
        ),
        Knob(
            id="batch-tokens",
            flags={count: ("--max-num-batched-tokens", count) for count in ("2048", "32")},
            default="2048",
            is_ordered=True,
            spread=0.12,
        ),
        Knob(
            id="draft-tokens",
            flags={"2": (), "5": ()},
            default="5",
            is_ordered=True,
            only_with={"speculation": ("ngram",)},
            spread=0.12,
        ),
        Knob(
            id="speculation",
            flags={
                "off": (),
                "ngram": (
                    "--speculative-config",
                    _NGRAM,
                ),
            },
            default="off",
            priors={"ngram": -0.1},
            spread=0.35,
        ),
    ),
)

GRIDS = {"llamacpp": LLAMACPP, "vllm": VLLM}
