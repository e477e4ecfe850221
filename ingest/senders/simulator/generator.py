"""Generates the records of one run: traffic, watched cars, record builder and faults together.

Time comes in as a value. Records come in the order in which cameras see them, each with its line of
the ground truth.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from zoneinfo import ZoneInfo

from bus.contracts.register import Device
from bus.domain.identity import key_of, sender_scoped_id
from bus.domain.kinds import TOPIC_OF_KIND
from bus.domain.times import minute_of
from ingest.senders.simulator import wanted_faces
from ingest.senders.simulator.faults import FaultSchedule
from ingest.senders.simulator.ground_truth import VALID, RecordLine
from ingest.senders.simulator.pictures import face_picture, vehicle_picture
from ingest.senders.simulator.population import WANTED_PERSON, make_person
from ingest.senders.simulator.record_builder import CONFIDENCES_KEY, Message, RecordBuilder
from ingest.senders.simulator.settings import CitySettings
from ingest.senders.simulator.traffic import HOUR_MS, Pass, Traffic
from ingest.senders.simulator.watched_cars import CityRule, WatchedCars
from ingest.senders.simulator.world import CityWorld

OTHER_LANE_MS = 40
"""So much later the camera of a second lane sees the same car."""


@dataclass(frozen=True, slots=True)
class GeneratedRecord:
    """A record on its way: `key` for those who produce by themselves, `line` for the truth."""

    camera: Device
    body: bytes
    key: bytes | None
    line: RecordLine
    at_ms: int


class RecordGenerator:
    """Deterministic for (settings, zone, run, start): the same passes give the same records."""

    def __init__(
        self, world: CityWorld, settings: CitySettings, zone: ZoneInfo, *, run: str, start_ms: int,
        edge_sender: str = "", city_offset_ms: int | None = None,
    ) -> None:  # fmt: skip
        self.world = world
        weekday = datetime.fromtimestamp(start_ms / 1000, zone).weekday()
        self.watched_cars = WatchedCars(world, weekday)
        self.wanted_faces = wanted_faces.rule_of(world.seed)
        own: tuple[CityRule, ...] = (*self.watched_cars.rules, self.wanted_faces)
        self.rules = own if settings.watches else ()
        self.faults = FaultSchedule(world, start_ms=start_ms, enabled=settings.misfortunes)
        self._settings = settings
        self._run = run
        self._edge_sender = edge_sender
        self._builder = RecordBuilder(world.seed, zone, settings.misread)
        self._next_n = 0
        if city_offset_ms is None:
            city_offset_ms = offset_of_hour(settings.hour, start_ms, zone)
        self._traffic = Traffic(
            world,
            rate=settings.rate,
            face_share=settings.face_share,
            start_ms=start_ms,
            city_offset_ms=city_offset_ms,
        )
        self.watched_cars.release(self._traffic)
        wanted_faces.release(self._traffic)

    def until(self, end_ms: int, *, not_before_ms: int = 0) -> Iterator[GeneratedRecord]:
        """Records of all passes before `end_ms`; those before `not_before_ms` are left out."""
        for seen in self._traffic.until(end_ms):
            if seen.at_ms >= not_before_ms:
                yield self._make(seen)
                if self.watched_cars.is_seen_twice(seen.vehicle):
                    yield self._make(replace(seen, at_ms=seen.at_ms + OTHER_LANE_MS))

    def _make(self, seen: Pass) -> GeneratedRecord:
        n, camera = self._next_n, seen.camera
        self._next_n += 1
        number = f"{self._run}-{n}"
        clock_ms = self.faults.clock_ms(camera, seen.at_ms)
        message = self._builder.message(seen, number, clock_ms)
        self._add_picture(message, seen, n)
        faulty = self.faults.apply(message, camera, seen.at_ms, n)
        valid = faulty.reason is None
        line = RecordLine(
            n=n,
            id=sender_scoped_id(
                self._sender(camera), camera.camera_ip, camera.kind, number,
                str(faulty.message.get("抓拍时间", "")).strip(),
            ),
            topic=TOPIC_OF_KIND[camera.kind],
            kind=camera.kind,
            camera_ip=camera.camera_ip,
            minute_ms=minute_of(clock_ms),
            via="edge" if camera.recognizer_ip else "bus",
            recognizer_ip=camera.recognizer_ip,
            expected=VALID if faulty.reason is None else faulty.reason.value,
            mishap=faulty.fault.value if faulty.fault else "",
            partly_read=faulty.partly_read,
            alarms=self._alarms(faulty.message) if valid else (),
            true_plate=_true_plate(seen, message),
        )
        key = key_of(
            camera.kind,
            plate_number=str(faulty.message.get("车牌号码", "")),
            camera_ip=camera.camera_ip,
        )
        return GeneratedRecord(camera, faulty.body, key, line, seen.at_ms)

    def _alarms(self, message: Message) -> tuple[str, ...]:
        """Rule ids of the alarms that this valid record must raise."""
        return tuple(rule.rule_id for rule in self.rules if rule.matches(message))

    def _sender(self, camera: Device) -> str:
        """Who the receiver takes the sender for: the edge its peer, the bus the device itself."""
        return self._edge_sender if camera.recognizer_ip else camera.camera_ip

    def _add_picture(self, message: Message, seen: Pass, n: int) -> None:
        """As base64, which the edge takes out again; smart cameras here have no picture line. A
        watched car and a wanted person always have one: an alarm is looked at."""
        every = self._settings.picture_every
        if not every or not seen.camera.recognizer_ip:
            return
        is_watched = seen.person == WANTED_PERSON or self.watched_cars.is_watched(seen.vehicle)
        if n % every and not is_watched:
            return
        if seen.vehicle is not None:
            message["车辆图片"] = _text(vehicle_picture(seen.vehicle))
        else:
            message["人脸图片"] = _text(face_picture(make_person(self.world.seed, seen.person)))


def _true_plate(seen: Pass, message: Message) -> str:
    """Where another was read."""
    if seen.vehicle is None or CONFIDENCES_KEY not in message:
        return ""
    true = seen.vehicle.plate_number
    return true if message["车牌号码"] != true else ""


def offset_of_hour(hour: float, at_ms: int, zone: ZoneInfo) -> int:
    """What to add to epoch milliseconds to get the city's own; hour -1: its zone's wall clock."""
    local = datetime.fromtimestamp(at_ms / 1000, zone)
    offset = local.utcoffset()
    wall_ms = int(offset.total_seconds() * 1000) if offset else 0
    if hour < 0:
        return wall_ms
    return int(hour * HOUR_MS) - at_ms % (24 * HOUR_MS)


def _text(picture: bytes) -> str:
    return base64.b64encode(picture).decode("ascii")
