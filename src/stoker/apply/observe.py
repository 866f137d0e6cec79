"""What the files of a plan are right now, as images.

Called before planning and again before executing; reads only.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Callable, Collection, Iterable

from stoker.errors import HostError
from stoker.model.launch import SecretFile
from stoker.model.plan import Image
from stoker.model.units import digest_bytes
from stoker.ports import ReadableHost

#: Larger than any file that Stoker writes; a larger one is somebody else's and is not read.
LIMIT_BYTES = 16 << 20


def observe_files(
    host: ReadableHost,
    paths: Collection[str],
    *,
    me: str,
    secrets: Collection[str] = (),
    digest_secret: Callable[[bytes], str] = digest_bytes,
) -> dict[str, Image | None]:
    """An image for each path, None where there is no file.

    ``me`` is the user that Stoker runs as: a file of ours has an empty owner. The content of
    ``secrets`` is digested with ``digest_secret`` and not kept. Raises HostError for a path
    that is there but is no ordinary file or may not be read.
    """
    return {
        path: _observe_file(
            host, path, me=me, digest_secret=digest_secret if path in secrets else None
        )
        for path in paths
    }


def _observe_file(
    host: ReadableHost,
    path: str,
    *,
    me: str,
    digest_secret: Callable[[bytes], str] | None,
) -> Image | None:
    stat = host.stat(path)
    if stat is None:
        return None
    if stat.kind != "file" or stat.size_bytes > LIMIT_BYTES:
        raise HostError(
            f"{path} is not a file that Stoker wrote ({stat.kind}, {stat.size_bytes} bytes)",
            "move it away; Stoker does not overwrite what it does not know",
        )
    content = host.read_bytes(path, 0, LIMIT_BYTES)
    owner = "" if stat.owner == me else stat.owner
    if digest_secret is not None:
        return Image(digest=digest_secret(content), mode=stat.mode, owner=owner, source_path=path)
    text = content.decode("utf-8", "replace")
    return Image(digest=digest_bytes(content), mode=stat.mode, owner=owner, content=text)


def keyed_digest(key: bytes) -> Callable[[bytes], str]:
    """A digest of secrets that says nothing without ``key``: a weak API key cannot be guessed
    from a plan or a journal that somebody was shown."""
    return lambda content: hmac.digest(key, content, "sha256").hex()


def read_secret(host: ReadableHost, path: str) -> bytes:
    """The owner's secret as it is copied for the service. Raises HostError."""
    return host.read_bytes(path, 0, 1 << 16)


def first_line(content: bytes) -> str:
    """The secret itself: the first line of its file that is not empty, without blanks around it."""
    lines = content.decode("utf-8", "replace").splitlines()
    return next((line.strip() for line in lines if line.strip()), "")


def render_secret(content: bytes, entry: str) -> bytes:
    """What the service's copy of a secret holds: the owner's file, or one setting in YAML.

    A string of JSON is one of YAML (YAML 1.2, 7.3.1), whatever characters the secret has.
    """
    return f"{entry}: {json.dumps(first_line(content))}\n".encode() if entry else content


def secret_digests(
    host: ReadableHost, secrets: Iterable[SecretFile], digest_secret: Callable[[bytes], str]
) -> dict[str, str]:
    """Digests of the service's copies by their path, from the owner's files. Raises HostError."""
    return {
        secret.path: digest_secret(
            render_secret(read_secret(host, secret.source_path), secret.entry)
        )
        for secret in secrets
    }
