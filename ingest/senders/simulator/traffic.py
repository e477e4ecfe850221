"""Who passes where and when: trips of vehicles over the street grid, people through entrances.

`Pass`es come in the order of time. Deterministic for (seed, rate, start).
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

from bus.contracts.register import Device
from ingest.senders.simulator.population import Vehicle, make_vehicle
from ingest.senders.simulator.world import CityWorld

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
WARM_UP_MS = 10 * 60_000  # longer than nearly every trip: at the start the streets are already full
VEHICLES_PER_RATE = 400  # so that a vehicle rests most of its day
FEWEST_VEHICLES = 3000
PEOPLE_PER_RATE = 30  # a feature is dear to make, and people come back
FEWEST_PEOPLE = 1000
SAMPLED_TRIPS = 400  # to learn how many passes a trip has

# Traffic by the hour of the city's day, 1.0 at the morning peak; two humps (L-2).
HOURLY = (
    0.10, 0.07, 0.05, 0.05, 0.08, 0.20, 0.50, 0.90, 1.00, 0.75, 0.60, 0.58,
    0.62, 0.60, 0.58, 0.62, 0.75, 0.95, 0.98, 0.75, 0.55, 0.42, 0.30, 0.18,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Pass:
    """One moment before one camera: a vehicle with its heading, or a person (number)."""

    at_ms: int
    camera: Device
    vehicle: Vehicle | None = None
    heading: int = 0
    speed_kmh: int = 0
    person: int = 0


@dataclass(slots=True)
class _Trip:
    vehicle: Vehicle
    way: list[int]
    pace: float  # 1.0 = as the streets allow
    roams: tuple[int, ...] = ()  # crossings between which it drives for ever
    step: int = 0


def density(city_ms: int) -> float:
    """The share of the peak at this moment of the city's day, without jumps at the full hour."""
    hour, rest = divmod(city_ms % DAY_MS, HOUR_MS)
    share = rest / HOUR_MS
    return HOURLY[hour] * (1 - share) + HOURLY[(hour + 1) % 24] * share


class Traffic:
    """Invariant: `_queue` holds exactly one future arrival per vehicle that is on the road. Who is
    mixed in is drawn by itself: all other passes are the same without them."""

    def __init__(
        self,
        world: CityWorld,
        *,
        rate: float,
        face_share: float,
        start_ms: int,
        city_offset_ms: int,
    ) -> None:
        self._world = world
        self._rng = random.Random(f"traffic:{world.seed}")
        self._people_rng = random.Random(f"people:{world.seed}")
        self._mixed_in: list[tuple[int, float]] = []
        self._mixed_in_rng = random.Random(f"mixed in:{world.seed}")
        self._city_offset_ms = city_offset_ms
        self._fleet = max(FEWEST_VEHICLES, int(rate * VEHICLES_PER_RATE))
        self._people = max(FEWEST_PEOPLE, int(rate * PEOPLE_PER_RATE))
        self._faces_per_ms = rate * face_share / 1000
        self._order = count()
        self._queue: list[tuple[int, int, _Trip]] = []
        self._on_the_road: set[int] = set()
        self._parked: dict[int, int] = {}  # vehicles that have driven: where they stand now
        self._start_ms = start_ms
        self._trips_per_ms = rate * (1 - face_share) / 1000 / self._passes_per_trip(start_ms)
        self._next_trip_ms = float(start_ms - WARM_UP_MS)
        self._next_face_ms = float(start_ms)

    def release(self, vehicle: Vehicle, crossings: tuple[int, ...], pace: float) -> None:
        """Let a vehicle roam among these crossings until the end (the watched cars)."""
        trip = _Trip(vehicle, [crossings[0]], pace, crossings)
        self._push(self._start_ms, trip)

    def mix_in(self, person: int, share: float) -> None:
        """Let this person pass instead of so many of the others (the watched people)."""
        self._mixed_in.append((person, share))

    def until(self, end_ms: int) -> list[Pass]:
        """All passes before `end_ms` that were not handed out yet, by time."""
        passes = [*self._vehicles(end_ms), *self._faces(end_ms)]
        passes.sort(key=lambda p: p.at_ms)
        return passes

    def _vehicles(self, end_ms: int) -> Iterator[Pass]:
        """Starts and arrivals strictly by time, so that it does not matter how time is cut. Where
        no vehicle is asked for, the watched ones stand, too."""
        while self._trips_per_ms:
            arrival_ms = self._queue[0][0] if self._queue else math.inf
            if min(arrival_ms, self._next_trip_ms) >= end_ms:
                return
            if self._next_trip_ms <= arrival_ms:
                self._start_next_trip()
                continue
            at_ms, _, trip = heapq.heappop(self._queue)
            if at_ms >= self._start_ms:
                yield self._pass(at_ms, trip)
            self._drive_on(at_ms, trip)

    def _start_next_trip(self) -> None:
        at_ms = int(self._next_trip_ms)
        self._start_trip(at_ms)
        here = density(at_ms + self._city_offset_ms)
        self._next_trip_ms += self._rng.expovariate(self._trips_per_ms * here)

    def _start_trip(self, at_ms: int) -> None:
        number = self._rng.randrange(self._fleet)
        if number in self._on_the_road:
            number = self._rng.randrange(self._fleet)
            if number in self._on_the_road:
                return
        vehicle = make_vehicle(self._world.seed, number, len(self._world.graph.crossings))
        way = self._way(vehicle, at_ms)
        if len(way) > 1:
            self._on_the_road.add(number)
            self._push(at_ms, _Trip(vehicle, way, self._rng.uniform(0.8, 1.25)))

    def _way(self, vehicle: Vehicle, at_ms: int) -> list[int]:
        """From where it stands: to work in the morning, home in the evening, errands between."""
        hour = (at_ms + self._city_offset_ms) % DAY_MS // HOUR_MS
        commutes = self._rng.random() < 0.75
        goal = self._rng.randrange(len(self._world.graph.crossings))
        if commutes and 6 <= hour < 11:
            goal = vehicle.work
        elif commutes and 16 <= hour < 21:
            goal = vehicle.home
        here = self._parked.get(vehicle.number, vehicle.home if hour < 16 else vehicle.work)
        return self._world.graph.path(here, goal)

    def _pass(self, at_ms: int, trip: _Trip) -> Pass:
        graph, here = self._world.graph, trip.way[trip.step]
        if trip.step:
            heading = graph.heading(trip.way[trip.step - 1], here)
        elif len(trip.way) > 1:
            heading = graph.heading(here, trip.way[1])
        else:
            heading = 0
        speed_kmh = max(5, int(self._rng.gauss(42, 9) * trip.pace))
        camera = self._world.street_camera(here, heading)
        return Pass(at_ms, camera, trip.vehicle, heading, speed_kmh)

    def _drive_on(self, at_ms: int, trip: _Trip) -> None:
        if trip.step + 1 == len(trip.way):
            if not trip.roams:
                self._on_the_road.discard(trip.vehicle.number)
                self._parked[trip.vehicle.number] = trip.way[-1]
                return
            self._roam(trip)
        here, there = trip.way[trip.step], trip.way[trip.step + 1]
        trip.step += 1
        seconds = self._world.graph.seconds[here][there] / trip.pace * self._rng.uniform(0.9, 1.2)
        self._push(at_ms + math.ceil(seconds * 1000), trip)

    def _roam(self, trip: _Trip) -> None:
        here = trip.way[-1]
        goals = [crossing for crossing in trip.roams if crossing != here]
        trip.way, trip.step = self._world.graph.path(here, self._rng.choice(goals)), 0

    def _push(self, at_ms: int, trip: _Trip) -> None:
        heapq.heappush(self._queue, (at_ms, next(self._order), trip))

    def _faces(self, end_ms: int) -> Iterator[Pass]:
        rng = self._people_rng
        while self._faces_per_ms and self._next_face_ms < end_ms:
            at_ms = int(self._next_face_ms)
            cameras = rng.choice(self._world.entrance_cameras)
            camera, person = rng.choice(cameras), rng.randrange(self._people)
            yield Pass(at_ms, camera, person=self._instead_of(person))
            here = density(at_ms + self._city_offset_ms)
            self._next_face_ms += rng.expovariate(self._faces_per_ms * here)

    def _instead_of(self, person: int) -> int:
        draw = self._mixed_in_rng.random()
        for other, share in self._mixed_in:
            if draw < share:
                return other
            draw -= share
        return person

    def _passes_per_trip(self, start_ms: int) -> float:
        """The mean over sampled trips of this time of day; drawn from a random generator of their
        own."""
        own, self._rng = self._rng, random.Random(f"sample:{self._world.seed}")
        crossings = len(self._world.graph.crossings)
        ways = [
            self._way(make_vehicle(self._world.seed, number, crossings), start_ms)
            for number in range(SAMPLED_TRIPS)
        ]
        self._rng = own
        return max(1.0, sum(len(way) for way in ways if len(way) > 1) / SAMPLED_TRIPS)
