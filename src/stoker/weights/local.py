"""Model files that lie on this host: which one is meant, and whether it can be one at all.

Called when a plan is made and when a fetch has ended. It only reads, and only the first bytes.
"""

from __future__ import annotations

import posixpath

from stoker.errors import HostError
from stoker.ports import ReadableHost
from stoker.weights.reference import PathModel, check_inside, choose_model_file

_GGUF_MAGIC = b"GGUF"
#: Magic, version, count of tensors and count of metadata (docs/gguf.md of ggml): 4 + 4 + 8 + 8.
_GGUF_HEADER_BYTES = 24
_LFS_POINTER = b"version https://git-lfs"


def find_local_model(model: PathModel, file: str | None, host: ReadableHost) -> str:
    """The file or folder that the engine gets.

    A folder that holds one GGUF model means that model. Raises UsageError when it holds several.
    What cannot be read is answered as it is named: the rules will say what is wrong with it.
    """
    if file is not None:
        return posixpath.join(model.path, check_inside(file))
    try:
        found = host.stat(model.path)
        if found is None or found.kind != "folder":
            return model.path
        chosen = choose_model_file(host.list_folder(model.path), model.path)
    except HostError:
        return model.path
    return posixpath.join(model.path, chosen) if chosen else model.path


def check_model(path: str, host: ReadableHost) -> str:
    """Why this cannot be a model, or the empty text. A folder is taken at its word."""
    try:
        found = host.stat(path)
        if found is None:
            return f"{path} does not exist"
        if found.kind == "folder":
            return ""
        start = host.read_bytes(path, 0, _GGUF_HEADER_BYTES)
    except HostError as error:
        return error.summary
    if start.startswith(_LFS_POINTER):
        return f"{path} is only a Git LFS pointer to the model: fetch it with `git lfs pull`"
    if not start.startswith(_GGUF_MAGIC):
        return f"{path} is not a GGUF file: it begins with {start[:4]!r}"
    if len(start) < _GGUF_HEADER_BYTES:
        return f"{path} is cut short: it has only {found.size_bytes} bytes"
    return ""
