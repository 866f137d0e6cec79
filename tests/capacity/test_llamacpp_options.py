"""What llama.cpp's server is offered where its context is divided among slots."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stoker.capacity.dimensions import read_shape
from stoker.capacity.inputs import (
    Gpu,
    Host,
    Inputs,
    LlamaSettings,
    Processor,
    Settings,
    SettingsParts,
)
from stoker.capacity.options import add_options
from stoker.capacity.predict import predict
from stoker.capacity.what_if import Wish
from stoker.model.capacity import Option
from tests.capacity.configs import GIB, H200, LATENT_16B, LLAMA_8B

CONTEXT, PARALLEL = "engine.settings.ctx-size", "serve.parallel_requests"
TOKEN_BYTES = 128 << 10


def server(
    sequences: int | None,
    context: int | None,
    *,
    free_gib: int = 60,
    gpus: tuple[Gpu, ...] = (),
    llama: LlamaSettings = LlamaSettings(),  # noqa: B008
) -> Inputs:
    """An 8B model in 16 bit, on a processor where no GPU is named."""
    parts = SettingsParts(llama=replace(llama, sequences=sequences))
    return Inputs(
        name="x",
        engine="llamacpp",
        release="b11549",
        shape=read_shape(LLAMA_8B),
        gpus=gpus,
        settings=Settings(context_tokens=context, parts=parts),
        weight_bytes=16 * GIB // max(1, len(gpus)),
        host=Host(total_bytes=64 * GIB, available_bytes=free_gib * GIB),
        processor=None if gpus else Processor(),
    )


def options_of(inputs: Inputs, wish: Wish = Wish()) -> dict[str, Option]:  # noqa: B008
    found = add_options(predict(inputs), inputs, wish).options
    changes = [dict(option.changes) for option in found]
    assert all(each not in changes[place + 1 :] for place, each in enumerate(changes))
    return {option.id: option for option in found}


def gain(option: Option) -> float:
    assert option.gain_tokens is not None
    return option.gain_tokens.likely


def test_four_slots_have_every_way_to_more() -> None:
    found = options_of(server(4, 32768))
    kinds = {name.rstrip("0123456789").rstrip("-") for name in found}
    assert kinds == {
        "context",
        "kv-8-bit",
        "keys-8-bit",
        "fewer-slots",
        "more-slots",
        "unified-cache",
    }
    packed = next(found[name] for name in found if name.startswith("kv-8-bit"))
    assert gain(packed) == pytest.approx(32768 * (16 / 8.5 - 1), abs=4096)
    keys = next(found[name] for name in found if name.startswith("keys-8-bit"))
    assert gain(keys) == pytest.approx(32768 * (32 / 24.5 - 1), abs=4096)
    assert "engine.settings.cache-type-v" not in keys.changes
    assert "2 slots of up to 16,384 tokens" in found["fewer-slots-2"].title
    assert found["fewer-slots-2"].changes == {PARALLEL: 2, CONTEXT: 32768}
    assert found["more-slots-8"].changes == {PARALLEL: 8, CONTEXT: 65536}
    assert "32,768 tokens long instead of 8,192" in found["unified-cache"].title


@pytest.mark.parametrize("free_gib", [23, 30, 60, 90, 500])
def test_a_longer_cache_leaves_the_machine_what_others_need(free_gib: int) -> None:
    """Against the free memory, less the weights and 3 GiB; and no longer than slots can use."""
    found = options_of(server(2, 8192, free_gib=free_gib))
    lengths = [
        int(str(each.changes[CONTEXT])) for name, each in found.items() if name.startswith("con")
    ]
    room = (free_gib - 16 - 3) * GIB
    assert all(length * TOKEN_BYTES <= room for length in lengths)
    assert all(length <= 2 * 131072 for length in lengths)
    assert all(length % 512 == 0 for length in lengths)
    if free_gib >= 90:
        # Both shares of what is free come to the model's longest, which is one option.
        assert lengths == [2 * 131072]
    else:
        assert len(lengths) == 2


def test_where_nothing_is_free_the_cache_is_not_longer() -> None:
    found = options_of(server(2, 32768, free_gib=20))
    assert not any(name.startswith(("context", "more-slots")) for name in found)
    assert "fewer-slots-1" in found


def test_values_stay_as_they_are_without_flash_attention() -> None:
    inputs = server(2, 32768)
    off = options_of(replace(inputs, settings=replace(inputs.settings, backend="off")))
    assert not any(name.startswith("kv-8-bit") for name in off)
    assert any(name.startswith("keys-8-bit") for name in off)


def test_a_latent_cache_is_packed_as_a_whole() -> None:
    inputs = replace(server(2, 8192), shape=read_shape(LATENT_16B))
    assert not any(name.startswith("keys-8-bit") for name in options_of(inputs))


def test_one_shared_cache_is_no_longer_divided() -> None:
    found = options_of(server(2, 32768, llama=LlamaSettings(is_unified=True)))
    assert "unified-cache" not in found
    assert not any("slots" in name for name in found)
    assert any(name.startswith("context") for name in found)


def test_slots_as_many_as_were_asked_for() -> None:
    roomy = options_of(server(2, 32768), Wish(parallel=8))["more-slots-8"]
    assert roomy.changes == {PARALLEL: 8, CONTEXT: 8 * 16384}
    tight = options_of(server(2, 32768, free_gib=20), Wish(parallel=8))["more-slots-8"]
    assert tight.changes == {PARALLEL: 8, CONTEXT: 32768}
    assert "8 slots of up to 4,096 tokens" in tight.title
    many = options_of(server(2, 32768), Wish(parallel=1_000_000_000))
    assert not any("slots" in name for name in many)


def test_slots_that_have_all_that_the_model_can_use_are_not_made_fewer() -> None:
    found = options_of(server(2, 2 * 131072))
    assert "fewer-slots-1" not in found
    assert "unified-cache" not in found
    # One slot with twice of what it can use gives another one for nothing.
    assert options_of(server(1, 2 * 131072))["more-slots-2"].changes == {
        PARALLEL: 2,
        CONTEXT: 2 * 131072,
    }


@pytest.mark.parametrize("count", [1, 2])
def test_on_gpus_their_own_memory_counts(count: int) -> None:
    found = options_of(server(4, 32768, free_gib=1, gpus=(H200,) * count))
    assert any(name.startswith("context") for name in found)
    split = LlamaSettings(gpu_layers=8)
    assert not any(
        name.startswith("context")
        for name in options_of(server(4, 32768, gpus=(H200,) * count, llama=split))
    )


def test_a_short_context_is_packed_in_steps_of_the_engine() -> None:
    found = options_of(server(4, 4096))
    packed = next(found[name] for name in found if name.startswith("kv-8-bit"))
    assert packed.changes[CONTEXT] == 7168
