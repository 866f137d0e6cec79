"""The picture of a capacity is well-formed, and its bars end within the picture."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace

from stoker.capacity.inputs import Readings
from stoker.capacity.predict import predict
from stoker.report.capacity_svg import render_svg
from tests.capacity.configs import GIB
from tests.capacity.test_options import KIMI_ON_EIGHT
from tests.report.test_capacity_text import WITH_HOST

SVG = "{http://www.w3.org/2000/svg}"


def test_bars_of_gpus_and_of_the_host() -> None:
    root = ET.fromstring(render_svg(predict(WITH_HOST)))
    texts = [each.text or "" for each in root.iter(f"{SVG}text")]
    assert texts[0] == "kimi: sglang 0.5.9"
    assert any(text.startswith("GPU 0 to 7") for text in texts)
    assert any(text.startswith("host: 503.0 GiB") for text in texts)
    assert "keys and values of tokens: 10.42 GiB (predicted)" in texts
    for box in root.iter(f"{SVG}rect"):
        assert float(box.get("x", "")) + float(box.get("width", "")) <= 840.1


def test_names_cannot_break_it_and_what_was_told_is_drawn() -> None:
    readings = replace(KIMI_ON_EIGHT.readings, resolved_parts=(("weights", 200 * GIB),))
    odd = replace(KIMI_ON_EIGHT, name='<b>"&', readings=readings)
    root = ET.fromstring(render_svg(predict(odd)))
    assert any("(told)" in (each.text or "") for each in root.iter(f"{SVG}text"))


def test_nothing_known_is_an_empty_picture() -> None:
    nothing = replace(KIMI_ON_EIGHT, gpus=(), readings=Readings())
    assert ET.fromstring(render_svg(predict(nothing))).tag == f"{SVG}svg"
