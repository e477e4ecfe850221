"""Segments of a made film: what comes out is what went in, cut at keyframes, readable by FFmpeg."""

from __future__ import annotations

import hashlib
import itertools
import random
import struct
from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.contracts.video_segments import MAX_SEGMENT_MS, VideoSegment
from ingest.films.nal_units import BadParameterSet, video_format
from ingest.films.rtsp.rtp import AccessUnit
from ingest.films.segmenter import (
    KEYFRAME_TIMEOUT_MS,
    MAX_STEP_S,
    NoKeyframe,
    SegmentBegun,
    SegmentData,
    SegmentEffect,
    SegmentEnded,
    Segmenter,
)

HZ = 90_000
# 640 × 360, constrained baseline, as OpenH264 writes it
SPS, PPS = bytes.fromhex("6742c01e8c8d405017fcb00f08846a"), bytes.fromhex("68ce3c80")
START = 1_700_000_000_000


def unit(number: int, *, key: bool, late_ms: int = 0, shown: int | None = None, sets: bool = True) -> AccessUnit:
    """The picture `number` of a film of 25 pictures a second."""
    kind = b"\x65" if key else b"\x41"
    nals = ((SPS, PPS) if key and sets else ()) + (kind + number.to_bytes(4, "big"),)
    at = number if shown is None else shown
    return AccessUnit(nals, at * HZ // 25, START + 40 * number + late_ms, 0, key)


def sps_of(width: int, height: int) -> bytes:
    """Of the baseline profile, for so many macroblocks."""

    def ue(value: int) -> str:
        digits = f"{value + 1:b}"
        return "0" * (len(digits) - 1) + digits

    bits = f"{66:08b}{0xC0:08b}{30:08b}" + ue(0) + ue(0) + ue(2) + ue(1) + "0"
    bits += ue(width - 1) + ue(height - 1) + "1" + "1" + "0" + "0" + "1"
    bits += "0" * (-len(bits) % 8)
    return b"\x67" + int(bits, 2).to_bytes(len(bits) // 8, "big")


def boxes(data: bytes) -> Iterator[tuple[str, bytes]]:
    at = 0
    while at < len(data):
        size = struct.unpack_from(">I", data, at)[0]
        assert size >= 8
        yield data[at + 4 : at + 8].decode(), data[at + 8 : at + size]
        at += size
    assert at == len(data)


def ended(effects: Iterable[SegmentEffect]) -> list[tuple[VideoSegment, bytes]]:
    found, data = [], b""
    for effect in effects:
        if isinstance(effect, SegmentBegun):
            data = effect.data
        elif isinstance(effect, SegmentData):
            data += effect.data
        else:
            found.append((effect.segment, data))
    return found


def samples_of(data: bytes) -> list[tuple[int, int, bytes]]:
    """Decode time, time at which it is shown, and bytes of every sample."""
    found = []
    moof: dict[str, bytes] = {}
    for kind, body in boxes(data):
        if kind == "moof":
            moof = dict(boxes(dict(boxes(body))["traf"]))
        elif kind == "mdat":
            time = struct.unpack(">Q", moof["tfdt"][4:])[0]
            count = struct.unpack_from(">I", moof["trun"], 4)[0]
            at = 0
            for number in range(count):
                duration, size, _, later = struct.unpack_from(">IIIi", moof["trun"], 12 + 16 * number)
                found.append((time, time + later, body[at : at + size]))
                time, at = time + duration, at + size
            assert at == len(body)
    return found


@given(st.integers(0, 1 << 32), st.integers(1, 60), st.integers(1, 10))
def test_every_picture_from_the_first_keyframe_on_is_in_one_segment_in_its_order(
    seed: int, gop: int, segment_s: int
) -> None:
    dice = random.Random(seed)
    before = dice.randrange(gop)
    film = Segmenter("10.0.0.1", "h264", HZ, segment_s * 1000)
    effects: list[SegmentEffect] = []
    for number in range(300):
        key = number >= before and (number - before) % gop == 0
        effects += film.on_unit(unit(number, key=key, late_ms=dice.randrange(5)))
    segments = ended([*effects, *film.finish()])
    numbers = [
        int.from_bytes(sample[5:9], "big")
        for _, data in segments
        for _, _, sample in samples_of(data)
    ]
    assert numbers == list(range(before, 300))
    for segment, data in segments:
        assert hashlib.sha256(data).hexdigest() == segment.sha256
        assert (len(data), len(samples_of(data))) == (segment.size_bytes, segment.frames)
        assert all(data[key.offset + 4 : key.offset + 8] == b"moof" for key in segment.keyframes)
        assert segment.end_ms - segment.start_ms <= MAX_SEGMENT_MS
    for (one, _), (following, _) in itertools.pairwise(segments):
        assert one.end_ms == following.start_ms
        assert one.end_ms - one.start_ms >= segment_s * 1000


def test_pictures_that_are_shown_in_another_order_than_decoded_keep_both() -> None:
    """I0 P3 B1 B2, I4 P7 B5 B6, …"""
    film = Segmenter("10.0.0.1", "h264", HZ, 60_000)
    effects: list[SegmentEffect] = []
    for group in range(3):
        for place, shown in enumerate((0, 3, 1, 2)):
            number = 4 * group + place
            effects += film.on_unit(unit(number, key=place == 0, shown=4 * group + shown))
    ((_, data),) = ended([*effects, *film.finish()])
    step = HZ // 25
    found = [(decoded // step, shown // step) for decoded, shown, _ in samples_of(data)]
    assert found == [(n, 4 * (n // 4) + (0, 3, 1, 2)[n % 4]) for n in range(12)]


def test_a_clock_of_the_stream_that_jumps_leaves_durations_of_pictures_and_no_years() -> None:
    film = Segmenter("10.0.0.1", "h264", HZ, 60_000)
    effects: list[SegmentEffect] = []
    for number in range(50):
        one = unit(number, key=number % 25 == 0)
        jump = {10: 1 << 40, 20: -(1 << 40)}.get(number // 2 * 2, 0)
        effects += film.on_unit(AccessUnit(one.nals, one.time + jump, one.received_ms, 0, one.is_key))
    ((_, data),) = ended([*effects, *film.finish()])
    times = [decoded for decoded, _, _ in samples_of(data)]
    steps = [after - before for before, after in itertools.pairwise(times)]
    assert all(0 < step <= MAX_STEP_S * HZ for step in steps)


def test_another_size_of_picture_begins_another_segment() -> None:
    other = sps_of(20, 15)
    film = Segmenter("10.0.0.1", "h264", HZ, 60_000)
    effects = [*film.on_unit(unit(0, key=True)), *film.on_unit(unit(1, key=False))]
    changed = unit(2, key=True)
    effects += film.on_unit(AccessUnit((other, PPS, changed.nals[-1]), *_rest(changed)))
    effects += film.on_unit(unit(3, key=True, sets=False))
    segments = [one for one, _ in ended([*effects, *film.finish()])]
    found = [(one.width, one.height, one.frames) for one in segments]
    assert found == [(640, 360, 2), (320, 240, 2)]


def _rest(one: AccessUnit) -> tuple[int, int, int, bool]:
    return one.time, one.received_ms, one.camera_ms, one.is_key


def test_a_film_without_keyframes_ends_with_an_error_and_not_in_memory() -> None:
    film = Segmenter("10.0.0.1", "h264", HZ, 10_000)
    film.on_unit(unit(0, key=True))
    with pytest.raises(NoKeyframe):
        for number in range(1, KEYFRAME_TIMEOUT_MS):
            film.on_unit(unit(number, key=False))
    assert sum(1 for one in film.finish() if isinstance(one, SegmentEnded)) == 1


def test_a_keyframe_after_the_recorders_clock_went_back_begins_another_segment() -> None:
    film = Segmenter("10.0.0.1", "h264", HZ, 10_000)
    effects = [*film.on_unit(unit(0, key=True)), *film.on_unit(unit(25, key=True))]
    back = unit(50, key=True, late_ms=-3_600_000)
    effects += film.on_unit(back)
    segments = [one for one, _ in ended([*effects, *film.finish()])]
    assert [one.start_ms for one in segments] == [START, back.received_ms]
    assert all(one.end_ms > one.start_ms for one in segments)


@given(st.sampled_from(["h264", "h265"]), st.binary(max_size=60), st.integers(0, 200), st.integers(0, 255))
def test_any_parameter_set_is_a_format_or_an_error_of_its_own(
    codec: str, data: bytes, at: int, value: int
) -> None:
    damaged = bytearray(SPS)
    damaged[at % len(SPS)] = value
    for sets in (
        [bytes([0x67]) + data, PPS], [bytes(damaged), PPS],
        [b"\x40\x01" + data, b"\x42\x01" + data, b"\x44\x01" + data],
    ):  # fmt: skip
        try:
            found = video_format(codec, sets)  # type: ignore[arg-type]
        except BadParameterSet:
            continue
        assert found is None or (found.width > 0 and found.height > 0)
