"""A film as fragmented MP4 (ISO/IEC 14496-12, 14496-15), written piece by piece. Pure.

In: the format of a film; samples. Out: bytes: a head, then fragments, each a `moof` and its `mdat`,
which browsers' MediaSource takes as they are. Never: decoding.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from ingest.films.nal_units import VideoFormat

_MATRIX = struct.pack(">9I", 0x10000, 0, 0, 0, 0x10000, 0, 0, 0, 0x40000000)
_KEY_FLAGS, _OTHER_FLAGS = 0x02000000, 0x01010000
# data offset, and of each sample duration, size, flags, composition offset
_TRUN_FLAGS = 0x000F01


@dataclass(frozen=True, slots=True)
class VideoSample:
    """One picture as the container has it: NAL units, each behind its length; times in ticks.
    `composition_offset`: how much later than it is decoded it is shown."""

    data: bytes
    duration: int
    is_key: bool
    composition_offset: int = 0


def sample_data(nals: Sequence[bytes]) -> bytes:
    """NAL units as a sample holds them."""
    return b"".join(len(nal).to_bytes(4, "big") + nal for nal in nals)


def head(film: VideoFormat, timescale: int) -> bytes:
    """What stands before the fragments; `timescale`: ticks a second."""
    brands = b"isom" + struct.pack(">I", 512) + b"isomiso6mp41"
    movie = _box("moov", _movie(timescale), _track(film, timescale), _extends())
    return _box("ftyp", brands) + movie


def fragment(number: int, decode_time: int, samples: Sequence[VideoSample]) -> bytes:
    """One `moof` with its `mdat`; `number` from 1 on, `decode_time` that of the first sample."""
    rows = b"".join(
        struct.pack(
            ">IIIi", one.duration, len(one.data), _KEY_FLAGS if one.is_key else _OTHER_FLAGS,
            one.composition_offset,
        )
        for one in samples
    )  # fmt: skip
    header = _full("mfhd", 0, 0, struct.pack(">I", number))
    track = _full("tfhd", 0, 0x020000, struct.pack(">I", 1))
    time = _full("tfdt", 1, 0, struct.pack(">Q", decode_time))
    # boxes around the run: its own head of 20 bytes, traf's and moof's of 8 each
    moof_bytes = len(header) + len(track) + len(time) + 20 + len(rows) + 16
    run = _full("trun", 1, _TRUN_FLAGS, struct.pack(">Ii", len(samples), moof_bytes + 8) + rows)
    moof = _box("moof", header, _box("traf", track, time, run))
    return moof + _box("mdat", *(one.data for one in samples))


def _box(kind: str, *parts: bytes) -> bytes:
    return struct.pack(">I", 8 + sum(map(len, parts))) + kind.encode() + b"".join(parts)


def _full(kind: str, version: int, flags: int, *parts: bytes) -> bytes:
    return _box(kind, struct.pack(">I", version << 24 | flags), *parts)


def _movie(timescale: int) -> bytes:
    times = struct.pack(">IIII", 0, 0, timescale, 0)
    return _full(
        "mvhd", 0, 0, times, struct.pack(">IH", 0x10000, 0x100), bytes(10), _MATRIX, bytes(24),
        struct.pack(">I", 2),
    )  # fmt: skip


def _track(film: VideoFormat, timescale: int) -> bytes:
    header = _full(
        "tkhd", 0, 3, struct.pack(">IIIII", 0, 0, 1, 0, 0), bytes(16), _MATRIX,
        struct.pack(">II", film.width << 16, film.height << 16),
    )  # fmt: skip
    media_header = _full("mdhd", 0, 0, struct.pack(">IIIIHH", 0, 0, timescale, 0, 0x55C4, 0))
    handler = _full("hdlr", 0, 0, bytes(4), b"vide", bytes(12), b"film\0")
    data = _box("dinf", _full("dref", 0, 0, struct.pack(">I", 1), _full("url ", 0, 1)))
    nothing = struct.pack(">I", 0)
    table = _box(
        "stbl", _full("stsd", 0, 0, struct.pack(">I", 1), _entry(film)),
        _full("stts", 0, 0, nothing), _full("stsc", 0, 0, nothing),
        _full("stsz", 0, 0, nothing, nothing), _full("stco", 0, 0, nothing),
    )  # fmt: skip
    information = _box("minf", _full("vmhd", 0, 1, bytes(8)), data, table)
    return _box("trak", header, _box("mdia", media_header, handler, information))


def _entry(film: VideoFormat) -> bytes:
    kind, box = ("avc1", "avcC") if film.codec == "h264" else ("hvc1", "hvcC")
    size = struct.pack(">HH", film.width, film.height)
    resolution = struct.pack(">III", 0x480000, 0x480000, 0)
    return _box(
        kind, bytes(6), struct.pack(">H", 1), bytes(16), size, resolution,
        struct.pack(">H", 1), bytes(32), struct.pack(">Hh", 24, -1), _box(box, film.configuration),
    )  # fmt: skip


def _extends() -> bytes:
    return _box("mvex", _full("trex", 0, 0, struct.pack(">IIIII", 1, 1, 0, 0, 0)))
