"""Who lives in the city: vehicles with homes and work places, people with faces.

The same seed and number give the same vehicle or person, made when needed, so that a fleet of any
size costs no memory.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from ingest.senders.simulator import names

FEATURE_DIMENSIONS = 128
CAPTURE_NOISE = 0.035  # per dimension; two captures of one face have cosine about 0.85
WANTED_PERSON, RESEMBLING_PERSON = 1 << 40, (1 << 40) + 1
"""People outside every population: one of a gallery, and one who resembles that one."""
RESEMBLANCE = 0.4
"""Cosine of both; of two strangers it is below 0.35 in 9,999 pairs of 10,000."""
_PEOPLE_KEPT = 16_384

_MODEL_WEIGHTS = list(accumulate(model[3] for model in names.MODELS))
_COLORS = [color for color, _ in names.VEHICLE_COLORS]
_COLOR_WEIGHTS = list(accumulate(weight for _, weight in names.VEHICLE_COLORS))
_REGIONS = [region for region, _ in names.PLATE_REGIONS]
_REGION_WEIGHTS = list(accumulate(weight for _, weight in names.PLATE_REGIONS))


@dataclass(frozen=True, slots=True)
class Vehicle:
    """A vehicle as everybody sees it, and where it belongs (crossing numbers)."""

    number: int
    plate_number: str
    plate_color: str
    vehicle_color: str
    vehicle_type: str
    brand: str
    series: str
    inspection_sticker: bool
    tissue_box: bool
    home: int
    work: int
    read_as: str = ""
    """What cameras read instead of its plate, every other time; most cars have none."""


@dataclass(frozen=True, slots=True)
class Person:
    """A person as a face camera sees one. `feature` is a unit vector of float32."""

    number: int
    gender: str
    age: int
    glasses: bool
    mask: bool
    hat: bool
    feature: NDArray[np.float32]


def make_vehicle(seed: int, number: int, crossings: int, *, letter: str = "") -> Vehicle:
    """Vehicle `number` of this city; `letter` (of watched cars) replaces the serial's first."""
    rng = random.Random(f"vehicle:{seed}:{number}:{letter}")
    brand, body, series, _ = rng.choices(names.MODELS, cum_weights=_MODEL_WEIGHTS)[0]
    green = brand in names.ELECTRIC_BRANDS
    return Vehicle(
        number=number,
        plate_number=_plate(rng, letter, green),
        plate_color="绿色" if green else "黄色" if body in names.YELLOW_PLATE_TYPES else "蓝色",
        vehicle_color=rng.choices(_COLORS, cum_weights=_COLOR_WEIGHTS)[0],
        vehicle_type=body,
        brand=brand,
        series=series,
        inspection_sticker=rng.random() < 0.9,
        tissue_box=rng.random() < 0.3,
        home=rng.randrange(crossings),
        work=_work_place(rng, crossings),
    )


@lru_cache(maxsize=_PEOPLE_KEPT)
def make_person(seed: int, number: int) -> Person:
    """Person `number` of this city."""
    rng = random.Random(f"person:{seed}:{number}")
    own = np.random.default_rng((seed, number))
    vector: NDArray[np.floating] = own.standard_normal(FEATURE_DIMENSIONS)
    if number == RESEMBLING_PERSON:
        vector = _resembling(make_person(seed, WANTED_PERSON).feature, vector)
    return Person(
        number=number,
        gender=rng.choice(("男", "女")),
        age=min(90, max(3, int(rng.gauss(38, 17)))),
        glasses=rng.random() < 0.35,
        mask=rng.random() < 0.12,
        hat=rng.random() < 0.1,
        feature=_unit(vector),
    )


def captured_feature(person: Person, noise: np.random.Generator) -> NDArray[np.float32]:
    """The person's feature as one capture yields it."""
    return _unit(person.feature + CAPTURE_NOISE * noise.standard_normal(FEATURE_DIMENSIONS))


def _resembling(
    other: NDArray[np.float32], own: NDArray[np.floating]
) -> NDArray[np.floating]:
    """A face as near to another one as `RESEMBLANCE` says, and for the rest its own."""
    whom = other.astype(np.float64)
    aside = own - (own @ whom) * whom
    aside *= np.sqrt(1 - RESEMBLANCE**2) / np.linalg.norm(aside)
    found: NDArray[np.floating] = RESEMBLANCE * whom + aside
    return found


def _plate(rng: random.Random, letter: str, green: bool) -> str:
    region = rng.choices(_REGIONS, cum_weights=_REGION_WEIGHTS)[0]
    first = letter or rng.choice(names.SERIAL_LETTERS)
    if green:  # new-energy plates have six places after the region, the first D or F
        return f"{region}D{first}{rng.randrange(10_000):04d}"
    return f"{region}{first}{rng.randrange(10_000):04d}"


def _work_place(rng: random.Random, crossings: int) -> int:
    """Work lies nearer the middle: the mean of two draws."""
    return (rng.randrange(crossings) + rng.randrange(crossings)) // 2


def _unit(vector: NDArray[np.floating]) -> NDArray[np.float32]:
    return (vector / np.linalg.norm(vector)).astype("<f4")
