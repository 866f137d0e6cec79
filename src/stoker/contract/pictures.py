"""Pictures of one colour, made here: PNG as a data URL. Pure."""

from __future__ import annotations

import base64
import struct
import zlib

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
#: Eight bits for each of red, green and blue; no interlacing.
_FORM = (8, 2, 0, 0, 0)


def write_picture(colour: tuple[int, int, int], side_pixels: int = 112) -> str:
    """The data URL of a square in one colour (red, green, blue from 0 to 255)."""
    row = b"\0" + bytes(colour) * side_pixels
    header = struct.pack(">IIBBBBB", side_pixels, side_pixels, *_FORM)
    content = (
        _SIGNATURE
        + _write_chunk(b"IHDR", header)
        + _write_chunk(b"IDAT", zlib.compress(row * side_pixels, 9))
        + _write_chunk(b"IEND", b"")
    )
    return "data:image/png;base64," + base64.b64encode(content).decode("ascii")


def _write_chunk(kind: bytes, data: bytes) -> bytes:
    checksum = zlib.crc32(kind + data)
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", checksum)
