"""What the NAL units of H.264 (ITU-T H.264, 7.3 and 7.4) and H.265 (ITU-T H.265, 7.3) say.
Pure.

In: NAL units without start codes. Out: their kind; the size of the picture and what a container
writes of a film. Raises `BadParameterSet`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bus.contracts.video_segments import VideoCodec

MAX_SIDE_PX = 16_384
_H264_SPS, _H264_PPS, _H264_IDR, _H264_AUD = 7, 8, 5, 9
_H265_VPS, _H265_SPS, _H265_PPS, _H265_AUD = 32, 33, 34, 35
_H264_CHROMA_PROFILES = frozenset((100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134, 135))


class BadParameterSet(ValueError):
    """A parameter set that says nothing sensible."""


def nal_kind(codec: VideoCodec, nal: bytes) -> int:
    """`nal_unit_type`; -1 of nothing."""
    if not nal:
        return -1
    return nal[0] & 0x1F if codec == "h264" else nal[0] >> 1 & 0x3F


def is_key(codec: VideoCodec, nal: bytes) -> bool:
    """Whether decoding can begin with the picture that this belongs to."""
    kind = nal_kind(codec, nal)
    return kind == _H264_IDR if codec == "h264" else 16 <= kind <= 21


def is_parameter_set(codec: VideoCodec, nal: bytes) -> bool:
    """Whether it belongs into the head of a file and not among its pictures."""
    kind = nal_kind(codec, nal)
    return kind in (_H264_SPS, _H264_PPS) if codec == "h264" else _H265_VPS <= kind <= _H265_PPS


def is_picture_part(codec: VideoCodec, nal: bytes) -> bool:
    """Whether it goes into a sample: neither a parameter set nor a delimiter."""
    delimiter = _H264_AUD if codec == "h264" else _H265_AUD
    return not is_parameter_set(codec, nal) and nal_kind(codec, nal) != delimiter


@dataclass(frozen=True, slots=True)
class VideoFormat:
    """What is the same in all of a segment. `configuration` is the body of the box `avcC` or
    `hvcC` (ISO/IEC 14496-15)."""

    codec: VideoCodec
    width: int
    height: int
    configuration: bytes


def video_format(codec: VideoCodec, nals: Iterable[bytes]) -> VideoFormat | None:
    """By the newest parameter sets among these; None while one is missing. Raises
    `BadParameterSet`."""
    newest: dict[int, bytes] = {}
    for nal in nals:
        if is_parameter_set(codec, nal):
            newest[nal_kind(codec, nal)] = nal
    wanted = (_H264_SPS, _H264_PPS) if codec == "h264" else (_H265_VPS, _H265_SPS, _H265_PPS)
    if any(kind not in newest for kind in wanted):
        return None
    sets = [newest[kind] for kind in wanted]
    if max(map(len, sets)) > 0xFFFF:
        raise BadParameterSet("a parameter set of more than 64 KiB")
    try:
        found = _h264_format(*sets) if codec == "h264" else _h265_format(*sets)
    except IndexError:
        raise BadParameterSet("a parameter set that ends too early") from None
    if not (0 < found.width <= MAX_SIDE_PX and 0 < found.height <= MAX_SIDE_PX):
        raise BadParameterSet(f"{found.width}×{found.height} is no size of a picture")
    return found


class _BitReader:
    """Reads an RBSP bit by bit; raises IndexError at its end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def u(self, bits: int) -> int:
        value = 0
        for _ in range(bits):
            value = value << 1 | self._data[self._at >> 3] >> (7 - (self._at & 7)) & 1
            self._at += 1
        return value

    def ue(self) -> int:
        zeros = 0
        while not self.u(1):
            zeros += 1
            if zeros > 31:
                raise BadParameterSet("a number of more than 32 bits")
        return (1 << zeros) - 1 + self.u(zeros)

    def se(self) -> int:
        value = self.ue()
        return (value + 1) // 2 if value & 1 else -(value // 2)


def _rbsp(nal: bytes) -> bytes:
    """Without the bytes that keep start codes from appearing."""
    return nal.replace(b"\x00\x00\x03", b"\x00\x00")


def _h264_format(sps: bytes, pps: bytes) -> VideoFormat:
    bits = _BitReader(_rbsp(sps[1:]))
    profile = bits.u(8)
    bits.u(16)
    bits.ue()
    chroma, depths = 1, (0, 0)
    if profile in _H264_CHROMA_PROFILES:
        chroma = bits.ue()
        if chroma == 3:
            bits.u(1)
        depths = bits.ue(), bits.ue()
        bits.u(1)
        if bits.u(1):
            for number in range(8 if chroma != 3 else 12):
                if bits.u(1):
                    _skip_scaling_list(bits, 16 if number < 6 else 64)
    bits.ue()
    order = bits.ue()
    if order == 0:
        bits.ue()
    elif order == 1:
        bits.u(1)
        bits.se()
        bits.se()
        for _ in range(min(bits.ue(), 255)):
            bits.se()
    bits.ue()
    bits.u(1)
    width, height = (bits.ue() + 1) * 16, (bits.ue() + 1) * 16
    frames_only = bits.u(1)
    height *= 2 - frames_only
    if not frames_only:
        bits.u(1)
    bits.u(1)
    if bits.u(1):
        left, right, top, bottom = (bits.ue() for _ in range(4))
        across, down = (2, 2) if chroma == 1 else (2, 1) if chroma == 2 else (1, 1)
        width -= (left + right) * across
        height -= (top + bottom) * down * (2 - frames_only)
    head = bytes((1, sps[1], sps[2], sps[3], 0xFF, 0xE1))
    written = head + _sized(sps) + b"\x01" + _sized(pps)
    if profile in (100, 110, 122, 144):
        written += bytes((0xFC | chroma & 3, 0xF8 | depths[0] & 7, 0xF8 | depths[1] & 7, 0))
    return VideoFormat("h264", width, height, written)


def _skip_scaling_list(bits: _BitReader, size: int) -> None:
    last = following = 8
    for _ in range(size):
        if following:
            following = (last + bits.se()) % 256
        last = following or last


def _h265_format(vps: bytes, sps: bytes, pps: bytes) -> VideoFormat:
    data = _rbsp(sps[2:])
    bits = _BitReader(data)
    bits.u(4)
    sublayers = bits.u(3)
    nested = bits.u(1)
    profile = data[1:13]  # general_profile_space to general_level_idc
    bits.u(96)
    present = [(bits.u(1), bits.u(1)) for _ in range(sublayers)]
    if sublayers:
        bits.u(2 * (8 - sublayers))
    for has_profile, has_level in present:
        bits.u(88 * has_profile + 8 * has_level)
    bits.ue()
    chroma = bits.ue()
    if chroma == 3:
        bits.u(1)
    width, height = bits.ue(), bits.ue()
    if bits.u(1):
        left, right, top, bottom = (bits.ue() for _ in range(4))
        across, down = (2, 2) if chroma == 1 else (2, 1) if chroma == 2 else (1, 1)
        width -= (left + right) * across
        height -= (top + bottom) * down
    depths = bits.ue(), bits.ue()
    if len(profile) < 12:
        raise BadParameterSet("a profile that ends too early")
    head = b"\x01" + profile + bytes((0xF0, 0, 0xFC, 0xFC | chroma & 3))
    head += bytes((0xF8 | depths[0] & 7, 0xF8 | depths[1] & 7, 0, 0))
    head += bytes(((sublayers + 1) << 3 | nested << 2 | 3, 3))
    arrays = (
        bytes((0x80 | kind, 0, 1)) + _sized(nal)
        for kind, nal in ((_H265_VPS, vps), (_H265_SPS, sps), (_H265_PPS, pps))
    )
    return VideoFormat("h265", width, height, head + b"".join(arrays))


def _sized(nal: bytes) -> bytes:
    return len(nal).to_bytes(2, "big") + nal
