"""Films whose targets carry the number of their frame as a pattern, so that a synopsis can be read.

In: a path. Out: the film, and the tracks of its targets. A target is a grid of 4 x 4 squares, black
or white: the bits of the number.
"""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

FPS, FRAMES, WIDTH, HEIGHT = 25.0, 260, 320, 240
SQUARE, SIDE = 10, 4
BITS = SIDE * SIDE
DARK, LIGHT = 15, 240
WALKS = {1: (5, 60, 2), 2: (80, 60, 2), 3: (150, 140, -2)}
"""Track -> first frame, y, pixels a frame; a walk lasts a hundred frames."""
WALK_FRAMES = 100


def write_coded_film(path: Path) -> str:
    """As MJPEG; the rows of its tracks."""
    street = np.random.default_rng(1).integers(100, 150, (HEIGHT, WIDTH, 3), dtype=np.uint8)
    street = cv2.GaussianBlur(street, (9, 9), 0)
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"MJPG"), FPS, (WIDTH, HEIGHT))
    rows = []
    for number in range(FRAMES):
        frame = street.copy()
        for track, (first, y, speed) in WALKS.items():
            if first <= number < first + WALK_FRAMES:
                x = (20 if speed > 0 else 260) + speed * (number - first)
                draw_code(frame, x, y, number)
                side = SQUARE * SIDE
                rows.append(f"{number + 1},{track},{x + 1},{y + 1},{side},{side},1,-1,-1,-1")
        writer.write(frame)
    writer.release()
    return "\n".join(rows)


def draw_code(picture: NDArray[np.uint8], x: int, y: int, number: int) -> None:
    """The number at a place."""
    for bit in range(BITS):
        row, column = divmod(bit, SIDE)
        top, left = y + row * SQUARE, x + column * SQUARE
        picture[top : top + SQUARE, left : left + SQUARE] = LIGHT if number >> bit & 1 else DARK


def read_code(picture: NDArray[np.uint8], x: int, y: int) -> int:
    """The number that is drawn at a place."""
    number = 0
    for bit in range(BITS):
        row, column = divmod(bit, SIDE)
        top, left = y + row * SQUARE + 2, x + column * SQUARE + 2
        inside = picture[top : top + SQUARE - 4, left : left + SQUARE - 4]
        number |= int(inside.mean() > 128) << bit
    return number
