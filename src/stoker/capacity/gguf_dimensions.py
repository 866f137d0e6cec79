"""The dimensions of a model as memory needs them, from what a GGUF file's header tells.

Called by whoever builds :class:`~stoker.capacity.inputs.Inputs` for llama.cpp. Layer by layer, as
that engine makes its caches: which layers have a window or a state follows from the architecture
(:mod:`stoker.knowledge.llamacpp_layers`) and from the file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from stoker.capacity.inputs import Attention, Extras, Quantization, Shape, State
from stoker.knowledge.derived.checkpoint import describe_checkpoint
from stoker.knowledge.llamacpp_layers import (
    StateLayers,
    WindowLayers,
    find_state,
    find_window,
    load_llamacpp_layers,
)
from stoker.model.facts import Plain, Unknown

_MOST = 1 << 40
_MOST_LAYERS = 4096


class Undescribed(ValueError):
    """What of a file is not described here, as a sentence without a full stop."""


def read_gguf_shape(seen: Mapping[str, Plain]) -> Shape:
    """The dimensions that the model probe read of a GGUF file."""
    parts = describe_checkpoint({**seen, "format": "gguf"})
    try:
        file = _File.open(seen, parts)
        return _make(parts, file.list_attention(), file.list_states(), "")
    except Undescribed as reason:
        return _make(parts, (), (), str(reason))


def _make(
    parts: Mapping[str, Plain],
    kinds: tuple[Attention, ...],
    states: tuple[State, ...],
    unknown: str,
) -> Shape:
    method = parts.get("quantization_method")
    return Shape(
        model_class="",
        layers=_number(parts, "layers"),
        hidden_width=_number(parts, "hidden_width"),
        intermediate_width=_number(parts, "intermediate_width"),
        vocabulary=_number(parts, "vocabulary"),
        heads=_number(parts, "heads"),
        context_tokens=_number(parts, "context_tokens") or None,
        attention=kinds,
        states=states,
        other=Extras(quantization=Quantization(method=method if isinstance(method, str) else "")),
        unknown=unknown,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    """What all steps of it read; ``layers`` without those that only draft tokens."""

    seen: Mapping[str, Plain]
    architecture: str
    layers: int
    hidden_width: int
    heads: int
    state: StateLayers | None
    window: WindowLayers | None

    @classmethod
    def open(cls, seen: Mapping[str, Plain], parts: Mapping[str, Plain]) -> _File:
        """The file, unless something of it is not described. Raises Undescribed."""
        layers = parts["layers"]
        if isinstance(layers, Unknown):
            raise Undescribed(f"the layers are not known: {layers.reason}")
        if not isinstance(layers, int) or layers > _MOST_LAYERS:
            raise Undescribed(f"a model of {layers} layers cannot be")
        architecture = str(seen.get("architecture") or "")
        if seen.get("indexer_head_count"):
            raise Undescribed("how llama.cpp keeps the index of sparse attention is not described")
        state, window = find_state(architecture), find_window(architecture)
        if state is None and (seen.get("ssm_state_size") or seen.get("short_conv_length")):
            raise Undescribed(f"which layers of {architecture} keep a state is not described")
        is_unused = architecture in load_llamacpp_layers().no_window.architectures
        if window is None and seen.get("sliding_window") and not is_unused:
            raise Undescribed(f"which layers of {architecture} have a window is not described")
        heads = _number(parts, "heads") or max(_numbers(seen.get("head_count")), default=0)
        return cls(
            seen=seen,
            architecture=architecture,
            layers=layers - _number(seen, "nextn_predict_layers"),
            hidden_width=_number(parts, "hidden_width"),
            heads=heads,
            state=state,
            window=window,
        )

    def list_attention(self) -> tuple[Attention, ...]:
        """The layers that keep keys and values, those that are alike together."""
        window = self._window_tokens()
        kept = self.layers - _number(self.seen, "shared_kv_layers")
        if self.window is not None and self.window.kept_layers:
            kept = min(kept, self.window.kept_layers)
        numbers = [number for number in range(kept) if self._has_cache(number)]
        kinds = Counter(
            self._read_layer(number, window if window and self._is_sliding(number) else None)
            for number in numbers
        )
        return tuple(kind.of(count, self.seen) for kind, count in kinds.items() if kind.kv_heads)

    def list_states(self) -> tuple[State, ...]:
        """The layers that keep a state of fixed size for each request."""
        count = sum(1 for number in range(self.layers) if self._has_state(number))
        if not count:
            return ()
        tokens = _number(self.seen, "short_conv_length")
        if tokens:
            # A short convolution over the hidden width is all that such a layer keeps.
            return (_make_state(count, channels=self.hidden_width, tokens=tokens),)
        inner, width = _number(self.seen, "ssm_inner_size"), _number(self.seen, "ssm_state_size")
        tokens = _number(self.seen, "ssm_conv_kernel")
        if not (inner and width and tokens):
            raise Undescribed("the file does not give the sizes of its recurrent states")
        grouped = self.state is not None and not self.state.ungrouped
        groups = _number(self.seen, "ssm_group_count") if grouped else 0
        channels = inner + 2 * groups * width
        return (_make_state(count, channels=channels, tokens=tokens, matrix=(width, inner)),)

    def _has_state(self, number: int) -> bool:
        row = self.state
        if row is None:
            return False
        if row.form == "interval":
            interval = _number(self.seen, "full_attention_interval") or row.usual_interval
            return (number + 1) % interval != 0
        if row.form == "headless":
            return not self._kv_heads(number)
        if row.form == "bare":
            return not self._kv_heads(number) and not _at(self.seen, "feed_forward_length", number)
        return True

    def _has_cache(self, number: int) -> bool:
        row = self.state
        if row is None or row.form == "beside":
            return True
        return row.form != "all" and not self._has_state(number) and self._kv_heads(number) > 0

    def _kv_heads(self, number: int) -> int:
        found = self.seen.get("head_count_kv")
        return _at(self.seen, "head_count_kv", number) if found is not None else self.heads

    def _read_layer(self, number: int, window: int | None) -> _Kind:
        heads = self._kv_heads(number)
        if heads > max(self.heads, *_numbers(self.seen.get("head_count")), 0):
            raise Undescribed(f"{heads} heads of keys in layer {number} cannot be")
        usual = self.hidden_width // self.heads if self.heads else 0
        key = _number(self.seen, "key_length") or usual
        value = _number(self.seen, "value_length") or usual
        if window is not None:
            key = _number(self.seen, "sliding_key_length") or key
            value = _number(self.seen, "sliding_value_length") or value
        if not (self.heads and key and value):
            raise Undescribed("the heads of the attention, or their width, are not known")
        return _Kind(kv_heads=heads, key_width=key, value_width=value, window_tokens=window)

    def _window_tokens(self) -> int:
        """The window of the sliding layers; 0 where none has one."""
        row = self.window
        if row is None or (row.layers and row.layers != self.layers):
            return 0
        told = self.seen.get("sliding_window")
        if row.fixed_tokens:
            return row.fixed_tokens if told != 0 and (told or row.usual_tokens) else 0
        return _number(self.seen, "sliding_window") or (0 if told == 0 else row.usual_tokens)

    def _is_sliding(self, number: int) -> bool:
        row = self.window
        if row is None:
            return False
        told = self.seen.get("sliding_window_pattern")
        if row.listed and isinstance(told, (list, tuple)):
            return bool(_at(self.seen, "sliding_window_pattern", number))
        is_number = isinstance(told, int) and not isinstance(told, bool)
        period = told if is_number and isinstance(told, int) else row.period
        if row.listed and not period:
            raise Undescribed("the file does not say which of its layers have a window")
        if period <= 0:
            return True
        return number % period != (0 if row.first else period - 1)


def _make_state(
    layers: int, *, channels: int, tokens: int, matrix: tuple[int, int] = (0, 0)
) -> State:
    """A convolution over so many channels, and a matrix beside it where there is one."""
    return State(
        mechanism="recurrent" if matrix[0] else "short convolution",
        layers=layers,
        conv_width=channels,
        conv_tokens=tokens,
        heads=1 if matrix[0] else 0,
        key_width=matrix[0],
        value_width=matrix[1],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    """What one layer keeps of a token."""

    kv_heads: int
    key_width: int
    value_width: int
    window_tokens: int | None

    def of(self, layers: int, seen: Mapping[str, Plain]) -> Attention:
        """So many layers of it."""
        latent, rope = _number(seen, "kv_lora_rank"), _number(seen, "rope_dimension_count")
        # Older files of such models keep the heads themselves, and so does the engine with them.
        is_latent = bool(latent and rope) and self.kv_heads == 1
        return Attention(
            layers=layers,
            kv_heads=self.kv_heads,
            key_width=self.key_width,
            value_width=self.value_width,
            latent_width=latent if is_latent else 0,
            rope_width=rope if is_latent else 0,
            window_tokens=self.window_tokens,
        )


def _at(table: Mapping[str, Plain], name: str, number: int) -> int:
    """A count of one layer: the file has one for all of them, or a list."""
    found = table.get(name)
    if isinstance(found, (list, tuple)):
        found = found[number] if number < len(found) else None
    if isinstance(found, int) and 0 <= found < _MOST:
        return int(found)
    raise Undescribed(f"the file does not give the {name} of layer {number}")


def _numbers(value: Plain) -> list[int]:
    items = value if isinstance(value, (list, tuple)) else [value]
    return [item for item in items if type(item) is int and 0 < item < _MOST]


def _number(table: Mapping[str, Plain], name: str) -> int:
    value = table.get(name)
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value < _MOST:
        return value
    return 0
