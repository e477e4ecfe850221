"""What stands between a plate and its reader: distance, angle, blur, light, noise, JPEG.

In: a drawn plate, a generator of random numbers. Out: the crop that a detector of plates would hand
to a reader. Never: what a reader makes of it.
"""

from __future__ import annotations

import cv2
import numpy as np

from deploy.bench.plates.drawing import Picture

LEAST_PX, MOST_PX = 20.0, 60.0
"""Height of a plate in the picture; a camera of 2 M pixels on a pole sees 20 to 60."""


def degraded(plate: Picture, rng: np.random.Generator) -> Picture:
    """As a camera would see it: each step at random, the steps independent of each other."""
    height = float(np.exp(rng.uniform(np.log(LEAST_PX), np.log(MOST_PX))))
    seen = _turned(plate, height, rng)
    seen = _blurred(seen, rng)
    seen = _lit(seen, rng)
    return _compressed(seen, rng)


def _turned(plate: Picture, height: float, rng: np.random.Generator) -> Picture:
    """Turned by some degrees, seen from the side, and cut out not quite at its edges."""
    rows, columns = plate.shape[:2]
    scale = height / rows
    wide = max(24, round(columns * scale * rng.uniform(0.8, 1.05)))
    high = max(8, round(height))
    corners = np.array([[0, 0], [columns, 0], [columns, rows], [0, rows]], np.float32)
    angle = np.deg2rad(rng.normal(0, 1.5))
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    target = np.array([[0, 0], [wide, 0], [wide, high], [0, high]], np.float64)
    middle = target.mean(axis=0)
    target = (target - middle) @ turn.T + middle
    target += rng.normal(0, 0.02 * high, target.shape)  # perspective, and where it was cut
    move = cv2.getPerspectiveTransform(corners, target.astype(np.float32))
    seen = cv2.warpPerspective(
        plate, move, (wide, high), flags=cv2.INTER_AREA, borderMode=cv2.BORDER_REPLICATE
    )
    return np.asarray(seen, np.uint8)


def _blurred(seen: Picture, rng: np.random.Generator) -> Picture:
    """Out of focus, and moved while it was exposed; both in parts of the plate's height."""
    high = seen.shape[0]
    sigma = abs(rng.normal(0, 0.025)) * high
    out = cv2.GaussianBlur(seen, (0, 0), max(sigma, 0.05))
    length = round(abs(rng.normal(0, 0.04)) * high)
    if length > 1:
        out = cv2.blur(out, (length, 1))
    return np.asarray(out, np.uint8)


def _lit(seen: Picture, rng: np.random.Generator) -> Picture:
    """Less contrast, more or less light, noise of the sensor, now and then dirt."""
    light = seen.astype(np.float32)
    light = light.mean() + (light - light.mean()) * rng.uniform(0.35, 1)
    light = light * rng.uniform(0.4, 1.2) + rng.normal(0, abs(rng.normal(0, 7)), seen.shape)
    if rng.random() < 0.05:
        high, wide = seen.shape[:2]
        at = (int(rng.integers(wide)), int(rng.integers(high)))
        tint = [float(one) for one in rng.uniform(30, 120, 3)]
        light = cv2.circle(np.ascontiguousarray(light), at, max(1, high // 6), tint, -1)
    return np.asarray(np.clip(light, 0, 255), np.uint8)


def _compressed(seen: Picture, rng: np.random.Generator) -> Picture:
    quality = int(rng.integers(25, 95))
    _, data = cv2.imencode(".jpg", seen, [cv2.IMWRITE_JPEG_QUALITY, quality])
    return np.asarray(cv2.imdecode(data, cv2.IMREAD_COLOR), np.uint8)
