"""A film without tracks is searched; its tubes have a box for every frame, in the film's pixels."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np

from ingest.video.boxes import Box
from ingest.video.settings import VideoSettings
from ingest.video.synopsis.searching import found_tubes

FPS, FRAMES, BEGIN = 20.0, 110, 40


def write_street(path: Path) -> None:
    """A still street, on which a red thing drives from left to right from a frame on."""
    street = np.random.default_rng(1).integers(90, 140, (240, 320, 3), dtype=np.uint8)
    street = cv2.GaussianBlur(street, (9, 9), 0)
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"MJPG"), FPS, (320, 240))
    for number in range(FRAMES):
        frame = street.copy()
        if number >= BEGIN:
            x = 3 * (number - BEGIN)
            cv2.rectangle(frame, (x, 120), (x + 71, 167), (20, 20, 200), -1)
        writer.write(frame)
    writer.release()


def test_what_moves_in_a_film_becomes_a_tube_that_lies_on_it(tmp_path: Path) -> None:
    path, seen = tmp_path / "street.avi", list[int]()
    write_street(path)
    settings = VideoSettings(analysed_width_px=160)  # boxes come back in pixels of the film
    tube = max(found_tubes(path, FPS, settings, None, seen.append), key=len)
    assert seen == list(range(0, FRAMES, 2)), "every second frame is searched"
    assert len(tube) == tube.last - tube.first + 1
    assert tube.first <= BEGIN + 10
    for frame in range(BEGIN + 12, tube.last - 5):
        box = Box(*(float(side) for side in tube.boxes[frame - tube.first]))
        true = Box(3.0 * (frame - BEGIN), 120, 72, 48)
        assert box.common(true) > 0.5 * box.area, "of one colour, it moves at its front"
