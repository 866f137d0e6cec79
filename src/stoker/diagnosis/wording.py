"""What a line's wording says of the release that printed it.

Called by :mod:`stoker.diagnosis.diagnose`. Pure. A wording never hides a cause, and never makes one
more or less certain: a fork may print what its release does not, and not every release was read.
"""

from __future__ import annotations

from stoker.diagnosis.deciding import Clue, Suspect
from stoker.diagnosis.inputs import Inputs
from stoker.knowledge.engines import load_engine_table
from stoker.knowledge.wordings import Span, load_wordings, wording_kinds


def tell_wording(suspect: Suspect, inputs: Inputs) -> str:
    """A sentence where the release does not fit the best line, or where that line narrows a
    release that is not known; else nothing."""
    best = suspect.best
    engine = inputs.engine or _only_engine(best)
    if engine not in wording_kinds() or best.signature is None:
        return ""
    wordings = load_wordings(engine)
    # What fits the same line in other words may be printed by anyone.
    same = [clue for clue in suspect.clues if clue.evidence.text == best.evidence.text]
    names = [clue.signature.id if clue.signature else "" for clue in same]
    spans = [wordings.signatures.get(name) for name in names]
    releases = wordings.describe(best.signature.id)
    if not releases or not all(span and _is_read(span, best) for span in spans):
        return ""
    known = f"this wording is known of {load_engine_table(engine).title} {releases}"
    if not inputs.release:
        return f"the release is not known, and {known}"
    if all(wordings.is_outside(name, inputs.release) for name in names):
        return f"{known}, and {inputs.release} runs here"
    return ""


def _is_read(span: Span, clue: Clue) -> bool:
    return not any(needle in clue.evidence.text for needle in span.beside)


def _only_engine(clue: Clue) -> str:
    engines = clue.signature.engines if clue.signature else ()
    return engines[0] if len(engines) == 1 else ""
