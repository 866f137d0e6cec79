"""Marks that a server left in the content of an answer: of thoughts, of tools, of chat templates.

All checks that read the content of answers may use it. Pure and total.
"""

from __future__ import annotations

import re

from stoker.contract.completion import Answer
from stoker.contract.judgement import Judgement, failed, quote
from stoker.contract.markers import Kind, find_markers
from stoker.model.contract import Feature, Offer, Subject

#: Marks of chat templates, from the tokenizers of Qwen, Llama, Gemma, Mistral, Phi, DeepSeek and
#: gpt-oss. No prose holds them; they show where an engine did not see the end of a turn.
_TURN_MARK = re.compile(
    r"<\|(im_start|im_end|im_sep|eot_id|eom_id|start_header_id|end_header_id|endoftext|end_of_text"
    r"|begin_of_text|return|channel|message|assistant|user|system|end|eot|start)\|>"
    r"|<(start|end)_of_turn>|\[/?INST\]|<\uff5c(User|Assistant|end\u2581of\u2581sentence)\uff5c>"
)

#: Which feature takes marks of this kind out of an answer.
_TAKEN_OUT_BY = {Kind.TOOLS: Feature.TOOLS, Kind.REASONING: Feature.REASONING}


def find_mark_flaw(subject: Subject, answer: Answer) -> Judgement | None:
    """Why the content is no words alone, None where it is."""
    content = answer.content if isinstance(answer.content, str) else ""
    for marker in find_markers(content):
        # Who runs without a parser has chosen so; what is left is then as it should be.
        if subject.offered(_TAKEN_OUT_BY[marker.kind]).offer is Offer.ABSENT:
            continue
        found = f"{quote(marker.text)}, a mark of {marker.kind}, for a parser to take out"
        return failed(
            "words alone in content",
            found,
            f"{marker.kind}_marks_in_content",
            marker=marker.text,
            family=marker.family,
            parsers=list(marker.parsers),
        )
    turn = _TURN_MARK.search(content)
    if turn is None:
        return None
    found = f"the mark {quote(turn[0])} of a chat template: {quote(content)}"
    return failed("words alone in content", found, "turn_marks_in_content", marker=turn[0])
