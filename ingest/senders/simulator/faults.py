"""Faults of devices and servers by schedule, and what must become of the records they affect.

The schedule repeats, so that a short demo shows all of it and a long one shows it again. Knows no
clock and does no I/O.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import msgspec

from bus.contracts.headers import Reason
from bus.contracts.keys import RECOGNITION, UNREADABLE
from bus.contracts.register import Device
from ingest.senders.simulator.record_builder import Message
from ingest.senders.simulator.world import CityWorld

PERIOD_MS = 120_000
HOURS_OFF_MS = 3 * 3_600_000
UPLINK_DELAY_MS = 4_000
PARTLY_READ_FIELDS = ("车牌号码", "车牌颜色", "车系", "年检标识", "纸巾盒")


class DeviceFault(str, Enum):
    """What befell a record; the name is written into the truth."""

    LEAF = "leaf"
    GARBLED = "garbled"
    WRONG_CLOCK = "wrong-clock"
    LOST_FIELDS = "lost-fields"
    NO_FEATURE = "no-feature"


@dataclass(frozen=True, slots=True)
class FaultyRecord:
    """A record as it leaves the device, as bytes and as the message that they carry or carried.

    `reason` None: it is valid in spite of everything.
    """

    message: Message
    body: bytes
    reason: Reason | None = None
    fault: DeviceFault | None = None
    partly_read: bool = False


@dataclass(frozen=True, slots=True)
class Window:
    """From `from_ms` until `until_ms` of every period."""

    from_ms: int
    until_ms: int

    def open_at(self, since_start_ms: int) -> bool:
        """Whether it is open this long after the start."""
        return self.from_ms <= since_start_ms % PERIOD_MS < self.until_ms


LEAF_FALLS = Window(10_000, 35_000)
JSON_GARBLES = Window(20_000, 40_000)
UPLINK_IS_SLOW = Window(30_000, 50_000)
FIELDS_GET_LOST = Window(15_000, 60_000)
ENGINE_STUMBLES = Window(25_000, 55_000)


class FaultSchedule:
    """Who is struck when. Cameras are chosen from the busy middle of the city."""

    def __init__(self, world: CityWorld, *, start_ms: int, enabled: bool = True) -> None:
        self._start_ms = start_ms
        streets = _middle(world)
        smart = [d.camera_ip for d in streets if not d.recognizer_ip]
        served = [d.camera_ip for d in streets if d.recognizer_ip]
        faces = [d.camera_ip for cameras in world.entrance_cameras for d in cameras]
        if not enabled:
            smart, served, faces = [""] * 4, [""] * 5, []
        self.leafy = frozenset((smart[0], smart[1], served[0], served[1]))
        self.in_1970 = smart[2]
        self.hours_off = served[2]
        self.forgetful = frozenset((smart[3], served[3], served[4]))
        self.featureless = frozenset(faces[:6])
        self.garbling_server = world.servers[0] if enabled else ""
        self.slow_server = world.servers[-1] if enabled else ""

    def clock_ms(self, camera: Device, at_ms: int) -> int:
        """What the camera's own clock says at this moment."""
        if camera.camera_ip == self.in_1970:
            return at_ms - self._start_ms
        if camera.camera_ip == self.hours_off:
            return at_ms - HOURS_OFF_MS
        return at_ms

    def uplink_delay_ms(self, server: str, at_ms: int) -> int:
        """How long this server's line holds a post back."""
        slow = server == self.slow_server and UPLINK_IS_SLOW.open_at(at_ms - self._start_ms)
        return UPLINK_DELAY_MS if slow else 0

    def apply(self, message: Message, camera: Device, at_ms: int, number: int) -> FaultyRecord:
        """What this device really sends instead of `message`, its `number`-th."""
        since_ms = at_ms - self._start_ms
        if camera.camera_ip in self.leafy and LEAF_FALLS.open_at(since_ms):
            return _leaf(message, number)
        if camera.camera_ip in self.forgetful and FIELDS_GET_LOST.open_at(since_ms):
            return _FORGETTING[number % len(_FORGETTING)](message)
        if camera.camera_ip in self.featureless and ENGINE_STUMBLES.open_at(since_ms):
            return _without_feature(message)
        garbling = camera.recognizer_ip == self.garbling_server != ""
        if garbling and number % 3 == 0 and JSON_GARBLES.open_at(since_ms):
            return _GARBLING[number // 3 % len(_GARBLING)](message)
        off = camera.camera_ip in (self.in_1970, self.hours_off)
        return _whole(message, DeviceFault.WRONG_CLOCK if off else None)


def _middle(world: CityWorld) -> list[Device]:
    crossings = [c.index for c in world.graph.crossings if 2 <= c.row <= 5 and 3 <= c.column <= 8]
    return [camera for index in crossings for camera in world.street_cameras[index]]


def _whole(message: Message, fault: DeviceFault | None = None) -> FaultyRecord:
    partly = any(message.get(key) == UNREADABLE for key in RECOGNITION)
    return FaultyRecord(message, msgspec.json.encode(message), None, fault, partly)


def _leaf(message: Message, number: int) -> FaultyRecord:
    """Mostly everything is covered; sometimes the wind lets half of it through."""
    if number % 3 == 0:
        return _whole(message | dict.fromkeys(PARTLY_READ_FIELDS, UNREADABLE), DeviceFault.LEAF)
    covered = message | dict.fromkeys(RECOGNITION, UNREADABLE)
    return FaultyRecord(
        covered, msgspec.json.encode(covered), Reason.ALL_UNREADABLE, DeviceFault.LEAF
    )


def _forgets_checkpoint(message: Message) -> FaultyRecord:
    return _without(message, "卡口编号", Reason.NO_CHECKPOINT)


def _forgets_time(message: Message) -> FaultyRecord:
    return _without(message, "抓拍时间", Reason.NO_TIME)


def _invents_time(message: Message) -> FaultyRecord:
    wrong = message | {"抓拍时间": "2024-13-45 25:61:61"}
    return FaultyRecord(wrong, msgspec.json.encode(wrong), Reason.BAD_TIME, DeviceFault.LOST_FIELDS)


def _without(message: Message, key: str, reason: Reason) -> FaultyRecord:
    rest = {name: value for name, value in message.items() if name != key}
    return FaultyRecord(rest, msgspec.json.encode(rest), reason, DeviceFault.LOST_FIELDS)


def _without_feature(message: Message) -> FaultyRecord:
    faceless = {key: value for key, value in message.items() if key not in _FACE_EVIDENCE}
    body = msgspec.json.encode(faceless)
    return FaultyRecord(faceless, body, Reason.NO_PICTURE_OR_FEATURE, DeviceFault.NO_FEATURE)


def _truncated_json(message: Message) -> FaultyRecord:
    """A buffer that was too small: the object never closes."""
    body = msgspec.json.encode(message)
    return FaultyRecord(message, body[: body.rindex(b",")], Reason.NOT_JSON, DeviceFault.GARBLED)


def _wrong_charset(message: Message) -> FaultyRecord:
    """A server that writes GB 18030 and calls it UTF-8."""
    text = msgspec.json.encode(message).decode("utf-8")
    return FaultyRecord(message, text.encode("gb18030"), Reason.NOT_UTF8, DeviceFault.GARBLED)


def _encoded_twice(message: Message) -> FaultyRecord:
    """A JSON text inside a JSON string."""
    text = msgspec.json.encode(message).decode("utf-8")
    return FaultyRecord(
        message, msgspec.json.encode(text), Reason.NOT_AN_OBJECT, DeviceFault.GARBLED
    )


_FACE_EVIDENCE = frozenset({"人脸特征", "特征模型", "人脸图片", "人脸图片地址", "场景图片地址"})
_FORGETTING: tuple[Callable[[Message], FaultyRecord], ...] = (
    _whole, _forgets_checkpoint, _whole, _forgets_time, _whole, _invents_time,
)  # fmt: skip
_GARBLING: tuple[Callable[[Message], FaultyRecord], ...] = (
    _truncated_json,
    _wrong_charset,
    _encoded_twice,
)
