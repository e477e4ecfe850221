"""Small drawn pictures of vehicles and faces, so that records have something to show."""

from __future__ import annotations

from functools import lru_cache

import cv2
import numpy as np
from numpy.typing import NDArray

from ingest.senders.simulator.plate_text import plate_mask
from ingest.senders.simulator.population import Person, Vehicle

WIDTH, HEIGHT = 240, 160
PLATE_TOP = 103
JPEG_QUALITY = 70

_BGR = {
    "白色": (235, 235, 235), "黑色": (35, 35, 35), "灰色": (120, 120, 120),
    "银色": (190, 190, 190), "红色": (40, 40, 190), "蓝色": (170, 90, 30),
    "棕色": (40, 70, 110), "绿色": (70, 130, 50), "黄色": (40, 190, 220),
}  # fmt: skip
_WHITE, _BLACK = (255, 255, 255), (15, 15, 15)
_PLATE_BGR = {  # ground and ink
    "蓝色": ((160, 60, 10), _WHITE),
    "绿色": ((120, 200, 120), _BLACK),
    "黄色": ((30, 180, 230), _BLACK),
}
_UNKNOWN_PLATE = (_BLACK, _WHITE)
_TALL = frozenset({"SUV", "面包车", "大型客车", "轻型货车", "重型货车"})
_Image = NDArray[np.uint8]


def vehicle_picture(vehicle: Vehicle) -> bytes:
    """The vehicle from behind on a grey road."""
    image = _empty_road().copy()
    top = 38 if vehicle.vehicle_type in _TALL else 58
    color = _BGR.get(vehicle.vehicle_color, (128, 128, 128))
    cv2.rectangle(image, (55, top + 28), (185, 128), color, -1)
    cv2.rectangle(image, (72, top), (168, top + 30), color, -1)
    cv2.rectangle(image, (80, top + 6), (160, top + 26), (90, 80, 70), -1)
    for x in (58, 166):
        cv2.rectangle(image, (x, top + 32), (x + 16, top + 42), (40, 40, 220), -1)
        cv2.rectangle(image, (x, 126), (x + 18, 142), (20, 20, 20), -1)
    _plate(image, vehicle)
    return _jpeg(image)


def face_picture(person: Person) -> bytes:
    """A plain face; skin, hair, glasses, mask and hat follow the person."""
    image: _Image = np.full((HEIGHT, HEIGHT, 3), (205, 200, 190), np.uint8)
    tone = 150 + person.number % 70
    grey = 40 + max(0, person.age - 30) * 3
    cv2.ellipse(image, (80, 150), (60, 40), 0, 180, 360, (120, 80, 60), -1)
    cv2.ellipse(image, (80, 72), (42, 52), 0, 0, 360, (grey, grey, grey), -1)
    cv2.ellipse(image, (80, 82), (36, 46), 0, 0, 360, (tone - 50, tone - 15, tone + 20), -1)
    for x in (66, 94):
        cv2.circle(image, (x, 76), 4, (30, 30, 30), -1)
        if person.glasses:
            cv2.circle(image, (x, 76), 10, (20, 20, 20), 2)
    if person.mask:
        cv2.rectangle(image, (52, 90), (108, 120), (240, 225, 200), -1)
    else:
        cv2.ellipse(image, (80, 104), (12, 5), 0, 0, 180, (60, 60, 160), 2)
    if person.hat:
        cv2.rectangle(image, (36, 28), (124, 48), (90, 50, 40), -1)
    return _jpeg(image)


@lru_cache(maxsize=1)
def _empty_road() -> _Image:
    image: _Image = np.empty((HEIGHT, WIDTH, 3), np.uint8)
    image[:60] = (200, 190, 175)
    image[60:] = (95, 95, 95)
    cv2.line(image, (20, HEIGHT), (70, 60), (210, 210, 210), 2)
    cv2.line(image, (220, HEIGHT), (170, 60), (210, 210, 210), 2)
    return image


def _plate(image: _Image, vehicle: Vehicle) -> None:
    """As wide as its text: a plate of an electric car has a character more."""
    mask = plate_mask(vehicle.plate_number)
    height, width = mask.shape
    left = (WIDTH - width) // 2
    shades = _shades(vehicle.plate_color)
    image[PLATE_TOP : PLATE_TOP + height, left : left + width] = shades[mask]


@lru_cache(maxsize=len(_PLATE_BGR) + 1)
def _shades(plate_color: str) -> _Image:
    """The colour of each value of a mask, from the plate's ground to its ink."""
    ground, ink = np.array(_PLATE_BGR.get(plate_color, _UNKNOWN_PLATE), float)
    share = np.arange(256)[:, np.newaxis] / 255
    shades: _Image = (ground + (ink - ground) * share).round().astype(np.uint8)
    return shades


def _jpeg(image: _Image) -> bytes:
    done, data = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY])
    if not done:
        raise RuntimeError("OpenCV could not encode a JPEG")
    return bytes(data)
