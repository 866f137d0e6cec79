"""What a wording says of the release, and that it never hides a cause."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stoker.diagnosis.diagnose import diagnose
from stoker.diagnosis.inputs import Inputs
from stoker.diagnosis.lines import read_lines
from stoker.diagnosis.matching import make_matcher
from stoker.knowledge.signatures import Meaning, Signature, SignatureExample, load_signatures
from stoker.knowledge.wordings import Wordings, load_wordings, wording_kinds
from stoker.model.diagnosis import Cause, Certainty
from stoker.model.finding import Source

WORDINGS: Wordings = load_wordings("sglang")
#: A signature that narrows the release from below, taken from the data whatever it is.
NEW = next(
    name
    for name, span in WORDINGS.signatures.items()
    if span.first != WORDINGS.releases[0] and span.last is None and not span.beside
)
FIRST = WORDINGS.signatures[NEW].first
BEFORE = WORDINGS.releases[WORDINGS.releases.index(FIRST) - 1]
TEXT = "a line of an engine that tells of itself"


def sign(name: str, engines: tuple[str, ...], needle: str = TEXT) -> Signature:
    return Signature(
        id=name,
        means=(Meaning(kind="kv-pool-no-room"),),
        needles=(needle,),
        engines=engines,
        source=Source(kind="documented", where="here", version="1"),
        example=(SignatureExample(text=needle),),
    )


def tell(*signatures: Signature, engine: str = "sglang", release: str = "") -> Cause:
    lines = read_lines([TEXT.encode()], "log")
    inputs = Inputs(engine=engine, release=release, lines=lines)
    (cause,) = diagnose(inputs, make_matcher(signatures)).causes
    return cause


def test_a_release_that_prints_something_else_is_told() -> None:
    cause = tell(sign(NEW, ("sglang",)), release=BEFORE)
    assert cause.uncertain == (
        f"this wording is known of SGLang {FIRST} and later, and {BEFORE} runs here"
    )
    assert cause.certainty is Certainty.CERTAIN


@pytest.mark.parametrize("engine", ["sglang", ""])
def test_a_wording_narrows_a_release_that_is_not_known(engine: str) -> None:
    cause = tell(sign(NEW, ("sglang",)), engine=engine)
    assert cause.uncertain == (
        f"the release is not known, and this wording is known of SGLang {FIRST} and later"
    )
    assert cause.certainty is Certainty.CERTAIN


def test_nothing_is_told_where_the_release_fits() -> None:
    assert tell(sign(NEW, ("sglang",)), release=FIRST).uncertain == ""


def test_nothing_is_told_of_what_others_print_too() -> None:
    ours = sign(NEW, ("sglang",))
    assert tell(ours, sign("of-a-library", ()), release=BEFORE).uncertain == ""
    assert tell(sign("of-a-library", ()), release=BEFORE).uncertain == ""
    assert tell(sign(NEW, ("sglang", "vllm")), engine="").uncertain == ""
    assert tell(replace(ours, engines=()), engine="llamacpp").uncertain == ""


def test_nothing_is_told_of_a_needle_that_nobody_read() -> None:
    name, span = next((n, s) for n, s in WORDINGS.signatures.items() if s.beside)
    (signature,) = (each for each in load_signatures() if each.id == name)
    inputs = Inputs(engine="sglang", lines=read_lines([span.beside[0].encode()], "log"))
    found = diagnose(inputs, make_matcher([sign(name, ("sglang",), span.beside[0])]))
    assert span.beside[0] in signature.needles
    assert [cause.uncertain for cause in found.causes] == [""]


@pytest.mark.parametrize("kind", wording_kinds())
def test_no_cause_is_hidden_by_a_release(kind: str) -> None:
    """With every release that was read, each signature's own example tells the same causes."""
    wordings = load_wordings(kind)
    for signature in load_signatures():
        if signature.id not in wordings.signatures or signature.releases:
            continue
        example = next(each for each in signature.example if each.fires)
        lines = read_lines([example.text.encode()], "log")
        matcher = make_matcher([signature])
        releases = ("", wordings.releases[0], wordings.releases[-1])
        told = {
            tuple(
                (cause.kind, cause.certainty)
                for cause in diagnose(
                    Inputs(engine=kind, release=release, lines=lines), matcher
                ).causes
            )
            for release in releases
        }
        assert len(told) == 1, signature.id
