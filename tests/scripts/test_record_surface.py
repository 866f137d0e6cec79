"""What is made of measured lines: grids without twins, and values that no slow core bends."""

from __future__ import annotations

import pytest

from scripts.record_surface_engines import LLAMACPP, VLLM, Grid
from scripts.record_surface_file import Line, collect, learn_correction, list_doubtful


@pytest.mark.parametrize("grid", [LLAMACPP, VLLM], ids=lambda grid: grid.name)
def test_a_grid_names_each_configuration_once(grid: Grid) -> None:
    found = [tuple(chosen.items()) for chosen in grid.list_configurations()]
    assert len(set(found)) == len(found)
    assert tuple((knob.id, knob.default) for knob in grid.knobs) in found


def test_what_a_knob_means_stands_on_the_command_line() -> None:
    chosen = {knob.id: knob.default for knob in VLLM.knobs}
    words = VLLM.render(chosen | {"speculation": "ngram", "draft-tokens": "2"}, 1234)
    assert "1234" in words
    assert '"num_speculative_tokens":2' in words[-1]
    assert not any("{draft-tokens}" in word for word in words)


def test_a_slow_core_is_taken_out_of_the_values() -> None:
    lines = [
        Line(
            configuration={"knob": str(choice)},
            number=number,
            status="measured",
            values=(rate / (pulse / 900),),
            pulses=(pulse,),
        )
        for number, shift in enumerate((0.0, 250.0))
        for choice, rate in enumerate((50.0, 60.0, 70.0))
        for pulse in (900.0 + 20 * choice + shift,)
    ]
    correction = learn_correction(collect(lines))
    assert correction.power == pytest.approx(1.0, abs=0.01)
    assert not list_doubtful(lines)
