"""Cuts a stream of pictures into segments, each of which begins with a keyframe. Pure.

In: access units in the order in which they are decoded. Out: what is to be written, and what a
segment is once it has ended. Raises `NoKeyframe`. Never: a file, a clock; a segment longer than
`MAX_SEGMENT_MS`, or a fragment of more than `MAX_FRAGMENT_BYTES` held.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from bus.contracts.video_segments import MAX_SEGMENT_MS, Keyframe, VideoCodec, VideoSegment
from ingest.films.fragmented_mp4 import VideoSample, fragment, head, sample_data
from ingest.films.nal_units import (
    VideoFormat,
    is_parameter_set,
    is_picture_part,
    nal_kind,
    video_format,
)
from ingest.films.rtsp.rtp import AccessUnit

KEYFRAME_TIMEOUT_MS = 60_000
MAX_FRAGMENT_BYTES = 8 << 20
FRAGMENT_MS = 2_000
"""What is held back at most; a keyframe always begins a fragment."""
MAX_STEP_S, MAX_BACK_S = 10, 2
"""Between two pictures; what jumps farther is taken for a clock that was set."""
assert KEYFRAME_TIMEOUT_MS * 2 <= MAX_SEGMENT_MS


class NoKeyframe(Exception):
    """A film of which nothing could be played alone."""


@dataclass(frozen=True, slots=True)
class SegmentBegun:
    """A new file begins with these bytes."""

    start_ms: int
    data: bytes


@dataclass(frozen=True, slots=True)
class SegmentData:
    """More of it."""

    data: bytes


@dataclass(frozen=True, slots=True)
class SegmentEnded:
    """Nothing more comes; the file is whole, and this is what it is. `name` is not set yet."""

    segment: VideoSegment


SegmentEffect = SegmentBegun | SegmentData | SegmentEnded


@dataclass(slots=True)
class _OpenSegment:
    """One that is being written. `size` and `digest` are of what was handed out."""

    film: VideoFormat
    start_ms: int
    first_time: int
    digest: hashlib._Hash = field(default_factory=hashlib.sha256)
    size: int = 0
    fragments: int = 0
    frames: int = 0
    decoded_until: int = 0
    keyframes: list[Keyframe] = field(default_factory=list)

    def count(self, data: bytes) -> bytes:
        self.digest.update(data)
        self.size += len(data)
        return data


@dataclass(slots=True)
class Segmenter:
    """One film, from its first keyframe to its end.

    Invariant: `_pending` are the pictures of `_open` that are in no fragment yet, in the order of
    decoding; without an open segment there are none.
    """

    camera_ip: str
    codec: VideoCodec
    clock_hz: int
    segment_ms: int
    parameter_sets: tuple[bytes, ...] = ()
    _open: _OpenSegment | None = None
    _pending: list[AccessUnit] = field(default_factory=list)
    _pending_bytes: int = 0
    _since_ms: int | None = None
    _last: AccessUnit | None = None
    _shift: int = 0

    def on_unit(self, unit: AccessUnit) -> list[SegmentEffect]:
        """Take one picture in. Raises `NoKeyframe`, `BadParameterSet`."""
        self._since_ms = unit.received_ms if self._since_ms is None else self._since_ms
        unit = self._steady(unit)
        if not unit.is_key:
            return self._on_other(unit)
        sets = [one for one in unit.nals if is_parameter_set(self.codec, one)]
        if sets:
            self.parameter_sets = _newest_sets(self.codec, (*self.parameter_sets, *sets))
        film = video_format(self.codec, self.parameter_sets)
        if film is None:
            return self._on_other(unit)
        return self._on_key(unit, film)

    def finish(self) -> list[SegmentEffect]:
        """The film ends here: what is there is a whole segment."""
        if self._open is None or self._last is None:
            return []
        end_ms = self._last.received_ms + 1000 // 25
        return self._end(end_ms, self._last.time + self.clock_hz // 25)

    def _on_key(self, unit: AccessUnit, film: VideoFormat) -> list[SegmentEffect]:
        effects: list[SegmentEffect] = []
        opened = self._open
        if opened is not None:
            age_ms = unit.received_ms - opened.start_ms
            if film != opened.film or not 0 <= age_ms < self.segment_ms:
                effects += self._end(unit.received_ms, unit.time)
            else:
                effects += self._flush(unit.time)
        if self._open is None:
            self._open = _OpenSegment(film, unit.received_ms, unit.time)
            data = self._open.count(head(film, self.clock_hz))
            effects.append(SegmentBegun(unit.received_ms, data))
        self._open.keyframes.append(
            Keyframe(self._open.size, unit.received_ms, unit.camera_ms)
        )
        self._since_ms = unit.received_ms
        self._hold(unit)
        return effects

    def _on_other(self, unit: AccessUnit) -> list[SegmentEffect]:
        waited_ms = unit.received_ms - (self._since_ms or 0)
        if waited_ms > KEYFRAME_TIMEOUT_MS:
            raise NoKeyframe(f"no keyframe within {KEYFRAME_TIMEOUT_MS // 1000} s")
        if self._open is None:
            return []
        effects: list[SegmentEffect] = []
        held_ms = unit.received_ms - self._pending[0].received_ms if self._pending else 0
        if held_ms >= FRAGMENT_MS or self._pending_bytes >= MAX_FRAGMENT_BYTES:
            effects += self._flush(unit.time)
        self._hold(unit)
        return effects

    def _hold(self, unit: AccessUnit) -> None:
        self._pending.append(unit)
        self._pending_bytes += sum(map(len, unit.nals))

    def _flush(self, until: int) -> list[SegmentEffect]:
        """What is pending, as a fragment that ends at a time."""
        opened = self._open
        if opened is None or not self._pending:
            return []
        begins = max(opened.decoded_until, self._pending[0].time - opened.first_time)
        samples = _samples(self.codec, self._pending, until)
        opened.fragments += 1
        opened.frames += len(samples)
        data = fragment(opened.fragments, begins, samples)
        opened.decoded_until = begins + sum(one.duration for one in samples)
        self._pending, self._pending_bytes = [], 0
        return [SegmentData(opened.count(data))]

    def _end(self, end_ms: int, until: int) -> list[SegmentEffect]:
        effects = self._flush(until)
        opened = self._open
        if opened is None:
            return effects
        self._open = None
        last_ms = opened.keyframes[-1].at_ms
        digest = opened.digest.hexdigest()
        segment = VideoSegment(
            segment_id=f"{self.camera_ip}-{opened.start_ms}-{digest[:12]}",
            camera_ip=self.camera_ip,
            state="stored",
            start_ms=opened.start_ms,
            end_ms=min(max(end_ms, last_ms + 1), opened.start_ms + MAX_SEGMENT_MS),
            codec=opened.film.codec,
            width=opened.film.width,
            height=opened.film.height,
            size_bytes=opened.size,
            sha256=digest,
            keyframes=tuple(opened.keyframes),
            frames=opened.frames,
        )
        return [*effects, SegmentEnded(segment)]

    def _steady(self, unit: AccessUnit) -> AccessUnit:
        """The same picture at a time that goes on from the one before."""
        last = self._last
        time = unit.time + self._shift
        if last is not None:
            step = time - last.time
            if not -MAX_BACK_S * self.clock_hz < step < MAX_STEP_S * self.clock_hz:
                passed_ms = min(max(unit.received_ms - last.received_ms, 1), MAX_STEP_S * 1000)
                self._shift += passed_ms * self.clock_hz // 1000 - step
                time = unit.time + self._shift
        steady = AccessUnit(unit.nals, time, unit.received_ms, unit.camera_ms, unit.is_key)
        self._last = steady
        return steady


def _newest_sets(codec: VideoCodec, sets: Sequence[bytes]) -> tuple[bytes, ...]:
    """The last of each kind, in the order of the kinds."""
    found = {nal_kind(codec, one): one for one in sets}
    return tuple(found[kind] for kind in sorted(found))


def _samples(codec: VideoCodec, units: Sequence[AccessUnit], until: int) -> list[VideoSample]:
    """Pictures come as they are decoded, with the times at which they are shown: those in their
    order are the times of decoding."""
    shown = [unit.time for unit in units]
    decoded = sorted(shown)
    ends = [*decoded[1:], max(until, decoded[-1] + 1)]
    return [
        VideoSample(
            sample_data([nal for nal in unit.nals if is_picture_part(codec, nal)]),
            end - begin,
            unit.is_key,
            unit.time - begin,
        )
        for unit, begin, end in zip(units, decoded, ends, strict=True)
    ]
