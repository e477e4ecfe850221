"""The pictures that the city draws show what its records say, the whole plate above all."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from bus.domain.plates import PROVINCES
from ingest.senders.simulator import pictures
from ingest.senders.simulator.names import PLATE_REGIONS
from ingest.senders.simulator.pictures import vehicle_picture
from ingest.senders.simulator.plate_text import HEIGHT, plate_mask
from ingest.senders.simulator.population import Vehicle, make_vehicle

LATIN = "ABCDEFGHJKLMNPQRSTUVWXYZ0123456789"
FIRST_PX = 20  # the province's character and the gaps beside it
INK = 128  # of 255: strokes, not the noise of a JPEG
LEAST_INK = 25  # pixels; the simplest province, 川, has 42


def read(vehicle: Vehicle) -> NDArray[np.int16]:
    """The plate of the picture as a camera would see it: how far each pixel is from the ground, 0 to 255."""
    image = cv2.imdecode(np.frombuffer(vehicle_picture(vehicle), np.uint8), cv2.IMREAD_COLOR)
    width = plate_mask(vehicle.plate_number).shape[1]
    left, top = (pictures.WIDTH - width) // 2, pictures.PLATE_TOP
    plate = image[top : top + HEIGHT, left : left + width].astype(np.int16)
    ground = np.median(plate.reshape(-1, 3), axis=0)
    distance = np.abs(plate - ground).max(axis=2)
    return (distance * 255 // max(1, distance.max())).astype(np.int16)


def car(plate_number: str, plate_color: str = "蓝色") -> Vehicle:
    return replace(make_vehicle(1, 7, 90), plate_number=plate_number, plate_color=plate_color)


@pytest.mark.parametrize("plate_color", ["蓝色", "绿色", "黄色", "无"])
def test_the_first_character_is_drawn_and_no_two_provinces_look_alike(plate_color: str) -> None:
    """Regression: the plates of the city's pictures lacked their province."""
    regions = sorted({*PROVINCES, *(region[0] for region, _ in PLATE_REGIONS)})
    firsts = [read(car(f"{region}A12345", plate_color))[:, :FIRST_PX] > INK for region in regions]
    assert all(first.sum() >= LEAST_INK for first in firsts), regions
    for (one, first), (other, second) in combinations(zip(regions, firsts, strict=True), 2):
        assert (first != second).sum() >= LEAST_INK, (one, other)


def test_a_character_that_the_font_lacks_would_be_noticed() -> None:
    """All that are missing have the same sign: no province and no letter may be drawn like it."""
    missing = plate_mask("\U000f0000")
    drawn = {character: plate_mask(character) for character in [*PROVINCES, *LATIN]}
    assert not [c for c, mask in drawn.items() if np.array_equal(mask, missing)]
    assert len({mask.tobytes() for mask in drawn.values()}) == len(drawn)


@given(
    number=st.tuples(st.sampled_from(sorted(PROVINCES)), st.text(LATIN, min_size=6, max_size=7)),
    color=st.sampled_from(["蓝色", "绿色", "黄色"]),
)
def test_what_a_camera_reads_of_the_picture_is_the_plate(number: tuple[str, str], color: str) -> None:
    """Each place of the picture is more like its own character than like any other."""
    plate = "".join(number)
    seen = read(car(plate, color))
    left = 0
    for character in plate:
        alphabet = sorted(PROVINCES) if character in PROVINCES else LATIN
        width = plate_mask(character).shape[1]
        place = seen[:, left : left + width]
        off = {c: int(np.abs(place - plate_mask(c).astype(np.int16)).sum()) for c in alphabet}
        assert min(off, key=off.__getitem__) == character
        left += width - 1  # the gap between two is the end of the one and the beginning of the other


def test_every_vehicle_of_the_city_fits_its_plate_into_the_picture() -> None:
    for number in range(500):
        vehicle = make_vehicle(3, number, 90)
        assert plate_mask(vehicle.plate_number).shape[1] <= pictures.WIDTH // 2
        assert (read(vehicle)[:, :FIRST_PX] > INK).sum() >= LEAST_INK
