"""One run of the city without its shell: traffic, watched cars, scribe and script put together.

In: the time as a value. Out: `Made` records, in the order in which cameras see them, each with the
truth about it. Never: clock, I/O, sending.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from bus.contracts.register import Device
from bus.contracts.topics import DATA_FACE, DATA_VEHICLE
from ingest.city.counters import MINUTE_MS
from ingest.city.misfortunes import Script
from ingest.city.pictures import face_picture, vehicle_picture
from ingest.city.population import make_person
from ingest.city.records import Message, Scribe
from ingest.city.settings import CitySettings
from ingest.city.traffic import HOUR_MS, Pass, Traffic
from ingest.city.truth import VALID, RecordLine
from ingest.city.watch import Watched
from ingest.city.world import World
from ingest.normalise.identity import own_id
from ingest.normalise.key import key_of

TOPIC_OF = {"vehicle": DATA_VEHICLE, "face": DATA_FACE}


@dataclass(frozen=True, slots=True)
class Made:
    """A record on its way: `key` for those who produce by themselves, `line` for the truth."""

    camera: Device
    body: bytes
    key: bytes | None
    line: RecordLine
    at_ms: int


class Assembly:
    """Deterministic for (settings, zone, run, start): the same passes give the same records."""

    def __init__(
        self, world: World, settings: CitySettings, zone: ZoneInfo, *, run: str, start_ms: int,
        edge_sender: str = "", city_offset_ms: int | None = None,
    ) -> None:  # fmt: skip
        self.world = world
        self.watched = Watched(world)
        self.script = Script(world, start_ms=start_ms, enabled=settings.misfortunes)
        self._settings = settings
        self._run = run
        self._edge_sender = edge_sender
        self._scribe = Scribe(world.seed, zone)
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
        self.watched.release(self._traffic)

    def until(self, end_ms: int, *, not_before_ms: int = 0) -> Iterator[Made]:
        """Records of all passes before `end_ms`; those before `not_before_ms` nobody saw."""
        for seen in self._traffic.until(end_ms):
            if seen.at_ms >= not_before_ms:
                yield self._make(seen)

    def _make(self, seen: Pass) -> Made:
        n, camera = self._next_n, seen.camera
        self._next_n += 1
        number = f"{self._run}-{n}"
        clock_ms = self.script.clock_ms(camera, seen.at_ms)
        message = self._scribe.message(seen, number, clock_ms)
        self._add_picture(message, seen, n)
        struck = self.script.strike(message, camera, seen.at_ms, n)
        valid = struck.reason is None
        line = RecordLine(
            n=n,
            id=own_id(self._sender(camera), camera.camera_ip, camera.kind, number),
            topic=TOPIC_OF[camera.kind],
            kind=camera.kind,
            camera_ip=camera.camera_ip,
            minute_ms=clock_ms // MINUTE_MS * MINUTE_MS,
            via="edge" if camera.recognizer_ip else "bus",
            recognizer_ip=camera.recognizer_ip,
            expected=VALID if struck.reason is None else struck.reason.value,
            mishap=struck.mishap.value if struck.mishap else "",
            partly_read=struck.partly_read,
            alarms=self.watched.alarms(struck.message) if valid else (),
        )
        key = key_of(
            camera.kind,
            plate_number=str(struck.message.get("车牌号码", "")),
            camera_ip=camera.camera_ip,
        )
        return Made(camera, struck.body, key, line, seen.at_ms)

    def _sender(self, camera: Device) -> str:
        """Who the receiver takes the sender for: the edge its peer, the bus the device itself."""
        return self._edge_sender if camera.recognizer_ip else camera.camera_ip

    def _add_picture(self, message: Message, seen: Pass, n: int) -> None:
        """As base64, which the edge takes out again; smart cameras here have no picture line."""
        every = self._settings.picture_every
        if not every or n % every or not seen.camera.recognizer_ip:
            return
        if seen.vehicle is not None:
            message["车辆图片"] = _text(vehicle_picture(seen.vehicle))
        else:
            message["人脸图片"] = _text(face_picture(make_person(self.world.seed, seen.person)))


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
