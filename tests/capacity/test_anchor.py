"""Kimi-K2.5 in 4 bit on eight RTX PRO 6000: figures that were confirmed by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stoker.capacity.answers import longest_context, requests_at, tokens_per_gb
from stoker.capacity.correction import find_missing_bytes
from stoker.capacity.dimensions import read_shape
from stoker.capacity.inputs import (
    Host,
    HostSettings,
    Inputs,
    Ranks,
    Readings,
    Settings,
    SettingsParts,
)
from stoker.capacity.predict import predict
from tests.capacity.configs import GIB, KIMI, PRO_6000

ANCHOR = Inputs(
    name="kimi",
    engine="sglang",
    release="0.5.9",
    shape=read_shape(KIMI),
    gpus=(PRO_6000,) * 8,
    ranks=Ranks(tensor=8),
    settings=Settings(
        memory_share=0.88,
        context_tokens=262144,
        parts=SettingsParts(host=HostSettings(is_on=True, ratio=4.0)),
    ),
    readings=Readings(free_before_bytes=94 * GIB, weight_bytes=int(72.3 * GIB)),
    host=Host(total_bytes=1500 * GIB, available_bytes=1400 * GIB),
)


def test_the_pool() -> None:
    found = predict(ANCHOR)
    assert found.token_bytes == 70_272
    assert found.kv_tokens is not None
    assert 159_100 <= found.kv_tokens.likely <= 159_300
    assert 11.18e9 <= found.kv_tokens.likely * found.token_bytes <= 11.19e9
    assert found.kv_tokens.low < found.kv_tokens.likely < found.kv_tokens.high
    assert found.kv_tokens.high - found.kv_tokens.low < 0.02 * found.kv_tokens.likely


def test_the_host_cache_is_on_every_rank_and_apart_from_the_pool() -> None:
    cache = predict(ANCHOR).host_cache
    assert cache is not None
    assert cache.ranks == 8
    assert 44.7e9 <= cache.rank_bytes.likely <= 44.8e9
    assert 357.5e9 <= cache.total_bytes.likely <= 358.5e9
    assert cache.is_pinned
    assert cache.remaining_bytes is not None


def test_what_is_left_on_the_device() -> None:
    found = predict(ANCHOR)
    parts = {part.part: part for part in found.maps[0].parts}
    assert len(found.maps) == 9  # eight ranks and the host
    unused = parts["unused"].predicted_bytes
    assert unused is not None
    assert unused.likely / GIB == pytest.approx(7.4, abs=0.1)
    table = parts["request_table"].predicted_bytes
    assert table is not None
    assert table.likely / GIB == pytest.approx(2.0, abs=0.01)


@pytest.mark.parametrize(("share", "tokens"), [(0.90, 187_900), (0.92, 216_700), (0.94, 245_400)])
def test_more_of_the_gpu(share: float, tokens: int) -> None:
    found = predict(replace(ANCHOR, settings=replace(ANCHOR.settings, memory_share=share)))
    assert found.kv_tokens is not None
    assert found.kv_tokens.likely == pytest.approx(tokens, abs=100)


def test_eight_bits_are_twice_the_tokens() -> None:
    found = predict(replace(ANCHOR, settings=replace(ANCHOR.settings, kv_type="fp8_e4m3")))
    assert found.kv_tokens is not None
    assert found.kv_tokens.likely == pytest.approx(318_400, abs=100)


def test_what_an_earlier_start_lacked_is_taken_off() -> None:
    lacking = replace(ANCHOR.readings, missing_bytes=70_272_000)
    less = predict(replace(ANCHOR, readings=lacking)).kv_tokens
    usual = predict(ANCHOR).kv_tokens
    assert less is not None
    assert usual is not None
    assert usual.likely - less.likely == pytest.approx(1000, abs=1)


def test_answers() -> None:
    found = predict(ANCHOR)
    requests, longest = requests_at(found, 32768), longest_context(found, 4)
    assert requests is not None
    assert longest is not None
    assert requests.likely == 4
    assert 39_700 <= longest.likely <= 39_900
    assert tokens_per_gb(found) == pytest.approx(14_230, abs=1)
    assert requests_at(found, 0) is None
    assert longest_context(found, 0) is None


def test_a_correction_brings_the_prediction_to_what_was_found() -> None:
    found = predict(ANCHOR)
    resolved = 158_000 * 70_272
    missing = find_missing_bytes(found, resolved)
    assert missing is not None
    corrected = replace(ANCHOR, readings=replace(ANCHOR.readings, missing_bytes=missing))
    tokens = predict(corrected).kv_tokens
    assert tokens is not None
    assert tokens.likely == pytest.approx(158_000, abs=1)
    assert find_missing_bytes(predict(replace(ANCHOR, gpus=())), resolved) is None
