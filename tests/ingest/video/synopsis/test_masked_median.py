"""The background is what is there without targets, also where somebody stood most of the time."""

from __future__ import annotations

import numpy as np

from ingest.video.synopsis.masked_median import ROWS, masked_median

SHAPE = (2 * ROWS + 7, 40, 3)


def test_who_stands_there_most_of_the_time_is_not_in_the_background() -> None:
    street = np.random.default_rng(4).integers(80, 150, SHAPE, dtype=np.uint8)
    pictures, targets = [], []
    for number in range(15):
        picture, target = street.copy(), np.zeros(SHAPE[:2], np.bool_)
        if number < 11:
            picture[60:100, 10:20] = 255
            target[58:102, 8:22] = True
        pictures.append(picture)
        targets.append(target)
    found, known = masked_median(pictures, targets)
    assert known.all()
    assert (found == street).all()


def test_what_was_never_free_is_told_and_has_the_median_of_all() -> None:
    pictures = [np.full(SHAPE, value, np.uint8) for value in (10, 20, 60)]
    target = np.zeros(SHAPE[:2], np.bool_)
    target[:, 5] = True
    found, known = masked_median(pictures, [target] * 3)
    assert not known[:, 5].any()
    assert known[:, :5].all()
    assert known[:, 6:].all()
    assert (found == 20).all()
