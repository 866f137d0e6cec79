"""What pip is given and what its failures mean; the outputs are pip's own, as it wrote them."""

from __future__ import annotations

import pytest

from stoker.model.engine_table import Requirement
from stoker.ports import CommandResult
from stoker.preparing.failures import hide_credentials, last_line
from stoker.preparing.pip import explain_pip, pip_variables, render_requirements

MISMATCH = """\
ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE. If you have updated the \
package versions, please update the hashes. Otherwise, examine the package contents carefully; \
someone may have tampered with them.
    supervisor==4.3.0 from file:///w/supervisor-4.3.0-py2.py3-none-any.whl (from -r r.txt (line 1)):
        Expected sha256 0000763fddafba410f35cbde226aa7f8514b9fb82eb05a0c85f6588d1c13f8db
             Got        0bcb763fddafba410f35cbde226aa7f8514b9fb82eb05a0c85f6588d1c13f8db
"""
NOWHERE = """\
ERROR: Could not find a version that satisfies the requirement supervisor==4.99.0 (from versions: \
4.3.0)
ERROR: No matching distribution found for supervisor==4.99.0
"""
REFUSED_CONNECTION = """\
WARNING: Retrying (Retry(total=0, connect=None, read=None, redirect=None, status=None)) after \
connection broken by 'NewConnectionError("HTTPConnection(host='127.0.0.1', port=9): Failed to \
establish a new connection: [Errno 111] Connection refused")': /simple/supervisor/
ERROR: Could not find a version that satisfies the requirement supervisor==4.99.0 (from versions: \
none)
ERROR: No matching distribution found for supervisor==4.99.0
"""
FULL = "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device\n"
NO_PIP = "/usr/bin/python3: No module named pip\n"
REFUSED_USER = (
    "ERROR: HTTP error 403 while getting http://127.0.0.1/w.whl\n"
    "ERROR: 403 Client Error: Forbidden for url: http://127.0.0.1/w.whl\n"
)
UNTRUSTED = (
    "WARNING: Retrying (Retry(total=4, connect=None, read=None, redirect=None, status=None)) after "
    "connection broken by 'SSLError(SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED] "
    "certificate verify failed: self-signed certificate (_ssl.c:1016)'))': /simple/x/\n"
    "ERROR: No matching distribution found for x\n"
)
STRANGE = """\
ERROR: Something that nobody has seen at http://ann:pw@mirror/simple
Traceback (most recent call last):
  File "x.py", line 1, in <module>
KeyError: 'x'
"""


@pytest.mark.parametrize(
    ("stderr", "summary"),
    [
        (MISMATCH, "the file found for supervisor==4.3.0 is not the pinned one"),
        (NOWHERE, "no wheel of supervisor==4.99.0 was found for this Python and this machine"),
        (REFUSED_CONNECTION, "the package index could not be reached"),
        (FULL, "the disk is full"),
        (NO_PIP, "the Python that runs Stoker has no pip"),
        (REFUSED_USER, "the package index or its proxy refused access (status 403)"),
        (UNTRUSTED, "the certificate of the package index is not trusted"),
        (
            STRANGE,
            "pip ended with status 1: ERROR: Something that nobody has seen at http://mirror",
        ),
        ("", "pip ended with status 1: it said nothing"),
    ],
)
def test_a_failure_has_its_cause(stderr: str, summary: str) -> None:
    result = CommandResult(argv=("pip",), exit_status=1, stdout="", stderr=stderr)
    error = explain_pip(result, "engine b1")
    assert error.summary.startswith(f"engine b1: {summary}")
    assert error.hint
    assert "Traceback" not in error.summary
    assert "\n" not in error.summary


def test_only_what_leads_to_an_index_reaches_pip() -> None:
    environ = {
        "HOME": "/home/ann",
        "https_proxy": "http://proxy:3128",
        "PIP_INDEX_URL": "http://mirror/simple",
        "PIP_TARGET": "/elsewhere",
        "PIP_USER": "1",
        "PYTHONPATH": "/elsewhere",
        "LD_PRELOAD": "/x.so",
        "HF_TOKEN": "secret",
    }
    assert pip_variables(environ) == {
        "HOME": "/home/ann",
        "LANG": "C.UTF-8",
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "https_proxy": "http://proxy:3128",
        "PIP_INDEX_URL": "http://mirror/simple",
    }


def test_every_accepted_file_of_a_pin_is_named() -> None:
    pin = Requirement(
        name="x", version="1", sha256=("aa", "bb"), download_bytes=0, installed_bytes=0
    )
    assert render_requirements((pin, pin)) == 2 * "x==1 --hash=sha256:aa --hash=sha256:bb\n"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("at https://ann:p%40w@host/simple", "at https://host/simple"),
        ("https://host/a@b", "https://host/a@b"),
        ("ann@host", "ann@host"),
    ],
)
def test_no_address_shows_its_password(text: str, shown: str) -> None:
    assert hide_credentials(text) == shown


def test_the_last_line_that_says_something() -> None:
    assert last_line("a\n b \n\n") == "b"
    assert last_line(" \n") == "it said nothing"
