"""Looking at a picture as a model with eyes would: the name of its colour, and how much it weighs.

Pure. PNG alone is understood, which is what tests send; another picture is one that it cannot see.
"""

from __future__ import annotations

import base64
import binascii
import struct
import zlib
from dataclasses import dataclass

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}

#: One token stands for a square of so many pixels, as in common vision models.
_PATCH_PIXELS = 28
_LEAST_TOKENS = 4

_COLOURS = {
    "red": (230, 20, 20),
    "green": (20, 170, 40),
    "blue": (20, 40, 230),
    "yellow": (250, 230, 20),
    "orange": (250, 140, 10),
    "purple": (130, 20, 140),
    "pink": (250, 150, 190),
    "brown": (120, 70, 20),
    "cyan": (20, 230, 230),
    "black": (0, 0, 0),
    "white": (255, 255, 255),
    "grey": (128, 128, 128),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A picture: its size and the average of its pixels as red, green and blue, 0 to 255."""

    width: int
    height: int
    colour: tuple[float, float, float]

    @property
    def tokens(self) -> int:
        """What it weighs in a prompt."""
        across, down = (-(-size // _PATCH_PIXELS) for size in (self.width, self.height))
        return max(_LEAST_TOKENS, across * down)

    @property
    def colour_name(self) -> str:
        """The nearest colour that has a name here."""
        return min(_COLOURS, key=lambda name: _distance(_COLOURS[name], self.colour))


def _distance(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    return sum((a - b) ** 2 for a, b in zip(one, other, strict=True))


def read_picture(url: str) -> Picture | None:
    """The picture of a data URL, None for what is no PNG in one."""
    head, _, data = url.partition(",")
    if not head.startswith("data:image/") or not head.endswith(";base64"):
        return None
    try:
        return _read_png(base64.b64decode(data, validate=True))
    except (binascii.Error, struct.error, zlib.error, ValueError, IndexError, KeyError):
        return None


def _read_png(content: bytes) -> Picture | None:
    if not content.startswith(_SIGNATURE):
        return None
    chunks = dict[bytes, bytes]()
    place = len(_SIGNATURE)
    while place + 8 <= len(content):
        size, kind = struct.unpack_from(">I4s", content, place)
        chunks[kind] = chunks.get(kind, b"") + content[place + 8 : place + 8 + size]
        place += size + 12
    width, height, depth, form, _, _, interlaced = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    if interlaced or depth != 8 or not width or not height:
        return None
    rows = _unfilter(zlib.decompress(chunks[b"IDAT"]), width * _CHANNELS[form], _CHANNELS[form])
    colour = _average(rows[:height], form, chunks.get(b"PLTE", b""))
    return Picture(width=width, height=height, colour=colour)


def _unfilter(data: bytes, row_bytes: int, step: int) -> list[bytearray]:
    """The rows of pixels; each says how it was made from its neighbours (PNG, section 9)."""
    rows, before = [], bytearray(row_bytes)
    for start in range(0, len(data) - row_bytes, row_bytes + 1):
        kind, row = data[start], bytearray(data[start + 1 : start + 1 + row_bytes])
        for place in range(row_bytes):
            left = row[place - step] if place >= step else 0
            corner = before[place - step] if place >= step else 0
            row[place] = (row[place] + _predict(kind, left, before[place], corner)) & 255
        rows.append(row)
        before = row
    return rows


def _predict(kind: int, left: int, above: int, corner: int) -> int:
    if kind == 4:
        guess = left + above - corner
        return min((left, above, corner), key=lambda each: abs(guess - each))
    return (0, left, above, (left + above) // 2)[kind]


def _average(rows: list[bytearray], form: int, palette: bytes) -> tuple[float, float, float]:
    step = _CHANNELS[form]
    pixels = [row[place : place + step] for row in rows for place in range(0, len(row), step)]
    if form == 3:
        pixels = [bytearray(palette[3 * pixel[0] : 3 * pixel[0] + 3]) for pixel in pixels]
    colours = [pixel[:3] if len(pixel) >= 3 else pixel[:1] * 3 for pixel in pixels]
    red, green, blue = (sum(colour[each] for colour in colours) / len(colours) for each in range(3))
    return red, green, blue
