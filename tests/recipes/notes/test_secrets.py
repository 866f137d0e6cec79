"""Secrets that strangers write: by whatever name, in whatever place, none is shown or kept."""

from __future__ import annotations

import json

import pytest

from stoker.model.document import render_document
from stoker.model.note import Verdict
from stoker.recipes.notes.secrets import HIDDEN, hide_secrets, is_secret
from stoker.report.recipe_import_text import render_import
from tests.recipes.notes.notes import find, read_text

VALUE = "Zq7secretZq7"


@pytest.mark.parametrize(
    "written",
    [
        f"MYPASS={VALUE} DB_PWD={VALUE} vllm serve a/b",
        f"MYCRED={VALUE} URL_SIG={VALUE} vllm serve a/b",
        f"secretAccessKey={VALUE} vllm serve a/b",
        f"JUSTSOME={VALUE} vllm serve a/b",
        f"vllm serve a/b access_token={VALUE}",
        f"vllm serve a/b --access_token={VALUE}",
        f"vllm serve a/b --api-key {VALUE}",
        f"vllm serve a/b --api-key={VALUE}",
        f"vllm serve a/b --api-key {VALUE}a {VALUE}b",
        f"vllm serve a/b --db-pwd {VALUE} --seed 1",
        f'vllm serve a/b --hf-overrides \'{{"sig": "{VALUE}", "key": "{VALUE}"}}\'',
        f"vllm serve a/b --served-model-name sk_live_{VALUE}",
        f"vllm serve https://user:x/{VALUE}@h/x?token={VALUE}",
        f"vllm serve 'https://h/x?sig={VALUE}&key={VALUE}'",
        f"docker run -e DB_PASS={VALUE} -e X={VALUE} vllm/vllm-openai:v0.19.1 --model a/b",
    ],
)
def test_no_secret_is_shown(written: str) -> None:
    note = read_text(f"{written}\n", name="run.sh")
    assert note.commands
    assert VALUE not in render_import(note)
    assert VALUE not in json.dumps(render_document(note))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MYPASS", "v"),
        ("DB_PWD", "v"),
        ("dbPwd", "v"),
        ("AWS_CRED", "v"),
        ("secretAccessKey", "v"),
        ("url", "https://h/x?sig=v"),
        ("config", '{"a": {"secretAccessKey": "v"}}'),
        ("x", "sk_live_0123456789ab"),
        ("model", "https://user:a/b@h/x"),
    ],
)
def test_what_is_a_secret(name: str, value: str) -> None:
    assert is_secret(name, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PWD", "/root"),
        ("max-num-batched-tokens", "8192"),
        ("model", "a/b"),
        ("compilation-config", '{"pass_config": {"fuse_norm_quant": true}}'),
        ("url", "http://localhost:8000/v1"),
    ],
)
def test_what_is_none(name: str, value: str) -> None:
    assert not is_secret(name, value)


def test_sentences_stay_readable() -> None:
    text = "The key idea: use a token budget of 8192 tokens; pass --seed 1 and sig files"
    assert hide_secrets(text) == text
    assert hide_secrets("token: abc, then --api-key 'abc'") == (
        f"token: {HIDDEN} then --api-key {HIDDEN}"
    )


def test_the_value_of_a_variable_that_nobody_reads_is_not_shown() -> None:
    note = read_text("MY_THING=hello vllm serve a/b\n", name="run.sh")
    found = find(note, "MY_THING")
    assert (found.verdict, found.values) == (Verdict.FOREIGN, ())
