"""A small PNG made from numbers: one byte per pixel, an index into a palette."""

from __future__ import annotations

import struct
import zlib
from base64 import b64encode
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

LEVELS = 254
"""The highest level that a pixel can have."""

ANCHORS = (
    (68, 1, 84), (72, 40, 120), (62, 73, 137), (49, 104, 142), (38, 130, 142),
    (31, 158, 137), (53, 183, 121), (110, 206, 88), (181, 222, 43), (253, 231, 37),
)  # fmt: skip
"""Palette from zero to the maximum in equal steps: viridis (van der Walt and Smith, 2015, CC0), colour-blind safe."""


def colours(levels: int) -> list[tuple[int, int, int]]:
    """A colour for each level from 0 to `levels`."""
    places = np.linspace(0, len(ANCHORS) - 1, levels + 1) if levels else np.zeros(1)
    parts = [np.interp(places, range(len(ANCHORS)), channel) for channel in zip(*ANCHORS, strict=True)]
    return [(round(r), round(g), round(b)) for r, g, b in zip(*(part.tolist() for part in parts), strict=True)]


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(pixels: NDArray[np.uint8], palette: Sequence[tuple[int, int, int]]) -> bytes:
    """A picture of `pixels` [height, width], each the number of a colour in `palette`; the number after them is blank.

    Rows are unfiltered and the data is one chunk, so that a page's script can read the numbers back.
    """
    height, width = pixels.shape
    table = bytes(part for colour in (*palette, (0, 0, 0)) for part in colour)
    clear = bytes([255] * len(palette) + [0])
    rows = np.hstack([np.zeros((height, 1), np.uint8), pixels]).tobytes()
    return b"".join(
        (
            b"\x89PNG\r\n\x1a\n",
            _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
            _chunk(b"PLTE", table),
            _chunk(b"tRNS", clear),
            _chunk(b"IDAT", zlib.compress(rows, 9)),
            _chunk(b"IEND", b""),
        )
    )


def data_url(picture: bytes) -> str:
    """The picture as a data URL."""
    return f"data:image/png;base64,{b64encode(picture).decode()}"
