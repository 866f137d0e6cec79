"""What others put before a line: the journal, containers, shells, terminals, quotes and ranks.

Called by :mod:`stoker.diagnosis.lines`, once a line. Pure, and linear in the length of the line:
no pattern repeats what another repetition could match as well.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import TypeAlias

from stoker.model.facts import Plain

#: So many prefixes stand before one another at most: a quote, compose, a journal, a time, a rank.
_MOST_PREFIXES = 8
#: A longer line is no record of a journal.
_MOST_JSON_CHARACTERS = 1 << 18

#: Colours and cursor movements: of a terminal, as syslog and JSON spell them, and as they are left
#: where something swallowed the escape character.
_TERMINAL = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[PX^_][^\x1b]*(?:\x1b\\)?"
    r"|[ -/][0-~]|[0-Z\\^-~])"
    r"|(?:\^\[|#033|\\u001b|\\x1b|\\033)\[[0-9;?]{0,32}[A-Za-z]"
    r"|\[\d{1,3}(?:;\d{1,3}){0,8}m"
)
_CONTROLS = dict.fromkeys((*range(9), 11, 12, *range(14, 32), 127))

_QUOTE = re.compile(r"(?:>|&gt;)(?: ?(?:>|&gt;))* ?")
_FENCE = re.compile(r"(?:`{3,}|~{3,})\s*[\w+-]*\s*$")

_CLOCK = r"\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
_ISO = re.compile(rf"\d{{4}}-\d\d-\d\dT{_CLOCK}(?:Z|[+-]\d\d:?\d\d)?(?: |$)")
_DATES = (
    re.compile(rf"[A-Z][a-z]{{2}} [ \d]\d {_CLOCK}(?: |$)"),
    re.compile(rf"[A-Z][a-z]{{2}} \d{{4}}-\d\d-\d\d {_CLOCK} [A-Z+-][\w:+-]{{0,8}} "),
    re.compile(rf"\d{{4}}-\d\d-\d\d {_CLOCK}(?: |$)"),
    re.compile(r"\d{10}\.\d{3,9} "),
)
_HOST_AND_UNIT = re.compile(
    r"[^\s\[\](){}|]{1,64} (?P<unit>[^\s\[\]:]{1,64})(?:\[(?P<pid>\d+)\])?: ?"
)
_RFC5424 = re.compile(r"<\d{1,3}>1 (?P<time>\S+) \S+ (?P<unit>\S+) \S+ \S+ (?:-|\[[^\]]*\]) ?")
_CRI = re.compile(r"(?:stdout|stderr) (?P<part>[FP])(?: |$)")
_LEVEL = re.compile(r"<\d{1,3}>")
_FACILITY = re.compile(r"(?P<facility>kern|user|daemon|syslog|auth) *:\w+ *: ")
_UPTIME = re.compile(r"\[ *\d+\.\d{6}\](?:\[ *[CT]\d+\])? ?")
_UPTIME_DATE = re.compile(r"\[[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}\] ?")
_POD = re.compile(r"\[pod/[^\]\s]{1,256}\] ?")
_COMPOSE = re.compile(
    r"(?:[A-Za-z0-9][\w.-]{0,127}(?:[-_]\d+ *| {2,})|[a-z][a-z0-9_.-]{0,63} )\|(?: |$)"
)

_RANKS = r"[A-Z]{2,5}\d+(?:[ ,_][A-Z]{2,5}\d+)*"
_SGLANG = re.compile(rf"\[\d{{4}}-\d\d-\d\d {_CLOCK}(?: (?P<rank>{_RANKS}))?\] ?")
#: The end of such a prefix, where the beginning of a line was cut off.
_SGLANG_CUT = re.compile(rf" ?(?:{_CLOCK} )?(?P<rank>{_RANKS})\] ")
_PROCESS = re.compile(
    r"\((?P<name>[A-Za-z_][\w.:-]{0,80}(?: [A-Z]{2,5}\d+)*)(?: rank=(?P<number>\d+))?,?"
    r" pid=(?P<pid>\d+)(?:, ip=[\w.:-]+)?\) ?"
)
_RAY = re.compile(
    r"\((?:pid=(?P<pid>\d+)(?:, ip=[\w.:-]+)?|(?P<name>raylet|gcs_server|autoscaler)[^)]{0,80})\) ?"
)
_TORCH = re.compile(r"\[(?P<rank>rank ?\d+|default\d+)\]: ?")
_MPI = re.compile(r"\[\d+,(?P<rank>\d+)\]<std(?:out|err)>: ?")
_LLAMACPP = re.compile(r"\d+\.\d\d\.\d{3}\.\d{3} [DIWEN] ")

_JSON_TEXTS = ("log", "MESSAGE", "message", "msg", "textPayload", "line")
#: A JSON object is a record of a log only with one of these beside its text.
_JSON_SIGNS = frozenset(
    (
        *("stream", "time", "ts", "timestamp", "@timestamp", "level", "severity", "logger"),
        *("__REALTIME_TIMESTAMP", "_PID", "PRIORITY", "SYSLOG_IDENTIFIER", "_TRANSPORT"),
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bare:
    """A line without what others put before it.

    ``rank`` is the process of the engine. ``is_kernel``: the kernel wrote it. ``is_begun``: it had
    a prefix of its own, so it begins a record and does not go on with another one. ``is_cut``: the
    carrier cut it, and the next one goes on.
    """

    text: str
    rank: str = ""
    is_kernel: bool = False
    is_begun: bool = False
    is_cut: bool = False


_Step: TypeAlias = Bare | None


def strip_prefixes(text: str) -> Bare:
    """The line itself, and what its prefixes tell."""
    line = Bare(text=strip_terminal(text))
    for _ in range(_MOST_PREFIXES):
        shorter = _strip_one(line)
        if shorter is None:
            return line
        line = shorter
    return line


def strip_terminal(text: str) -> str:
    """The text without colours, cursor movements and characters that nobody sees."""
    text = _TERMINAL.sub("", text)
    return text if text.isprintable() else text.translate(_CONTROLS)


def _strip_one(line: Bare) -> _Step:
    """One prefix less; None where there is none. The first character says which may stand there."""
    first = line.text[:1]
    if first == "[":
        return _strip_bracket(line)
    if first == "(":
        return _strip_process(line)
    if first == "{":
        return _strip_json(line)
    if first in (">", "&", "`", "~"):
        return _strip_quote(line)
    if first == "<":
        return _strip_level(line)
    if first == " ":
        return _strip_indented(line)
    if first.isdigit():
        return (
            _strip_iso(line) or _strip_date(line) or _strip_llamacpp(line) or _strip_compose(line)
        )
    if first.isalpha():
        return _strip_date(line) or _strip_compose(line) or _strip_facility(line)
    return None


def _strip_bracket(line: Bare) -> _Step:
    text = line.text
    if found := _SGLANG.match(text):
        return _begun(line, found.end(), rank=found["rank"] or "")
    if found := _TORCH.match(text) or _MPI.match(text):
        return _begun(line, found.end(), rank=found["rank"].replace(" ", ""))
    if found := _UPTIME.match(text):
        return _strip_unit(line, found.end()) or _begun(line, found.end(), is_kernel=True)
    if found := _UPTIME_DATE.match(text):
        return _begun(line, found.end(), is_kernel=True)
    if found := _POD.match(text):
        return _carried(line, found.end())
    return None


def _strip_process(line: Bare) -> _Step:
    found = _PROCESS.match(line.text)
    if found is not None:
        name = found["name"] if found["number"] is None else f"{found['name']} {found['number']}"
        is_told = any(letter.isdigit() for letter in name)
        return _begun(line, found.end(), rank=name if is_told else f"{name} {found['pid']}")
    if found := _RAY.match(line.text):
        return _begun(line, found.end(), rank=found["name"] or f"process {found['pid']}")
    return None


def _strip_json(line: Bare) -> _Step:
    record = _read_json(line.text)
    if record is None or not _JSON_SIGNS & record.keys():
        return None
    told = next((record[key] for key in _JSON_TEXTS if key in record), None)
    if isinstance(told, list):  # the journal's form of a text with odd characters in it
        told = _decode(told)
    if not isinstance(told, str):
        return None
    is_docker = "stream" in record and "log" in record
    return replace(
        line,
        text=strip_terminal(replace_halves(told.rstrip("\r\n"))),
        is_kernel=record.get("_TRANSPORT") == "kernel",
        is_cut=is_docker and not told.endswith("\n"),
    )


def _read_json(text: str) -> dict[str, Plain] | None:
    if len(text) > _MOST_JSON_CHARACTERS or not text.rstrip().endswith("}"):
        return None
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def replace_halves(text: str) -> str:
    """A text of JSON without the halves of characters that JSON can spell and UTF-8 cannot."""
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")


def _decode(numbers: list[Plain]) -> str | None:
    if not all(type(each) is int and 0 <= each < 256 for each in numbers):
        return None
    return bytes(numbers).decode("utf-8", "replace")


def _strip_quote(line: Bare) -> _Step:
    if _FENCE.match(line.text):
        return replace(line, text="")
    found = _QUOTE.match(line.text)
    return _carried(line, found.end()) if found else None


def _strip_level(line: Bare) -> _Step:
    if found := _RFC5424.match(line.text):
        return _begun(line, found.end(), is_kernel=found["unit"] == "kernel")
    found = _LEVEL.match(line.text)
    return _carried(line, found.end()) if found else None


def _strip_indented(line: Bare) -> _Step:
    """An indented line is one of a trace; only where a whole prefix follows, it is a quoted one."""
    if found := _SGLANG_CUT.match(line.text):
        return _begun(line, found.end(), rank=found["rank"])
    bare = line.text.lstrip(" ")
    if not bare.startswith(("[", "(")):
        return None
    return _strip_one(replace(line, text=bare))


def _strip_iso(line: Bare) -> _Step:
    found = _ISO.match(line.text)
    if found is None:
        return None
    end = found.end()
    if cri := _CRI.match(line.text, end):
        return replace(_carried(line, cri.end()), is_cut=cri["part"] == "P")
    unit = _strip_unit(line, end)
    if unit is not None:
        return unit
    # With a comma in the time it is dmesg's own form.
    return _begun(line, end, is_kernel=True) if "," in found[0] else _carried(line, end)


def _strip_date(line: Bare) -> _Step:
    for pattern in _DATES:
        if found := pattern.match(line.text):
            return _strip_unit(line, found.end()) or _carried(line, found.end())
    return None


def _strip_unit(line: Bare, at: int) -> _Step:
    """The host and the unit behind a time. Without a process only the kernel is known by its name:
    anything else may be words of the line."""
    found = _HOST_AND_UNIT.match(line.text, at)
    if found is None or (found["pid"] is None and found["unit"] not in ("kernel", "systemd")):
        return None
    if found["unit"] == "kernel":
        text = line.text[found.end() :]
        uptime = _UPTIME.match(text)
        bare = text[uptime.end() :] if uptime else text
        return replace(line, text=bare, is_kernel=True, is_begun=True)
    return _carried(line, found.end())


def _strip_llamacpp(line: Bare) -> _Step:
    found = _LLAMACPP.match(line.text)
    return _begun(line, found.end()) if found else None


def _strip_compose(line: Bare) -> _Step:
    found = _COMPOSE.match(line.text) if "|" in line.text[:160] else None
    return _carried(line, found.end()) if found else None


def _strip_facility(line: Bare) -> _Step:
    found = _FACILITY.match(line.text)
    if found is None:
        return None
    return replace(_carried(line, found.end()), is_kernel=found["facility"] == "kern")


def _carried(line: Bare, end: int) -> Bare:
    """Without a carrier's prefix, which says nothing of the record."""
    return replace(line, text=line.text[end:])


def _begun(line: Bare, end: int, *, rank: str = "", is_kernel: bool = False) -> Bare:
    return replace(
        line,
        text=line.text[end:],
        rank=rank or line.rank,
        is_kernel=is_kernel or line.is_kernel,
        is_begun=True,
    )
