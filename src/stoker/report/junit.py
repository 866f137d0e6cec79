"""A verification as JUnit XML, which build servers read: one test case a promise."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from xml.etree import ElementTree as ET

from stoker.model.contract import CheckResult, Verdict, Verification
from stoker.report.exchange_text import LONG_CHARACTERS, describe_reply, describe_request
from stoker.report.verification_text import render_setting

#: All that XML 1.0 cannot hold, escaped or not.
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_TAGS = {Verdict.FAILED: "failure", Verdict.ERROR: "error", Verdict.SKIPPED: "skipped"}


def render_junit(verification: Verification) -> str:
    """The document. Pure."""
    results = verification.results
    counts = {
        "tests": len(results),
        "failures": sum(each.verdict is Verdict.FAILED for each in results),
        "errors": sum(each.verdict is Verdict.ERROR for each in results),
        "skipped": sum(each.verdict is Verdict.SKIPPED for each in results),
    }
    figures = {key: str(count) for key, count in counts.items()}
    figures["time"] = f"{sum(result.seconds for result in results):.3f}"
    root = ET.Element("testsuites", {"name": "stoker verify", **figures})
    suite = ET.SubElement(
        root,
        "testsuite",
        {
            "name": clean(f"{verification.name}, {verification.level}"),
            "timestamp": _timestamp(verification.at_seconds),
            **figures,
        },
    )
    properties = ET.SubElement(suite, "properties")
    for name in ("url", "level", "engine", "process", "digest"):
        value = clean(str(getattr(verification, name)))
        ET.SubElement(properties, "property", {"name": name, "value": value})
    for result in results:
        _add_case(suite, result)
    if verification.notes:
        ET.SubElement(suite, "system-out").text = clean("\n".join(verification.notes))
    ET.indent(root)
    content: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return content.decode() + "\n"


def _timestamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=0).isoformat()


def _add_case(suite: ET.Element, result: CheckResult) -> None:
    case = ET.SubElement(
        suite,
        "testcase",
        {
            "classname": "stoker.contract",
            "name": result.check,
            "time": f"{result.seconds:.3f}",
        },
    )
    tag = _TAGS.get(result.verdict)
    if tag is None:
        return
    attributes = {"message": clean(f"expected {result.expected}; found {result.found}")}
    if tag == "skipped":
        attributes["message"] = clean(result.found)
    elif result.symptom:
        attributes["type"] = clean(result.symptom)
    ET.SubElement(case, tag, attributes).text = clean(_describe(result)) or None
    if result.exchanges:
        ET.SubElement(case, "system-out").text = clean(_exchanges(result))


def _describe(result: CheckResult) -> str:
    if result.verdict is Verdict.SKIPPED:
        return ""
    lines = [result.title, f"expected {result.expected}", f"found {result.found}"]
    for remedy in result.remedies:
        setting = f" ({render_setting(remedy)})" if remedy.key else ""
        lines.append(f"mend: {remedy.text}{setting}")
    return "\n".join(lines)


def _exchanges(result: CheckResult) -> str:
    return "\n".join(
        f"asked {describe_request(each.request, LONG_CHARACTERS)}\n"
        f"got   {describe_reply(each, LONG_CHARACTERS)}"
        for each in result.exchanges
    )


def clean(text: str) -> str:
    """The text without what XML cannot hold."""
    return _NO_XML.sub("\N{REPLACEMENT CHARACTER}", text)
