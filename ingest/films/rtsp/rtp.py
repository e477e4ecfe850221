"""RTP packets (RFC 3550) and the access units that they carry (RFC 6184, RFC 7798). Pure.

In: packets in the order of one TCP connection, with the time at which they came. Out: whole access
units. What is malformed or incomplete is left out and counted. Never: more than `MAX_UNIT_BYTES`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from bus.contracts.video_segments import VideoCodec
from ingest.films.nal_units import is_key, is_parameter_set

MAX_UNIT_BYTES = 16 << 20
MAX_NALS = 1_024
_NTP_UNIX_S = 2_208_988_800
_SENDER_REPORT = 200


class RtpPacket(NamedTuple):
    """What of a packet matters here."""

    payload_type: int
    has_marker: bool
    sequence: int
    time: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class AccessUnit:
    """One picture: its NAL units without start codes, its RTP time (unwrapped, in ticks), when it
    came (epoch ms), and the camera's own time of it; 0 where no report told it."""

    nals: tuple[bytes, ...]
    time: int
    received_ms: int
    camera_ms: int
    is_key: bool


def rtp_packet(data: bytes) -> RtpPacket | None:
    """None for what is no RTP packet of version 2."""
    if len(data) < 12 or data[0] >> 6 != 2:
        return None
    at = 12 + 4 * (data[0] & 0x0F)
    if data[0] & 0x10:
        if len(data) < at + 4:
            return None
        at += 4 + 4 * int.from_bytes(data[at + 2 : at + 4], "big")
    end = len(data)
    if data[0] & 0x20:
        end -= data[-1]
    if at > end:
        return None
    return RtpPacket(
        data[1] & 0x7F, bool(data[1] & 0x80), int.from_bytes(data[2:4], "big"),
        int.from_bytes(data[4:8], "big"), data[at:end],
    )  # fmt: skip


class SenderReport(NamedTuple):
    """At this RTP time the sender's clock showed that moment."""

    camera_ms: int
    time: int


def sender_report(data: bytes) -> SenderReport | None:
    """The first packet of a compound RTCP packet, if it is a sender's report."""
    if len(data) < 28 or data[0] >> 6 != 2 or data[1] != _SENDER_REPORT:
        return None
    seconds = int.from_bytes(data[8:12], "big") - _NTP_UNIX_S
    if seconds <= 0:  # a camera without a clock
        return None
    camera_ms = seconds * 1000 + (int.from_bytes(data[12:16], "big") * 1000 >> 32)
    return SenderReport(camera_ms, int.from_bytes(data[16:20], "big"))


@dataclass(slots=True)
class Depacketizer:
    """Puts access units together. Invariant: `_nals` belong to the picture of `_time`; `_part` is
    the beginning of a NAL unit whose fragments are still coming."""

    codec: VideoCodec
    payload_type: int
    clock_hz: int
    lost_packets: int = 0
    malformed_packets: int = 0
    _nals: list[bytes] = field(default_factory=list)
    _bytes: int = 0
    _part: bytearray | None = None
    _time: int | None = None
    _received_ms: int = 0
    _sequence: int | None = None
    _report: SenderReport | None = None

    def on_report(self, report: SenderReport) -> None:
        """The camera's clock, for what follows."""
        base = report.time if self._time is None else self._time
        self._report = SenderReport(report.camera_ms, _unwrapped(report.time, base))

    def on_packet(self, packet: RtpPacket, now_ms: int) -> list[AccessUnit]:
        """The access units that are whole now: none, one, or two."""
        if packet.payload_type != self.payload_type:
            return []
        found: list[AccessUnit] = []
        self._note_sequence(packet.sequence)
        time = packet.time if self._time is None else _unwrapped(packet.time, self._time)
        if time != self._time:
            found += self._finished()
            self._time, self._received_ms = time, now_ms
        if not self._add(packet.payload):
            self.malformed_packets += 1
        if packet.has_marker:
            found += self._finished()
        return found

    def _note_sequence(self, sequence: int) -> None:
        expected = sequence if self._sequence is None else (self._sequence + 1) & 0xFFFF
        if sequence != expected:
            self.lost_packets += (sequence - expected) & 0xFFFF
            self._part = None
        self._sequence = sequence

    def _finished(self) -> list[AccessUnit]:
        nals, time = tuple(self._nals), self._time
        self._nals, self._bytes, self._part = [], 0, None
        if time is None or not nals or all(is_parameter_set(self.codec, one) for one in nals):
            self._nals = list(nals)  # parameter sets may come as pictures of their own
            return []
        camera_ms = 0
        if self._report is not None:
            since = time - self._report.time
            camera_ms = self._report.camera_ms + since * 1000 // self.clock_hz
        key = any(is_key(self.codec, one) for one in nals)
        return [AccessUnit(nals, time, self._received_ms, camera_ms, key)]

    def _add(self, payload: bytes) -> bool:
        if self._bytes + len(payload) > MAX_UNIT_BYTES or len(self._nals) >= MAX_NALS:
            return False
        if self.codec == "h264":
            return self._add_h264(payload)
        return self._add_h265(payload)

    def _add_h264(self, payload: bytes) -> bool:
        if not payload:
            return False
        kind = payload[0] & 0x1F
        if 1 <= kind <= 23:
            return self._put(payload)
        if kind == 24:
            return self._aggregate(payload, 1)
        if kind == 28 and len(payload) > 2:
            header = bytes([payload[0] & 0xE0 | payload[1] & 0x1F])
            return self._fragment(payload[1], header, payload[2:])
        return False

    def _add_h265(self, payload: bytes) -> bool:
        if len(payload) < 3:
            return False
        kind = payload[0] >> 1 & 0x3F
        if kind < 48:
            return self._put(payload)
        if kind == 48:
            return self._aggregate(payload, 2)
        if kind == 49 and len(payload) > 3:
            header = bytes([payload[0] & 0x81 | (payload[2] & 0x3F) << 1, payload[1]])
            return self._fragment(payload[2], header, payload[3:])
        return False

    def _put(self, nal: bytes) -> bool:
        self._part = None
        self._nals.append(nal)
        self._bytes += len(nal)
        return True

    def _aggregate(self, payload: bytes, at: int) -> bool:
        while at < len(payload):
            size = int.from_bytes(payload[at : at + 2], "big")
            nal = payload[at + 2 : at + 2 + size]
            if not size or len(nal) != size or len(self._nals) >= MAX_NALS:
                return False
            self._put(nal)
            at += 2 + size
        return True

    def _fragment(self, flags: int, header: bytes, data: bytes) -> bool:
        if flags & 0x80:
            self._part = bytearray(header)
        if self._part is None:
            return False
        self._part += data
        self._bytes += len(data)
        if flags & 0x40:
            self._nals.append(bytes(self._part))
            self._part = None
        return True


def _unwrapped(time: int, near: int) -> int:
    """The number that ends with these 32 bits and is nearest to another."""
    difference = (time - near) & 0xFFFFFFFF
    return near + difference - (1 << 32 if difference >= 1 << 31 else 0)
