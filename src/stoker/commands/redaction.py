"""Taking out of a text what is nobody else's affair, so that it can be sent to strangers.

Called by :mod:`stoker.commands.bundle`. Pure. The same thing gets the same mark wherever it stands,
so a reader still sees that two lines speak of one host. What Stoker knows by itself (keys, names)
is replaced word by word; the rest is known by its looks, and rather too much goes than too little.
"""

from __future__ import annotations

import base64
import html
import ipaddress
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import quote, quote_plus

#: Shorter words (`a`, `gpu`) stand in too many others, and tell nobody anything.
_LEAST_WORD = 3
#: The encoding of fewer bytes stands in other texts by chance.
_LEAST_ENCODED = 6
#: Users that every machine has.
_ORDINARY_USERS = frozenset({"root", "nobody", "nogroup", "daemon", "bin", "sys", "admin", "user"})
_ORDINARY_HOSTS = frozenset(
    {"localhost", "localhost.localdomain", "ip6-localhost", "none", "null", "true", "false", "auto"}
)
#: Addresses that are the same on every machine.
_ORDINARY_NETS = tuple(
    map(ipaddress.ip_network, ("127.0.0.0/8", "0.0.0.0/32", "255.0.0.0/8", "::/127"))
)

_KEY_BLOCK = re.compile(
    r"-----BEGIN [A-Z ]*(?:PRIVATE KEY|CERTIFICATE)-----.*?(?:-----END [A-Z ]*-----|\Z)", re.DOTALL
)
#: By the letters with which their makers let them begin, or by their form.
_TOKEN = re.compile(
    r"\b(?:sk|hf|hf_oauth|ghp|gho|ghs|github_pat|glpat|nvapi|xox[abprs]|ya29|AKIA|ASIA|AIza|npm|pypi|wandb"
    r"|tskey|dop_v1|dckr_pat|AGE-SECRET-KEY)[-_.]?[A-Za-z0-9_-]{16,}"
    r"|\btskey-[A-Za-z0-9-]{8,}"
    r"|\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"
    r"|\bAAAA[BCE][A-Za-z0-9+/]{20,}={0,2}"  # a key of ssh
    r"|\bSHA256:[A-Za-z0-9+/]{43}\b"  # its fingerprint
    r"|(?<=hooks\.slack\.com/services/)[A-Za-z0-9/]+"
)
#: Behind a name that says what it is: after a sign, after a flag (of a shell's line, of a list or
#: of what the kernel shows), or after the word of a header. The value ends where its string ends,
#: or the word. Whatever repeats here has a bound: a long text of one letter takes no longer than
#: another.
_NAMES = (
    r"(?:(?<![\w-])[\w-]{0,64}(?:api[_-]?key|access[_-]?key|secret(?:[_-]\w{1,32})?|passw(?:or)?d|passphrase|[_-]token"
    r"|\btoken|private[_-]?key|credential)s?"
    r"|(?-i:\b[A-Z][A-Z0-9_]{0,64}_(?:KEY|PWD|PASS|AUTH)\b))"
)
_FLAG_NAMES = _NAMES.replace(r"(?<![\w-])", "")
_NAMED_SECRET = re.compile(
    rf"(?P<before>\b(?:bearer|basic)\s+|(?<!-)--(?!-){_FLAG_NAMES}(?:\s+|\x00|\\?[\"'],\s*(?=\\?[\"']))"
    rf"|{_NAMES}(?:\\?[\"'])?\s*[=:]\s*)"
    r"(?:(?P<quote>\\?[\"'])(?P<quoted>[^\"'\\]{4,})|(?P<value>[^\s\"'\\,;&}\])\x00]{6,}))",
    re.IGNORECASE,
)
_COOKIE = re.compile(
    r"(?P<before>\b(?:set-)?cookie\\?[\"']?\s*:\s*\\?[\"']?)(?P<value>[^\r\n\"'\\]+)", re.IGNORECASE
)
#: What signs an address of the web, so that whoever has it may go there.
_SIGNED = re.compile(
    r"(?P<before>[?&](?:sig|signature|key|code|x-(?:amz|goog)-(?:signature|credential|security-token))=)"
    r"(?P<value>[^&\s\"'\\]+)",
    re.IGNORECASE,
)
#: Words that stand behind such a name and are none.
_NO_SECRET = re.compile(
    r"^(?:none|null|true|false|auto|\[?redacted|<.*>|unknown|missing|required|invalid|digest:.*|"
    r"/[^+=]*|\{.*|tokens?|is|not|was|for|and|the|file|files|usage|budget|count|limit|length|throughput.*)$",
    re.IGNORECASE,
)
#: A count of tokens is as long as this, and so may be the number of a door.
_LEAST_DIGITS = 6
_URL_LOGIN = re.compile(
    r"(?P<before>\b[a-z][a-z0-9+.-]{0,32}://)[^\s/@\"']{1,256}:[^\s/@\"']{1,1024}@", re.IGNORECASE
)
_MAIL = re.compile(r"\b[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,24}\b")
_MAC = re.compile(r"(?<![0-9A-Fa-f:-])(?:[0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}(?![0-9A-Fa-f:-])")
_IP4 = re.compile(r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?!\.?\d)")
_IP6 = re.compile(
    r"(?<![0-9A-Za-z:.])(?=[0-9A-Fa-f]{0,4}:[0-9A-Fa-f]{0,4}:)[0-9A-Fa-f:]{2,39}[0-9A-Fa-f:.]{0,16}"
    r"(?![0-9A-Za-z:])"
)
_GPU = re.compile(
    r"\b(?:GPU|MIG)-[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}(?:/\d+/\d+)?"
)
_UUID = re.compile(r"\b[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}\b")
_SERIAL = re.compile(
    r"(?P<before>\bserial(?:[ _-]?(?:number|no))?\.?\\?[\"']?\s*[:=]\s*\\?[\"']?)"
    r"(?P<value>[A-Za-z0-9][A-Za-z0-9-]{4,})",
    re.IGNORECASE,
)
_ID = re.compile(
    r"(?P<before>\b(?:machine|boot)[ _-]?id\\?[\"']?\s*[:=]?\s*\\?[\"']?)(?P<value>[0-9a-f]{32})\b",
    re.IGNORECASE,
)
_HOME = re.compile(
    r"(?P<before>(?:/|%2F|\\+)(?:home|Users)(?:/|%2F|\\+))(?P<value>[^/\s\"'\\:,;<>%]+)",
    re.IGNORECASE,
)
#: As a cloud names its machines, by their addresses.
_CLOUD_HOST = re.compile(r"\bip-\d{1,3}(?:-\d{1,3}){3}(?:\.[\w.-]+)?\b")
#: Where the processes of one server meet.
_NAMED_HOST = re.compile(
    r"(?P<before>\b(?:master|dist|init|head|node)[\w-]*addr(?:ess)?\\?[\"']?(?:\s*[=:]\s*|,?\s+)\\?[\"']?)"
    r"(?P<value>[A-Za-z][\w-]*(?:\.[\w-]+)*)(?=[\s:\"'\\,)]|$)",
    re.IGNORECASE | re.MULTILINE,
)
_JOURNAL_HOST = re.compile(
    r"^(?P<before>[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d |\d{4}-\d\d-\d\dT[\d:,.]+[+-]\d\d:?\d\d )"
    r"(?P<value>[\w.-]+)(?= [\w@./-]+(?:\[\d+\])?:)",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known to be private here: ``secrets`` as they are, and the names of ``hosts``,
    ``users`` and their ``homes`` (folders)."""

    secrets: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    homes: tuple[str, ...] = ()


class Redactor:
    """Replaces private things by marks, the same thing always by the same one."""

    def __init__(self, known: Known) -> None:
        self._marks: dict[tuple[str, str], str] = {}
        self._counts: Counter[str] = Counter()
        forms = {
            form: secret
            for secret in known.secrets
            if len(secret) >= _LEAST_WORD
            for form in _list_forms(secret)
        }
        self._secrets = {form: forms[form] for form in _longest_first(forms)}
        self._homes = _longest_first(home for home in known.homes if home.count("/") > 1)
        self._words = tuple(_list_words(known))

    @property
    def found(self) -> Mapping[str, int]:
        """How many different things of each kind were replaced."""
        return dict(sorted(self._counts.items()))

    def redact(self, text: str) -> str:
        """The text with marks in the place of what is private. Marks keep JSON what it is."""
        for secret in self._secrets:
            if secret in text:
                text = text.replace(secret, self._mark("key", self._secrets[secret]))
        text = _KEY_BLOCK.sub(lambda found: self._mark("key", found[0]), text)
        text = _TOKEN.sub(lambda found: self._mark("key", found[0]), text)
        text = _COOKIE.sub(self._behind("key"), text)
        text = _SIGNED.sub(self._behind("key"), text)
        text = _NAMED_SECRET.sub(self._named_secret, text)
        text = _URL_LOGIN.sub(
            lambda found: f"{found['before']}{self._mark('key', found[0])}@", text
        )
        text = _MAIL.sub(lambda found: self._mark("mail", found[0].lower()), text)
        text = _GPU.sub(lambda found: self._mark("device", found[0].lower()), text)
        text = _UUID.sub(lambda found: self._mark("id", found[0].lower()), text)
        text = _ID.sub(self._behind("id"), text)
        text = _SERIAL.sub(self._behind("serial"), text)
        text = _MAC.sub(lambda found: self._mark("mac", found[0].lower().replace("-", ":")), text)
        text = _IP4.sub(self._address, text)
        text = _IP6.sub(self._address, text)
        for home in self._homes:
            pattern = re.compile(re.escape(home) + r"(?=[/\s\"'\\:,;]|$)", re.MULTILINE)
            text = pattern.sub(lambda _, home=home: self._mark("home", home), text)  # type: ignore[misc]
        text = _HOME.sub(self._behind("user"), text)
        text = _CLOUD_HOST.sub(lambda found: self._mark("host", found[0]), text)
        text = _NAMED_HOST.sub(self._behind("host"), text)
        text = _JOURNAL_HOST.sub(self._behind("host"), text)
        for kind, word, pattern in self._words:
            text = pattern.sub(self._marker(kind, word), text)
        return text

    def _mark(self, kind: str, value: str) -> str:
        if (kind, value) not in self._marks:
            self._counts[kind] += 1
            self._marks[kind, value] = f"<{kind}-{self._counts[kind]}>"
        return self._marks[kind, value]

    def _marker(self, kind: str, word: str) -> Callable[[re.Match[str]], str]:
        return lambda _: self._mark(kind, word)

    def _behind(self, kind: str) -> Callable[[re.Match[str]], str]:
        """Replaces the value and keeps what stands before it."""

        def replace(found: re.Match[str]) -> str:
            value = found["value"]
            return found["before"] + (
                value if _is_ordinary(kind, value) else self._mark(kind, value)
            )

        return replace

    def _named_secret(self, found: re.Match[str]) -> str:
        value = found["value"] or found["quoted"]
        if _NO_SECRET.match(value) or value.startswith("<"):
            return found[0]
        is_number = not found["quote"] and found["before"].rstrip(" ").endswith(('":', "':"))
        if value.isdigit() and (
            is_number or "token" in found["before"].lower() or len(value) < _LEAST_DIGITS
        ):
            return found[0]
        return found["before"] + (found["quote"] or "") + self._mark("key", value)

    def _address(self, found: re.Match[str]) -> str:
        text = found[0].rstrip(".:") if found[0].endswith((".", ":")) else found[0]
        rest = found[0][len(text) :]
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            return found[0]
        if any(address in net for net in _ORDINARY_NETS if net.version == address.version):
            return found[0]
        return self._mark("address", str(address)) + rest


def _is_ordinary(kind: str, value: str) -> bool:
    ordinary = {"user": _ORDINARY_USERS, "host": _ORDINARY_HOSTS}.get(kind, frozenset())
    return value.lower() in ordinary or value.startswith("<")


def _list_words(known: Known) -> Iterable[tuple[str, str, re.Pattern[str]]]:
    for kind, words, ordinary in (
        ("host", known.hosts, _ORDINARY_HOSTS),
        ("user", known.users, _ORDINARY_USERS),
    ):
        for word in _longest_first(words):
            if len(word) >= _LEAST_WORD and word not in ordinary:
                # Names of hosts are the same in capitals.
                flags = re.IGNORECASE if kind == "host" else re.NOFLAG
                yield kind, word, re.compile(rf"(?<![\w<]){re.escape(word)}(?![\w>])", flags)


def _list_forms(secret: str) -> Iterator[str]:
    """How a text may hold a secret: as it is, and as programs write it down."""
    yield secret
    for is_ascii in (True, False):
        once = json.dumps(secret, ensure_ascii=is_ascii)[1:-1]
        yield from (once, json.dumps(once, ensure_ascii=is_ascii)[1:-1])
    yield repr(secret)[1:-1]
    yield from (html.escape(secret), html.escape(secret, quote=False))
    for quoted in (quote(secret, safe=""), quote(secret), quote_plus(secret)):
        yield from (quoted, re.sub("%..", lambda found: found[0].lower(), quoted))
    raw = secret.encode("utf-8", "surrogateescape")
    if len(raw) >= _LEAST_ENCODED:
        yield from (raw.hex(), raw.hex().upper())
        for offset in range(3):
            # Behind one or two bytes of something else it reads differently; what depends on
            # the bytes around it is left out.
            text = base64.b64encode(bytes(offset) + raw).decode()
            inner = text[(0, 2, 3)[offset] : (offset + len(raw)) * 8 // 6]
            yield from (inner, inner.replace("+", "-").replace("/", "_"))


def _longest_first(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({word for word in words if word}, key=lambda word: (-len(word), word)))
