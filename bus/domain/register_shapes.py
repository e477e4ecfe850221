"""What is wrong with the shapes of a register's entries: places, polygons, pieces of roads. Pure.

In: an entry, the checkpoints that there are. Out: faults in both languages. Never: a polygon of
which a rule would say another thing than the register.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from typing import NamedTuple

from bus.contracts.register import Device, District, Polygon, Road, RoadPiece
from bus.contracts.video_segments import CODECS
from bus.domain.polygons import MOST_CORNERS, PolygonFault, corner_fault, polygon_fault
from bus.domain.register_shape_texts import BETWEEN_LANES
from bus.domain.stream_address import StreamRefused, stream_address

MAX_PARTS, MAX_LANES, MAX_PIECES = 100, 32, 2_000
MAX_LANE_CHARACTERS = 32
LONGEST_PIECE_M, HIGHEST_LIMIT_KMH = 200_000.0, 200

_ZH = {
    "no_place": "不是有效位置：先纬度、后经度，单位为度（WGS 84）",
    "polygon_corners": f"多边形须有 3 至 {MOST_CORNERS} 个顶点",
    "polygon_corner_twice": "相邻顶点重复；最后一点自动与第一点相连",
    "polygon_crosses": "多边形自相交或相接；请按环绕顺序写出顶点",
}


class RegisterFault(NamedTuple):
    """What is wrong with one entry, and what to do; in both languages."""

    key: str
    text: str
    text_zh: str


def of_place(key: str, latitude: float, longitude: float) -> Iterator[RegisterFault]:
    """Of one place."""
    if corner_fault(longitude, latitude) is not None:
        yield RegisterFault(
            key,
            f"{latitude}, {longitude} is no place: degrees of latitude, then of longitude (WGS 84)",
            f"{latitude}, {longitude} {_ZH['no_place']}",
        )


def of_district(key: str, one: District) -> Iterator[RegisterFault]:
    """Of its parts."""
    if len(one.area) > MAX_PARTS:
        yield RegisterFault(
            key, f"a district has at most {MAX_PARTS} parts", f"区域最多 {MAX_PARTS} 个部分"
        )
        return
    for part in one.area:
        yield from _of_polygon(key, part)


def of_device(key: str, one: Device) -> Iterator[RegisterFault]:
    """Of its area, its bearing, its lanes and their headings, its stream."""
    if one.area:
        yield from _of_polygon(key, one.area)
    if one.bearing is not None and not 0 <= one.bearing < 360:
        yield RegisterFault(
            key, f"the bearing {one.bearing:g} is none of 0 to 360 degrees from north",
            f"方位角 {one.bearing:g} 应为 0 至 360 度（自正北顺时针）",
        )  # fmt: skip
    if len(one.lanes) > MAX_LANES or not all(map(_is_lane, one.lanes)):
        yield RegisterFault(
            key, f"at most {MAX_LANES} lanes of 1 to {MAX_LANE_CHARACTERS} characters each",
            f"车道最多 {MAX_LANES} 个，每个 1 至 {MAX_LANE_CHARACTERS} 个字符",
        )  # fmt: skip
    if len(one.headings) not in (0, 1, len(one.lanes)):
        yield RegisterFault(
            key, f"{len(one.headings)} headings of {len(one.lanes)} lanes: one for each lane in its"
            " order, or one for all",
            f"{len(one.lanes)} 条车道却有 {len(one.headings)} 个行驶方向：请按车道顺序各写一个，"
            "或只写一个表示全部",
        )  # fmt: skip
    yield from _of_stream(key, one)


def _of_stream(key: str, one: Device) -> Iterator[RegisterFault]:
    if one.stream:
        try:
            stream_address(one.stream)
        except StreamRefused as error:
            yield RegisterFault(
                key, f"stream: {error}",
                "视频流地址应为 rtsp://主机[:端口]/路径，且不含用户名和密码",
            )  # fmt: skip
    if one.codec and one.codec not in CODECS:
        yield RegisterFault(
            key, f"codec: {one.codec[:40]!r} is none of {', '.join(CODECS)}",
            f"视频编码应为 {'、'.join(CODECS)}",
        )  # fmt: skip


def _is_lane(text: str) -> bool:
    """One that a CSV can hold beside others, too."""
    is_short = 0 < len(text) <= MAX_LANE_CHARACTERS and text == text.strip()
    is_text = not any("\ud800" <= sign <= "\udfff" for sign in text)
    return is_short and is_text and BETWEEN_LANES not in text and text.isprintable()


def of_road(key: str, one: Road, checkpoints: Collection[str]) -> Iterator[RegisterFault]:
    """Of its line and its pieces; it has either."""
    if len(one.line) < 2 and (one.line or not one.pieces):
        yield RegisterFault(key, "a road needs two places at least", "道路至少需要两个点")
    for latitude, longitude in one.line:
        yield from of_place(key, latitude, longitude)
    if len(one.pieces) > MAX_PIECES:
        yield RegisterFault(
            key, f"a road has at most {MAX_PIECES} pieces", f"道路最多 {MAX_PIECES} 段"
        )
        return
    for piece in one.pieces:
        yield from _of_piece(key, piece, checkpoints)


def _of_piece(key: str, one: RoadPiece, checkpoints: Collection[str]) -> Iterator[RegisterFault]:
    for end in (one.begin, one.end):
        if end not in checkpoints:
            yield RegisterFault(
                key,
                f"a piece names the checkpoint {end!r}, which there is not: add it, or write one"
                " that there is",
                f"路段引用了不存在的卡口“{end}”：请先添加，或改为已有的卡口",
            )
    if one.begin == one.end:
        yield RegisterFault(
            key, f"a piece begins and ends at {one.begin!r}", f"路段的起点与终点相同：“{one.begin}”"
        )
    if not (math.isfinite(one.length_m) and 0 < one.length_m <= LONGEST_PIECE_M):
        yield RegisterFault(
            key, f"a piece is 1 to {LONGEST_PIECE_M:g} metres long, not {one.length_m:g}",
            f"路段长度应为 1 至 {LONGEST_PIECE_M:g} 米，而不是 {one.length_m:g}",
        )  # fmt: skip
    if not 0 <= one.limit_kmh <= HIGHEST_LIMIT_KMH:
        yield RegisterFault(
            key, f"a limit is up to {HIGHEST_LIMIT_KMH} km/h; 0 where it is not known",
            f"限速最高 {HIGHEST_LIMIT_KMH} 公里/小时；未知时写 0",
        )  # fmt: skip


def _of_polygon(key: str, polygon: Polygon) -> Iterator[RegisterFault]:
    fault = polygon_fault([(longitude, latitude) for latitude, longitude in polygon])
    if fault is not None:
        yield RegisterFault(key, f"{fault.text}{_at(polygon, fault)}", _in_chinese(polygon, fault))


def _at(polygon: Polygon, fault: PolygonFault) -> str:
    if fault.corner < 0 or fault.code == "no_place":
        return ""
    latitude, longitude = polygon[fault.corner]
    return f" (at {latitude:g} {longitude:g}, its corner {fault.corner + 1})"


def _in_chinese(polygon: Polygon, fault: PolygonFault) -> str:
    if fault.corner < 0:
        return _ZH[fault.code]
    latitude, longitude = polygon[fault.corner]
    return f"第 {fault.corner + 1} 个顶点（{latitude:g} {longitude:g}）：{_ZH[fault.code]}"
