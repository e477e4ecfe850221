"""Draws number plates as they are made: one row of characters on blue, yellow or green.

In: a plate's text, its style. Out: an image (BGR, uint8), four pixels a centimetre and more. Never:
the face of GB plates, which no package carries: the characters are those of Noto Sans SC, drawn
bold and fitted into the places that GA 36 gives them.
"""

from __future__ import annotations

import random
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont
from pylopdf_fonts_zh_cn import sans_path

from bus.domain.plates import PROVINCES

Picture = NDArray[np.uint8]

LETTERS, DIGITS = "ABCDEFGHJKLMNPQRSTUVWXYZ", "0123456789"  # GA 36: neither I nor O
MOST_LETTERS = 2
"""Of a serial of five."""
_HEIGHT_MM, _CHARACTER_MM = 140, 90
_BOLD_PX = 3
_FONT_PX = 120


class PlateStyle(NamedTuple):
    """Colours (BGR) and measures in millimetres of one kind of plate."""

    name: str
    ground: tuple[int, int, int]
    ink: int
    width_mm: int
    place_mm: int
    gap_mm: int


BLUE = PlateStyle("blue", (190, 70, 20), 255, 440, 45, 12)
YELLOW = PlateStyle("yellow", (40, 190, 245), 0, 440, 45, 12)
GREEN = PlateStyle("green", (140, 205, 120), 0, 480, 43, 9)
_STYLES, _SHARES = (BLUE, YELLOW, GREEN), (6, 1, 3)


def drawn_plate(rng: random.Random) -> tuple[str, PlateStyle]:
    """A plate of any province, and the style that belongs to it."""
    style = rng.choices(_STYLES, _SHARES)[0]
    begin = rng.choice(PROVINCES) + rng.choice(LETTERS)
    if style is GREEN:  # the first of six is D or F, the second may be a letter
        serial = rng.choice("DF") + rng.choice(LETTERS + DIGITS) + _digits(rng, 4)
    else:
        serial = drawn_serial(rng)
    return begin + serial, style


def drawn_serial(rng: random.Random) -> str:
    """Five digits, of which at most two are letters instead."""
    serial = list(_digits(rng, 5))
    for at in rng.sample(range(5), rng.randint(0, MOST_LETTERS)):
        serial[at] = rng.choice(LETTERS)
    return "".join(serial)


def picture_of(plate: str, style: PlateStyle) -> Picture:
    """The plate from the front, two pixels a millimetre."""
    scale = 2
    mask = np.zeros((_HEIGHT_MM * scale, style.width_mm * scale), np.uint8)
    top, high = (_HEIGHT_MM - _CHARACTER_MM) * scale // 2, _CHARACTER_MM * scale
    wide = style.place_mm * scale
    used = len(plate) * style.place_mm + (len(plate) + 1) * style.gap_mm + _dot_mm(style)
    at = (style.width_mm - used) * scale / 2 + style.gap_mm * scale
    for index, character in enumerate(plate):
        begin = round(at)
        mask[top : top + high, begin : begin + wide] = _character(character, wide, high)
        at += wide + style.gap_mm * scale
        if index == 1:
            _draw_dot(mask, round(at), scale)
            at += _dot_mm(style) * scale
    ground = np.array(style.ground, np.float32)
    ink = np.full(3, style.ink, np.float32)
    share = mask[..., None].astype(np.float32) / 255
    return (ground * (1 - share) + ink * share).astype(np.uint8)


def _dot_mm(style: PlateStyle) -> int:
    return 10 + style.gap_mm


def _draw_dot(mask: Picture, at: int, scale: int) -> None:
    middle, half = mask.shape[0] // 2, 5 * scale
    mask[middle - half : middle + half, at : at + 2 * half] = 255


def _digits(rng: random.Random, count: int) -> str:
    return "".join(rng.choice(DIGITS) for _ in range(count))


@lru_cache(maxsize=512)  # provinces, letters and digits in two widths
def _character(character: str, wide: int, high: int) -> Picture:
    """Its ink, as large as its place; one that is narrow by nature stays so."""
    font = ImageFont.truetype(sans_path(), _FONT_PX)
    left, top, right, bottom = font.getbbox(character, stroke_width=_BOLD_PX)
    image = Image.new("L", (round(right - left), round(bottom - top)))
    ImageDraw.Draw(image).text(
        (-left, -top), character, fill=255, font=font, stroke_width=_BOLD_PX, stroke_fill=255
    )
    narrow = min(wide, round(image.width * high / image.height))
    image = image.resize((narrow, high), Image.Resampling.LANCZOS)
    drawn: Picture = np.zeros((high, wide), np.uint8)
    begin = (wide - narrow) // 2
    drawn[:, begin : begin + narrow] = np.asarray(image)
    return drawn
