"""The register as files that people make: CSV, GeoJSON, JSON. Pure; docs/register.md.

In: text or a register. Out: parts with the number of their line, or faults with it. Never: files.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec

from bus.contracts.register import Checkpoint, Device, District, Register, Road, RoadPiece
from bus.contracts.register_entry import RegisterEntry
from bus.domain import register_shape_texts as shapes
from bus.domain.kinds import COMMON_KIND
from bus.domain.register_changes import Entries, entries_from
from bus.domain.register_shape_texts import ShapeError

Part = District | Checkpoint | Device | Road
COLUMNS = (
    "kind", "id", "name", "name_en", "district", "checkpoint", "latitude", "longitude",
    "device_kind", "server", "line", "area", "bearing", "lanes", "headings", "to", "length_m",
    "limit_kmh", "stream", "codec",
)  # fmt: skip
"""Of the CSV; `line` is a road's places, `latitude longitude; latitude longitude; …`, `area` the
same around a district or what a device is responsible for, with a bar between parts. A line of the
kind `piece` is a piece of the road `id`, from `checkpoint` to `to`."""
FORMATS = ("csv", "geojson", "json")
MAX_BYTES = 64 << 20  # ten thousand devices are two megabytes


class LineFault(NamedTuple):
    """What is wrong in a line (CSV) or feature (GeoJSON), counted from one; 0: the whole file."""

    line: int
    text: str
    text_zh: str


class ReadFile(NamedTuple):
    """What a file holds. `lines`: in which line each key stands. `unread`: keys of which the file
    says something that could not be read, so that who refers to them is not at fault."""

    entries: Entries
    lines: dict[str, int]
    faults: list[LineFault]
    unread: set[str]


def read_file(data: bytes, form: str) -> ReadFile:
    """A file in one of `FORMATS`; whatever is in it, only its faults are told."""
    read = ReadFile({}, {}, [], set())
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        why = f"not UTF-8 at byte {error.start}"
        return read._replace(faults=[LineFault(0, why, "文件不是 UTF-8 编码")])
    parts = _PARTS[form](text, read.unread)
    for line, found in parts:
        if isinstance(found, LineFault):
            read.faults.append(found)
            continue
        _add(read, line, found)
    return read


def write_file(register: Register, form: str) -> str:
    """The register in one of `FORMATS`; `read_file` gives it back."""
    if form == "json":
        return msgspec.json.format(msgspec.json.encode(register), indent=1).decode() + "\n"
    return _csv_text(register) if form == "csv" else _geojson_text(register)


def _add(read: ReadFile, line: int, entry: RegisterEntry) -> None:
    before = read.lines.get(entry.key)
    if before is not None:
        text = f"{entry.key} stands in line {before} already: keep one of the two"
        text_zh = f"{entry.key} 已在第 {before} 行出现，请保留其一"
        if not line:
            text = f"{entry.key} stands there twice: keep one of the two"
            text_zh = f"{entry.key} 重复出现，请保留其一"
        read.faults.append(LineFault(line, text, text_zh))
        return
    read.entries[entry.key] = entry
    read.lines[entry.key] = line


Found = tuple[int, RegisterEntry | LineFault]


def _note_unread(unread: set[str], *ids: object) -> None:
    """A district or a checkpoint of that id may be what could not be read."""
    for one in ids:
        unread.update((f"district/{one}", f"checkpoint/{one}"))


def _of_library(error: Exception) -> str:
    """Where something cannot be read, in Chinese: the libraries speak English only."""
    where = re.search(r"`(\$[^`]*)`|line (\d+) column (\d+)|byte (\d+)", str(error))
    if where is None:
        return "格式有误"
    path, line, column, byte = where.groups()
    if path:
        return f"{path} 的格式有误"
    return f"第 {line} 行第 {column} 列格式有误" if line else f"第 {byte} 字节处格式有误"


# --- JSON: the register as it is kept ---


class _Lists(msgspec.Struct):
    site: str = Register().site
    districts: list[Any] = []
    checkpoints: list[object] = []
    devices: list[object] = []
    roads: list[object] = []


_JSON_PARTS: dict[str, type[Part]] = {
    "districts": District, "checkpoints": Checkpoint, "devices": Device, "roads": Road,
}  # fmt: skip


def _json_parts(text: str, unread: set[str]) -> Iterator[Found]:
    try:
        lists = msgspec.json.decode(text, type=_Lists)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError) as error:
        yield 0, LineFault(0, f"not a register: {error}", f"不是登记表：{_of_library(error)}")
        return
    yield from ((0, entry) for entry in entries_from([], lists.site))
    for name, kind in _JSON_PARTS.items():
        for number, one in enumerate(getattr(lists, name), 1):
            try:
                yield 0, _only(msgspec.convert(one, kind))
            except msgspec.ValidationError as error:
                if isinstance(one, dict):
                    _note_unread(unread, one.get("district_id"), one.get("checkpoint_id"))
                text_zh = f"{name} 第 {number} 项：{_of_library(error)}"
                yield 0, LineFault(0, f"{name}, number {number}: {error}", text_zh)


# --- CSV ---


def _csv_parts(text: str, unread: set[str]) -> Iterator[Found]:
    lines = [f"{line}\n" for line in text.split("\n")]
    rows = csv.DictReader(iter(lines), restkey="", strict=True)
    try:
        missing = {"kind", "id"} - set(rows.fieldnames or ())
        unknown = [name for name in rows.fieldnames or () if name not in COLUMNS]
        if missing or unknown:
            known = ", ".join(COLUMNS)
            text, text_zh = f"the first line names the columns: {known}", f"首行应为列名：{known}"
            yield 1, LineFault(1, text, text_zh)
            return
    except csv.Error as error:
        yield 1, LineFault(1, f"no CSV: {error}", "不是 CSV")
        return
    roads: dict[str, tuple[int, Road]] = {}
    pieces: list[tuple[int, PieceRow]] = []
    while True:
        try:
            row = next(rows, None)
        except csv.Error as error:  # the next line is read for itself
            number = rows.reader.line_num
            _note_unread(unread, *map(str.strip, re.split('[",]', lines[number - 1])))
            yield number, LineFault(number, f"no CSV: {error}", "不是 CSV")
            continue
        if row is None:
            yield from _with_pieces(roads, pieces, unread)
            return
        found = _csv_part(row, rows.line_num)
        if isinstance(found, PieceRow):
            pieces.append((rows.line_num, found))
            continue
        if isinstance(found, RegisterEntry) and found.road and found.id not in roads:
            roads[found.id] = rows.line_num, found.road
            continue
        if isinstance(found, LineFault):
            name = (row.get("id") or "").strip()
            _note_unread(unread, name)
            unread.add(f"road/{name}")
        if found is not None:
            yield rows.line_num, found


class PieceRow(NamedTuple):
    """A line of a piece, and its road."""

    road: str
    piece: RoadPiece


def _with_pieces(
    roads: dict[str, tuple[int, Road]], pieces: list[tuple[int, PieceRow]], unread: set[str]
) -> Iterator[Found]:
    """Roads, each with the pieces that name it, in their order."""
    of_road: dict[str, list[RoadPiece]] = {name: [] for name in roads}
    for line, (name, piece) in pieces:
        if name in of_road:
            of_road[name].append(piece)
            continue
        if f"road/{name}" in unread:
            continue
        yield line, LineFault(
            line, f"a piece of the road {name!r}, which this file does not have: add its line",
            f"路段所属的道路“{name}”不在此文件中：请加上该道路一行",
        )  # fmt: skip
    for name, (line, road) in roads.items():
        yield line, _only(msgspec.structs.replace(road, pieces=tuple(of_road[name])))


def _csv_part(row: dict[str, Any], line: int) -> RegisterEntry | PieceRow | LineFault | None:
    """None: a line that says nothing."""
    if "" in row:
        return LineFault(line, "more cells than columns", "单元格多于列数")
    cells = {name: (value or "").strip() for name, value in row.items()}

    def cell(name: str) -> str:
        return cells.get(name, "")

    if cell("kind") == "site":
        return next(entries_from([], cell("name") or cell("id")), None)
    make = _CSV_KINDS.get(cell("kind"))
    if make is None:
        known = ", ".join(("site", *_CSV_KINDS))
        text = f"kind is one of {known}, not {cell('kind')!r}"
        return LineFault(line, text, f"kind 应为 {known}")
    try:
        return make(cell)
    except ShapeError as error:
        return LineFault(line, error.text, error.text_zh)


Cell = Callable[[str], str]


def _only(part: Part) -> RegisterEntry:
    return next(entries_from([part]))


_CSV_KINDS: dict[str, Callable[[Cell], RegisterEntry | PieceRow]] = {
    "district": lambda cell: _only(
        District(
            district_id=cell("id"), name=cell("name"), name_en=cell("name_en"),
            area=shapes.polygons(cell("area")),
        )
    ),
    "checkpoint": lambda cell: _only(
        Checkpoint(
            checkpoint_id=cell("id"), name=cell("name"), name_en=cell("name_en"),
            district_id=cell("district"), latitude=shapes.degrees(cell("latitude"), "latitude"),
            longitude=shapes.degrees(cell("longitude"), "longitude"),
        )
    ),
    "device": lambda cell: _only(
        Device(
            camera_ip=cell("id"), checkpoint_id=cell("checkpoint"),
            kind=cell("device_kind") or COMMON_KIND, recognizer_ip=cell("server"),
            area=shapes.polygon(cell("area")), bearing=shapes.bearing(cell("bearing")),
            lanes=shapes.lanes(cell("lanes")),
            headings=shapes.headings(shapes.lanes(cell("headings"))),
            stream=cell("stream"), codec=cell("codec"),
        )
    ),
    "road": lambda cell: _only(
        Road(name=cell("id"), name_en=cell("name_en"), line=shapes.line(cell("line")))
    ),
    "piece": lambda cell: PieceRow(
        cell("id"),
        RoadPiece(
            begin=cell("checkpoint"), end=cell("to"),
            length_m=shapes.metres(cell("length_m"), "length_m"),
            limit_kmh=shapes.whole_number(cell("limit_kmh"), "limit_kmh"),
        ),
    ),
}  # fmt: skip


class _Lines(list[str]):
    """What `csv` writes to."""

    write = list.append


def _csv_text(register: Register) -> str:
    out = _Lines()
    writer = csv.DictWriter(out, COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerow({"kind": "site", "name": register.site})
    for one in register.districts:
        writer.writerow({"kind": "district", "id": one.district_id, "name": one.name,
                         "name_en": one.name_en,
                         "area": shapes.polygons_text(one.area)})  # fmt: skip
    for at in register.checkpoints:
        writer.writerow({"kind": "checkpoint", "id": at.checkpoint_id, "name": at.name,
                         "name_en": at.name_en, "district": at.district_id,
                         "latitude": at.latitude, "longitude": at.longitude})  # fmt: skip
    for device in register.devices:
        writer.writerow({"kind": "device", "id": device.camera_ip,
                         "checkpoint": device.checkpoint_id, "device_kind": device.kind,
                         "server": device.recognizer_ip,
                         "area": shapes.line_text(device.area),
                         "bearing": "" if device.bearing is None else device.bearing,
                         "lanes": shapes.BETWEEN_LANES.join(device.lanes),
                         "headings": shapes.BETWEEN_LANES.join(device.headings),
                         "stream": device.stream, "codec": device.codec})  # fmt: skip
    for road in register.roads:
        writer.writerow({"kind": "road", "id": road.name, "name_en": road.name_en,
                         "line": shapes.line_text(road.line)})  # fmt: skip
        for piece in road.pieces:
            writer.writerow({"kind": "piece", "id": road.name, "checkpoint": piece.begin,
                             "to": piece.end, "length_m": piece.length_m,
                             "limit_kmh": piece.limit_kmh or ""})  # fmt: skip
    return "".join(out)


# --- GeoJSON (RFC 7946): longitude before latitude ---


def _geojson_parts(text: str, unread: set[str]) -> Iterator[Found]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        yield 0, LineFault(0, f"no JSON: {error}", f"不是 JSON：{_of_library(error)}")
        return
    features = found.get("features") if isinstance(found, dict) else None
    if not isinstance(features, list):
        yield 0, LineFault(0, "no FeatureCollection", "不是 FeatureCollection")
        return
    if isinstance(found.get("site"), str):
        yield from ((0, entry) for entry in entries_from([], found["site"]))
    for number, feature in enumerate(features, 1):
        try:
            entries = list(entries_from(_of_feature(feature)))
        except (msgspec.ValidationError, ValueError, TypeError, RecursionError) as error:
            about = feature.get("properties") if isinstance(feature, dict) else None
            if isinstance(about, dict):
                _note_unread(unread, about.get("id"))
            text_zh = error.text_zh if isinstance(error, ShapeError) else _of_library(error)
            yield number, LineFault(number, f"feature: {error}", f"要素有误：{text_zh}")
            continue
        for entry in entries:
            yield number, entry


class _DeviceOfPoint(msgspec.Struct):
    address: str
    kind: str = COMMON_KIND
    server: str = ""
    area: list[object] = []
    bearing: float | None = None
    lanes: tuple[str, ...] = ()
    headings: tuple[str, ...] = ()
    stream: str = ""
    codec: str = ""


class _Properties(msgspec.Struct):
    id: str = ""
    name: str = ""
    name_en: str = ""
    district: str = ""
    devices: list[_DeviceOfPoint] = []
    kind: str = ""
    pieces: tuple[RoadPiece, ...] = ()


class _Geometry(msgspec.Struct):
    type: str
    coordinates: list[object]


class _Feature(msgspec.Struct):
    properties: _Properties
    geometry: _Geometry | None = None


def _of_feature(feature: object) -> Iterator[Part]:
    read = msgspec.convert(feature, _Feature)
    about, shape = read.properties, read.geometry
    if shape is None and about.kind == "road":
        yield Road(name=about.id or about.name, name_en=about.name_en, pieces=about.pieces)
    elif shape is None or shape.type in ("Polygon", "MultiPolygon"):
        area = shapes.area_of(shape.type, shape.coordinates) if shape is not None else ()
        yield District(district_id=about.id, name=about.name, name_en=about.name_en, area=area)
    elif shape.type == "Point":
        latitude, longitude = shapes.place_of(shape.coordinates)
        yield Checkpoint(
            checkpoint_id=about.id, name=about.name, name_en=about.name_en,
            district_id=about.district, latitude=latitude, longitude=longitude,
        )  # fmt: skip
        for one in about.devices:
            yield Device(camera_ip=one.address, checkpoint_id=about.id, kind=one.kind,
                         recognizer_ip=one.server, area=shapes.ring_of(one.area),
                         bearing=one.bearing, lanes=one.lanes,
                         headings=shapes.headings(one.headings),
                         stream=one.stream, codec=one.codec)  # fmt: skip
    elif shape.type == "LineString":
        line = tuple(map(shapes.place_of, shape.coordinates))
        yield Road(name=about.id or about.name, name_en=about.name_en, line=line,
                   pieces=about.pieces)  # fmt: skip
    else:
        known = "Point, LineString, Polygon"
        raise ShapeError(f"a {shape.type[:40]} is none of {known}", f"几何类型应为 {known}")


def _geojson_text(register: Register) -> str:
    at: dict[str, list[dict[str, object]]] = {}
    for device in register.devices:
        about: dict[str, object] = {
            "address": device.camera_ip, "kind": device.kind, "server": device.recognizer_ip,
        }  # fmt: skip
        own = {"area": shapes.coordinates_of(device.area), "bearing": device.bearing,
               "lanes": device.lanes, "headings": device.headings,
               "stream": device.stream, "codec": device.codec}  # fmt: skip
        about |= {name: one for name, one in own.items() if one not in ([], None, (), "")}
        at.setdefault(device.checkpoint_id, []).append(about)
    features: list[dict[str, object]] = [
        _feature(
            shapes.geometry_of(one.area), id=one.district_id, name=one.name, name_en=one.name_en
        )
        for one in register.districts
    ]
    features += [
        _feature(
            {"type": "Point", "coordinates": [one.longitude, one.latitude]},
            id=one.checkpoint_id, name=one.name, name_en=one.name_en, district=one.district_id,
            devices=at.get(one.checkpoint_id, []),
        )
        for one in register.checkpoints
    ]  # fmt: skip
    features += [
        _feature(
            _line_of(road), id=road.name, name=road.name, name_en=road.name_en, kind="road",
            pieces=msgspec.to_builtins(road.pieces),
        )
        for road in register.roads
    ]  # fmt: skip
    whole = {"type": "FeatureCollection", "site": register.site, "features": features}
    return json.dumps(whole, ensure_ascii=False, indent=1) + "\n"


def _line_of(road: Road) -> dict[str, object] | None:
    if not road.line:
        return None
    return {"type": "LineString", "coordinates": [[east, north] for north, east in road.line]}


def _feature(geometry: dict[str, Any] | None, **properties: Any) -> dict[str, Any]:
    return {"type": "Feature", "properties": properties, "geometry": geometry}


_PARTS: dict[str, Callable[[str, set[str]], Iterator[Found]]] = {
    "csv": _csv_parts, "geojson": _geojson_parts, "json": _json_parts,
}  # fmt: skip
