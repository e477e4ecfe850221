"""The characters of a plate as a camera sees them, in a font that a Python package carries.

In: a plate's text. Out: a mask, 0 for the ground to 255 for the ink. Never: a font of the system,
which has none with Chinese characters on most servers.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont
from pylopdf_fonts_zh_cn import sans_path

Mask = NDArray[np.uint8]

HEIGHT, FONT_PX = 22, 18
_CHINESE_WIDTH, _LATIN_WIDTH = 18, 10
_GAP = 1  # between two characters, so that no reader takes them for one
_DRAWN_CHARACTERS = 256  # of all provinces, letters and digits, and some more
_THICKENED = 1.7  # thin strokes of a small character are mostly half ink


def plate_mask(text: str) -> Mask:
    """One character beside the other."""
    gap: Mask = np.zeros((HEIGHT, _GAP), np.uint8)
    parts = [part for character in text for part in (gap, _drawn(character))]
    return np.concatenate([*parts, gap], axis=1)


@lru_cache(maxsize=_DRAWN_CHARACTERS)
def _drawn(character: str) -> Mask:
    """One character, in the middle of its place; a wide letter is made as narrow as the others."""
    wide = ord(character) > 0x7F
    font = _font()
    left, _, right, _ = font.getbbox(character, anchor="ls")
    image = Image.new("L", (max(1, round(right - left)), HEIGHT))
    base_line = HEIGHT - 5 if wide else HEIGHT - 4
    ImageDraw.Draw(image).text((-left, base_line), character, fill=255, font=font, anchor="ls")
    place = _CHINESE_WIDTH if wide else _LATIN_WIDTH
    if image.width > place:
        image = image.resize((place, HEIGHT), Image.Resampling.LANCZOS)
    drawn: Mask = np.zeros((HEIGHT, place), np.uint8)
    begin = (place - image.width) // 2
    drawn[:, begin : begin + image.width] = np.minimum(np.asarray(image) * _THICKENED, 255)
    return drawn


@lru_cache(maxsize=1)
def _font() -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(sans_path(), FONT_PX)
