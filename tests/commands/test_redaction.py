"""What is private goes, the same thing to the same mark, and what is not private stays."""

from __future__ import annotations

import base64
import html
import json
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.commands.redaction import Known, Redactor

KNOWN = Known(
    secrets=("hunter2-of-mine", 'quo"ted-key'),
    hosts=("ml-rig-07.lab.example.org", "ml-rig-07"),
    users=("annelise", "root"),
    homes=("/home/annelise", "/srv/people/bob"),
)


@pytest.mark.parametrize(
    ("text", "private"),
    [
        ("--api-key hunter2-of-mine --port 1", "hunter2"),
        (json.dumps({"k": 'quo"ted-key'}), "ted-key"),
        ("HF_TOKEN=hf_AbCdEfGhIjKlMnOpQrStUvWx", "hf_AbC"),
        ("Authorization: Bearer abcdef0123456789", "abcdef0123456789"),
        ("key sk-proj-0123456789abcdefghij", "sk-proj"),
        ('"password": "correct horse"', "correct"),
        ("https://ann:pa55word@mirror.example.org/simple", "pa55word"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.abc", "eyJ"),
        ("-----BEGIN PRIVATE KEY-----\nMIIEv\n-----END PRIVATE KEY-----", "MIIEv"),
        ("mail ann.miller+x@lab.example.org now", "ann.miller"),
        ("bind 192.168.17.4:30000", "192.168.17.4"),
        ("peer 203.0.113.77, refused", "203.0.113.77"),
        ("inet6 fe80::1ff:fe23:4567:890a%eth0", "fe80"),
        ("listen [2001:db8::8a2e:370:7334]:8000", "8a2e"),
        ("ether 52:54:00:ab:cd:ef txqueuelen", "52:54:00"),
        ("GPU-8f3c2a10-1b2c-3d4e-5f60-718293a4b5c6 lost", "8f3c2a10"),
        ("uuid 8f3c2a10-1b2c-3d4e-5f60-718293a4b5c6", "8f3c2a10"),
        ('"serial": "1652923012345"', "1652923012345"),
        ("Serial Number : 1652923012345", "1652923012345"),
        ("Nov 30 22:43:38 other-box kernel: NVRM: Xid", "other-box"),
        ("2026-11-30T22:43:38+0000 other-box systemd[1]: started", "other-box"),
        ("host ml-rig-07 of ml-rig-07.lab.example.org", "ml-rig"),
        ("owner annelise", "annelise"),
        ("/home/annelise/models and /home/carl/.cache", "carl"),
        ("/srv/people/bob/x.gguf", "bob"),
        ("AWS_SECRET_ACCESS_KEY=abcdefGHIJ1234", "abcdef"),
        ("OPENAI_KEY=abcdefGHIJ1234 MYSQL_PWD=qwertyGHIJ1234", "qwerty"),
        ("api_key=123456789012", "123456"),
        ('["--api-key", "abcdefGHIJ1234"]', "abcdef"),
        ("['--api-key', 'abcdefGHIJ1234']", "abcdef"),
        ('"--hf-token",\n  "abcdefGHIJ1234"', "abcdef"),
        ("--api-key\0abcdefGHIJ1234\0--port", "abcdef"),
        ("Set-Cookie: sid=abcdefGHIJ1234; Path=/", "abcdef"),
        ("https://s3/x?a=1&X-Amz-Signature=abcdefGHIJ1234", "abcdef"),
        ("https://hooks.slack.com/services/T00/B00/abcdefGHIJ1234", "abcdef"),
        ("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIabcdefGHIJ1234abcdefGHIJ1234", "abcdef"),
        ("ip-10-1-2-3.ec2.internal", "10-1-2-3"),
        ("MASTER_ADDR=node17.cluster.corp", "node17"),
        ("--dist-init-addr node17:5000", "node17"),
        ("%2Fhome%2Fbob%2Fx", "bob"),
        ("C:\\Users\\carl\\x", "carl"),
        ("machine-id 8f3c2a101b2c3d4e5f60718293a4b5c6", "8f3c2a10"),
        ("ML-RIG-07: started", "ML-RIG"),
    ],
)
def test_private_things_go(text: str, private: str) -> None:
    assert private in text
    assert private not in Redactor(KNOWN).redact(text)


@pytest.mark.parametrize(
    "text",
    [
        "Uvicorn running on http://127.0.0.1:30000 and http://0.0.0.0:30000",
        "localhost, ::1 and ::",
        "PCI 0000:01:00.0, 12:34:56 on 2026-11-30 22:43:38",
        "gen throughput (token/s): 51.20, token usage: 0.35, #queue-req: 0",
        "max_total_num_tokens=159132, api_key=None, served_model_name='qwen'",
        "torch 2.9.1+cu128, driver 580.65.06, sglang 0.5.23",
        "root and nobody own /opt/stoker/environments/sglang",
        "Set `--mem-fraction-static` above 0.609; tokenizer path: /models/q",
        "token usage budget, secret file missing",
        '"image-max-tokens": 4096, "num_tokens": 1234567, "--max-tokens", "4096"',
        '{"api-key": 12345678, "dist-init-addr": null, "head_addr": false}',
        "KEY_FILE=/srv/key, api_key_file: /root/key",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert Redactor(KNOWN).redact(text) == text


@pytest.mark.parametrize("secret", ["hunter2-of-mine", 'ab/cd+ef g="ä"h'])
def test_a_key_goes_in_every_spelling(secret: str) -> None:
    """As programs write it into addresses, headers, JSON in JSON, and dumps."""
    raw = secret.encode()
    spelled = [
        json.dumps(json.dumps(secret)),
        json.dumps(secret, ensure_ascii=False),
        repr(secret),
        html.escape(secret),
        quote(secret, safe=""),
        quote_plus(secret),
        raw.hex(),
        *(base64.b64encode(b"user:"[:length] + raw + b"!").decode() for length in range(6)),
        base64.urlsafe_b64encode(raw).decode(),
    ]
    redactor = Redactor(Known(secrets=(secret,)))
    for text in spelled:
        assert "<key-1>" in redactor.redact(f"x {text} y"), text
    assert redactor.found == {"key": 1}


@pytest.mark.parametrize(
    "piece",
    [
        "-",
        "--a",
        "a-",
        ":",
        "a:",
        "1.",
        "a@",
        "token=",
        "secret_",
        "http://a:",
        '--token",',
        "/home/",
    ],
)
def test_a_long_text_of_one_piece_is_read_like_another(piece: str) -> None:
    """Were a pattern to look from each place to the end, this would take minutes."""
    text = (piece * (16_000 // len(piece)) + "z\n") * 10
    redactor = Redactor(KNOWN)
    assert redactor.redact(redactor.redact(text)) == redactor.redact(text)


def test_the_same_thing_is_the_same_mark() -> None:
    redactor = Redactor(KNOWN)
    first = redactor.redact("from 10.0.0.1 to 10.0.0.2")
    second = redactor.redact("10.0.0.2 answered 10.0.0.1")
    assert first == "from <address-1> to <address-2>"
    assert second == "<address-2> answered <address-1>"
    assert redactor.found == {"address": 2}


@given(st.text(max_size=400))
def test_any_text_is_read_and_twice_is_once(text: str) -> None:
    redactor = Redactor(KNOWN)
    once = redactor.redact(text)
    assert redactor.redact(once) == once


@given(st.recursive(st.text(max_size=40), lambda inner: st.lists(inner, max_size=3), max_leaves=6))
def test_json_stays_json(value: object) -> None:
    planted = {"a": value, "ip": "10.1.2.3", "key": 'quo"ted-key', "path": "/home/annelise/x"}
    found = json.loads(Redactor(KNOWN).redact(json.dumps(planted)))
    assert found["ip"].startswith("<address-")
    assert found["key"].startswith("<key-")
