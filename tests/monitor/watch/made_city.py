"""A city in virtual time for the tests of the watch: when each device sends, and what was planted.

Rates follow a day with a night, Saturdays and Sundays of each device's own, days that differ; a
third of the devices sends in platoons. Drawn from one seed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from zoneinfo import ZoneInfo

import numpy as np

from bus.contracts.register import Checkpoint, Device, District, Register
from bus.domain.times import HOUR_MS
from monitor.watch.watch_clock import hour_class

ZONE = ZoneInfo("Asia/Shanghai")
MONDAY_MS = 1_736_092_800_000  # 2025-01-06 00:00 there
DAY = np.array([4, 2.5, 2, 2, 3, 8, 30, 75, 100, 80, 70, 72, 75, 70, 70, 75, 85, 100, 95, 75, 55,
                40, 22, 10]) / 100  # fmt: skip
PLATOON = 3.0  # vehicles that pass together, on average
Sightings = dict[tuple[str, str], int]


@dataclass
class MadeCity:
    """`silences`: device index to (begin, end) in which it sends nothing."""

    devices: int
    seed: int
    tick_ms: int = 5_000
    districts: int = 8
    behind_one_server: int = 25
    silences: Mapping[int, list[tuple[int, int]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        dice = self._dice = np.random.default_rng(self.seed)
        self.peak = np.exp(dice.normal(np.log(12), 0.9, self.devices)).clip(1, 90)
        self._saturday = dice.uniform(0.6, 1.0, self.devices)
        self._sunday = dice.uniform(0.3, 0.9, self.devices)
        self._in_platoons = dice.random(self.devices) < 0.33
        self.names = [(f"10.{n // 250}.{n % 250}.1", self.server(n)) for n in range(self.devices)]

    def server(self, device: int) -> str:
        """A fifth of the devices are smart and have none."""
        return "" if device % 5 == 4 else f"10.200.0.{device // self.behind_one_server}"

    def district(self, device: int) -> str:
        return f"d{device * self.districts // self.devices}"

    @property
    def register(self) -> Register:
        names = [f"d{n}" for n in range(self.districts)]
        return Register(
            districts=tuple(District(district_id=n, name=n, name_en=n) for n in names),
            checkpoints=tuple(
                Checkpoint(checkpoint_id=f"c{n}", name=f"口{n}", name_en=f"c{n}", latitude=30.0,
                           district_id=self.district(n), longitude=120.0)
                for n in range(self.devices)
            ),
            devices=tuple(
                Device(camera_ip=self.names[n][0], checkpoint_id=f"c{n}", kind="vehicle",
                       recognizer_ip=self.names[n][1])
                for n in range(self.devices)
            ),
        )  # fmt: skip

    def rates(self, hour_ms: int) -> np.ndarray:
        """Records an hour of each device, by the laws of the city."""
        hour = hour_class(hour_ms, ZONE)
        kind = [np.ones(self.devices), self._saturday, self._sunday][hour // 24]
        rates: np.ndarray = self.peak * DAY[hour % 24] * kind
        return rates

    def hour(self, hour_ms: int, day_factor: float) -> Iterator[tuple[int, Sightings]]:
        """Every tick of an hour with those who sent in it."""
        dice, rates = self._dice, self.rates(hour_ms) * day_factor
        size = np.where(self._in_platoons, PLATOON, 1.0)
        counts = dice.poisson(rates / size)
        who = np.repeat(np.arange(self.devices), counts)
        at = dice.uniform(0, HOUR_MS, len(who))
        more = np.where(self._in_platoons[who], dice.geometric(1 / PLATOON, len(who)), 1)
        who, at = np.repeat(who, more), np.repeat(at, more)
        at = np.minimum(
            HOUR_MS - 1, at + dice.uniform(0, 15_000, len(at)) * (np.repeat(more, more) > 1)
        )
        order = np.argsort(at)
        ticks = (at[order] // self.tick_ms).astype(int)
        found: list[Sightings] = [{} for _ in range(HOUR_MS // self.tick_ms)]
        for tick, device in zip(ticks.tolist(), who[order].tolist(), strict=True):
            moment_ms = hour_ms + tick * self.tick_ms
            if device in self.silences and self._is_silent(device, moment_ms):
                continue
            name = self.names[device]
            found[tick][name] = found[tick].get(name, 0) + 1
        for tick, sightings in enumerate(found):
            yield hour_ms + (tick + 1) * self.tick_ms, sightings

    def days(self, days: int, begin_ms: int = MONDAY_MS) -> Iterator[tuple[int, Sightings]]:
        """Every tick of so many days."""
        for day in range(days):
            factor = float(self._dice.uniform(0.9, 1.1))
            for hour in range(24):
                yield from self.hour(begin_ms + (24 * day + hour) * HOUR_MS, factor)

    def _is_silent(self, device: int, moment_ms: int) -> bool:
        return any(begin <= moment_ms < end for begin, end in self.silences[device])
