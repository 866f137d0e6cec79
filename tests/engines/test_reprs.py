"""Reading arguments as Python prints them, whatever stands there."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.engines.reprs import parse_arguments


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ServerArgs(a=1, b='x, y', c=None)", {"a": 1, "b": "x, y", "c": None}),
        ("{'a': 1, 'b': [1, 2], 'c': True}", {"a": 1, "b": [1, 2], "c": True}),
        ("model='m', dtype=torch.bfloat16, load_format=auto", {"dtype": "bfloat16"}),
        ("a=<Mode.FULL_AND_PIECEWISE: (2, 1)>, b=2", {"a": "FULL_AND_PIECEWISE", "b": 2}),
        ("x=Config(y=Inner(z=3), w='q')", {"x.y.z": 3, "x.w": "q"}),
        ("x={'y': {'z': 3}}", {"x.y.z": 3}),
        (r"a='it\'s, b=2', c=3", {"a": "it's, b=2", "c": 3}),
        ("a=0.903, b=-1, c=''", {"a": 0.903, "b": -1, "c": ""}),
        ("a=1, b=2, c='cut off", {"a": 1, "b": 2}),
        ("ServerArgs(a=1, b=[1, 2", {"a": 1}),
        ("a=1, a=2", {"a": 1}),
        ("", {}),
        ("'', ''", {}),
        ("no arguments at all", {}),
    ],
)
def test_arguments(text: str, expected: dict[str, object]) -> None:
    found = parse_arguments(text)
    assert {name: found.get(name) for name in expected} == expected
    assert expected or not found


def test_nothing_is_evaluated() -> None:
    found = parse_arguments("a=__import__('os').getcwd(), b=open('/etc/passwd'), c=2**9**9")
    assert found["a"] == "__import__('os').getcwd()"
    assert found["b"] == "open('/etc/passwd')"
    assert found["c"] == "2**9**9"


@pytest.mark.parametrize("bracket", ["[", "(", "{", "a=("])
def test_depth_is_bounded(bracket: str) -> None:
    parse_arguments("a=" + bracket * 100_000 + "1")
    closing = {"[": "]", "(": ")", "{": "}", "a=(": ")"}[bracket]
    parse_arguments("a=" + bracket * 5_000 + "1" + closing * 5_000)


def test_length_is_bounded() -> None:
    assert len(parse_arguments(",".join(f"a{number}=1" for number in range(100_000)))) == 4096


@given(st.text(alphabet="abc=,:'\"([{}])\\ 1.", max_size=200))
def test_any_text_is_read(text: str) -> None:
    parse_arguments(text)


@given(
    st.dictionaries(
        st.from_regex(r"[a-z]{1,8}", fullmatch=True),
        st.one_of(st.integers(), st.booleans(), st.none(), st.text(max_size=20)),
        max_size=8,
    )
)
def test_what_python_prints_is_read_back(values: dict[str, object]) -> None:
    found = parse_arguments(repr(values))
    assert found == values
