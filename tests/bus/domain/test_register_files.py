"""The register as files: what is written is read again, and nothing else passes."""

from __future__ import annotations

import math
import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.contracts.register import (
    Checkpoint,
    Device,
    District,
    Register,
    Road,
    RoadPiece,
)
from bus.contracts.register_entry import RegisterEntry
from bus.domain.register_changes import (
    changes,
    entries_of,
    faults,
    register_of,
    standing,
)
from bus.domain.register_formats import FORMATS, read_file, write_file
from bus.domain.register_import import plan_import
from bus.domain.travel_headings import HEADINGS

# What people write: no surrogates, no control characters, no blanks around.
NAMES = st.text(
    st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp", "Zs")), min_size=1, max_size=8
)
DEGREES = st.floats(-90, 90)
PLACES = st.tuples(st.floats(-80, 80), st.floats(-80, 80))
POLYGONS = st.builds(
    lambda at, size: (at, (at[0] + size, at[1]), (at[0] + size, at[1] + size)), PLACES,
    st.floats(0.001, 5),
)  # fmt: skip
LANES = st.lists(st.sampled_from(("1", "2", "左转", "a b")), unique=True, max_size=3).map(tuple)


def _with_headings(lanes: tuple[str, ...]) -> st.SearchStrategy[dict[str, tuple[str, ...]]]:
    """None, one for all, or one for each."""
    counts = st.sampled_from((0, 1, len(lanes)))
    headings = counts.flatmap(lambda n: st.lists(st.sampled_from(HEADINGS), min_size=n, max_size=n))
    return headings.map(lambda found: {"lanes": lanes, "headings": tuple(found)})


LANES_AND_HEADINGS = LANES.flatmap(_with_headings)


def _pieces(places: list[str]) -> st.SearchStrategy[tuple[RoadPiece, ...]]:
    if len(places) < 2:
        return st.just(())
    piece = st.builds(
        RoadPiece, begin=st.just(places[0]), end=st.just(places[1]),
        length_m=st.floats(1, 10_000), limit_kmh=st.integers(0, 120),
    )  # fmt: skip
    return st.lists(piece, max_size=2).map(tuple)


@st.composite
def registers(draw: st.DrawFn) -> Register:
    """A register without faults, in the order of its keys."""
    districts = draw(st.lists(NAMES, unique=True, min_size=1, max_size=3))
    places = draw(st.lists(NAMES, unique=True, min_size=1, max_size=4))
    cameras = draw(st.lists(NAMES, unique=True, max_size=5))
    roads = draw(st.lists(NAMES, unique=True, max_size=2))
    made = Register(
        site=draw(NAMES),
        districts=tuple(
            District(district_id=d, name=draw(NAMES), name_en="",
                     area=tuple(draw(st.lists(POLYGONS, max_size=2))))
            for d in districts
        ),
        checkpoints=tuple(
            Checkpoint(
                checkpoint_id=c, name=draw(NAMES), name_en="", latitude=draw(DEGREES),
                longitude=draw(DEGREES), district_id=draw(st.sampled_from(districts)),
            )
            for c in places
        ),
        devices=tuple(
            Device(
                camera_ip=ip, kind=draw(st.sampled_from(["vehicle", "face"])),
                recognizer_ip=draw(st.just("") | NAMES), checkpoint_id=draw(st.sampled_from(places)),
                area=draw(st.just(()) | POLYGONS), **draw(LANES_AND_HEADINGS),
                bearing=draw(st.none() | st.floats(0, 359)),
            )
            for ip in cameras
        ),
        roads=tuple(
            Road(
                name=r, name_en="", line=((draw(DEGREES), draw(DEGREES)), (1.5, 2.5)),
                pieces=draw(_pieces(places)),
            )
            for r in roads
        ),
    )  # fmt: skip
    return register_of(entries_of(made))


@pytest.mark.parametrize("form", FORMATS)
@given(register=registers())
def test_what_is_exported_is_imported_as_it_was(form: str, register: Register) -> None:
    read = read_file(write_file(register, form).encode(), form)
    assert read.faults == []
    assert register_of(read.entries) == register
    assert list(faults(read.entries)) == []


@pytest.mark.parametrize("form", FORMATS)
@given(
    data=st.binary(max_size=60) | st.text(max_size=60).map(lambda t: t.encode("utf-8", "replace"))
)
def test_any_other_file_is_told_by_its_faults_and_raises_nothing(form: str, data: bytes) -> None:
    read = read_file(data, form)
    list(faults(read.entries))
    register_of(read.entries)


@given(registers(), registers())
def test_only_what_differs_is_written_and_it_makes_one_of_the_other(
    one: Register, other: Register
) -> None:
    before, after = entries_of(one), entries_of(other)
    planned = changes(before, after)
    assert all(before.get(key) != entry for key, entry in planned.items())
    held = {key: standing(entry) for key, entry in (before | planned).items()}
    assert register_of({key: one for key, one in held.items() if one is not None}) == other
    assert changes(after, after) == {}


def test_every_bad_line_is_told_with_its_number_and_what_to_do() -> None:
    text = """kind,id,name,district,checkpoint,latitude,longitude,device_kind
district,west,W,,,,,
checkpoint,c1,C,west,,30,120,
checkpoint,c2,C,west,,north,120,
lamp,x,,,,,,
device,10.0.0.1,,,c1,,,vehicle
device,10.0.0.1,,,c1,,,face
"""
    read = read_file(text.encode(), "csv")
    assert [(one.line, one.text) for one in read.faults] == [
        (4, "latitude: 'north' is no number of degrees"),
        (5, "kind is one of site, district, checkpoint, device, road, piece, not 'lamp'"),
        (7, "device/10.0.0.1 stands in line 6 already: keep one of the two"),
    ]
    assert all(one.text_zh for one in read.faults)


HEADER = "kind,id,name,district,checkpoint,latitude,longitude,device_kind"
SOUND = {
    "checkpoint,c{n},C,west,,30,120,": "",
    "device,d{n},,,c,,,face": "",
    "checkpoint,f{n},C,torn,,30,120,": "",  # its district is in a line that is no CSV
    "device,e{n},,,half,,,face": "",  # at a checkpoint that is there, although its place is none
}
WRONG = {
    "checkpoint,c{n},C,west,,NaN,120,": "latitude: 'NaN' is no number of degrees",
    "checkpoint,c{n},C,west,,30,-inf,": "longitude: '-inf' is no number of degrees",
    "checkpoint,c{n},C,west,,30,1e999,": "longitude: '1e999' is no number of degrees",
    "checkpoint,c{n},C,west,,91,0,": "91.0, 0.0 is no place",
    "checkpoint,c{n},C,east,,30,120,": "there is no district 'east'",
    "device,d{n},,,nowhere,,,face": "there is no checkpoint 'nowhere'",
    "device,d{n},,,c,,,lamp": "a device is one of",
    "lamp,x{n},,,,,,": "kind is one of",
    "district,d{n},,,,,,,,": "more cells than columns",
    'district,"d{n}"x,,,,,,': "no CSV",
}


@given(st.lists(st.sampled_from([*SOUND, *WRONG]), max_size=12))
def test_all_faults_of_a_file_are_told_at_once_and_no_others(kinds: list[str]) -> None:
    """Regression: those of meaning came after the first ones of form were mended, one after the
    other where a district's line was faulty."""
    lines = ["district,west,W,,,,,", "checkpoint,c,C,west,,30,120,", "checkpoint,half,C,west,,x,1,",
             'district,"torn"x,,,,,,']  # fmt: skip
    lines += [kind.format(n=number) for number, kind in enumerate(kinds)]
    read = read_file("\n".join([HEADER, *lines]).encode(), "csv")
    found = plan_import(read, {}, {}, replace=False).faults
    must = [(4, "latitude: 'x'"), (5, "no CSV")]
    must += [(number, WRONG[kind]) for number, kind in enumerate(kinds, 6) if kind in WRONG]
    assert [one.line for one in found] == [line for line, _ in must]
    assert all(text in one.text for one, (_, text) in zip(found, must, strict=True))


FILES = {
    "csv": f"{HEADER}\ncheckpoint,c,C,west,,x,1,\nlamp,,,,,,,\n",
    "geojson": """{"features": [{"properties": {"id": 5}}, {"properties": {"id": "c"},
        "geometry": {"type": "Point", "coordinates": [NaN, 1]}},
        {"properties": {"id": "d"}, "geometry": {"type": "Point", "coordinates": [1, 200]}},
        {"properties": {"id": "r"}, "geometry": {"type": "Circle", "coordinates": []}}]}""",
    "json": """{"districts": [{"district_id": 1}], "checkpoints": [{"checkpoint_id": "c", "name": "",
        "name_en": "", "district_id": "w", "latitude": "x", "longitude": 0}],
        "devices": [{"camera_ip": "1", "checkpoint_id": "c", "kind": "lamp"}]}""",
}


@pytest.mark.parametrize(("form", "count"), [("csv", 2), ("geojson", 5), ("json", 3)])
def test_the_chinese_line_is_chinese_in_every_format(form: str, count: int) -> None:
    """It repeated the English of a library. What the file itself says stays as it is."""
    read = read_file(FILES[form].encode(), form)
    found = plan_import(read, {}, {}, replace=False).faults
    assert len(found) == count, found
    for one in found:
        assert re.search("[\u4e00-\u9fff]{2}", one.text_zh), one
        assert not re.search("Expected|expected|is no |there is|got |object", one.text_zh), one


def test_references_to_nothing_and_places_that_are_none_are_faults() -> None:
    register = Register(
        checkpoints=(
            Checkpoint(checkpoint_id="c", name="", name_en="", district_id="x", latitude=math.nan,
                       longitude=181),
        ),
        devices=(Device(camera_ip="1", checkpoint_id="d", kind="lamp"),),
        roads=(Road(name="r", name_en="", line=()),),
    )  # fmt: skip
    told = {(one.key, one.text.split(":")[0]) for one in faults(entries_of(register))}
    assert told == {
        ("checkpoint/c", "there is no district 'x'"),
        ("checkpoint/c", "nan, 181 is no place"),
        ("device/1", "there is no checkpoint 'd'"),
        ("device/1", "a device is one of vehicle, face, video, not 'lamp'"),
        ("road/r", "a road needs two places at least"),
    }


def test_half_a_character_is_a_fault_and_no_crash() -> None:
    data = (
        b'{"type":"FeatureCollection","features":[{"properties":{"id":"\\ud800"},"geometry":null}]}'
    )
    read = read_file(data, "geojson")
    assert [one.text for one in faults(read.entries)] == ["district_id holds half a character"]


SHAPES = {
    "kind,id,name,area\ndistrict,d,D,30 120; 30 121; 31 121 | 30 120; 30 121": "3 to 1000 corners",
    "kind,id,name,area\ndistrict,d,D,30 120; 31 121; 31 120; 30 121": "crosses or touches itself",
    "kind,id,name,area\ndistrict,d,D,30 120; 30 121; 30 121; 31 121": "the same corner twice",
    "kind,id,name,area\ndistrict,d,D,30 120; 30 121; 120 30": "is no place",
    "kind,id,checkpoint,device_kind,bearing\ndevice,d,c,vehicle,360": "none of 0 to 360",
    "kind,id,checkpoint,device_kind,bearing\ndevice,d,c,vehicle,north": "no number of degrees",
    "kind,id,checkpoint,device_kind,headings\ndevice,d,c,vehicle,up": "none of north, north-east",
    "kind,id,checkpoint,device_kind,lanes,headings\ndevice,d,c,vehicle,1;2;3,n;s": "2 headings of 3 lanes",
    "kind,id,checkpoint,device_kind,area\ndevice,d,c,vehicle,30 1;30 2;31 2|1 1;1 2;2 2": "one polygon",
    "kind,id,line\nroad,r,30 120": "two places at least",
    "kind,id\nroad,r": "two places at least",
    "kind,id,checkpoint,to,length_m\npiece,r,c,c2,100": "which this file does not have",
    "kind,id,line,checkpoint,to,length_m\nroad,r,30 1;30 2,,,\npiece,r,,c,gone,100": "which there is not",
    "kind,id,line,checkpoint,to,length_m\nroad,r,30 1;30 2,,,\npiece,r,,c,c,100": "begins and ends at",
    "kind,id,line,checkpoint,to,length_m\nroad,r,30 1;30 2,,,\npiece,r,,c,c2,0": "metres long",
    "kind,id,line,checkpoint,to,length_m\nroad,r,30 1;30 2,,,\npiece,r,,c,c2,far": "no number of metres",
    "kind,id,line,checkpoint,to,length_m,limit_kmh\nroad,r,30 1;30 2,,,,\npiece,r,,c,c2,9,250": "up to 200",
    "kind,id,line,checkpoint,to,length_m,limit_kmh\nroad,r,30 1;30 2,,,,\npiece,r,,c,c2,9,x": "whole number",
}


@pytest.mark.parametrize("text", SHAPES)
def test_a_shape_that_cannot_be_meant_is_told_in_both_languages(text: str) -> None:
    """A rule would say another thing of it than the register, or nothing."""
    there = [
        Checkpoint(checkpoint_id=one, name="", name_en="", district_id="w", latitude=1, longitude=1)
        for one in ("c", "c2")
    ]
    west = District(district_id="w", name="W", name_en="")
    before = entries_of(Register(districts=(west,), checkpoints=tuple(there)))
    [found] = plan_import(read_file(text.encode(), "csv"), before, before, replace=False).faults
    assert SHAPES[text] in found.text
    assert found.text_zh


def test_an_entry_of_the_version_before_is_read_and_one_of_this_version_by_it() -> None:
    """Of a rolling upgrade: what a reader does not know it passes over."""
    before = b'{"kind":"road","id":"r","road":{"name":"r","name_en":"","line":[[1,2],[3,4]]}}'
    road = msgspec.json.decode(before, type=RegisterEntry).road
    assert road == Road(name="r", name_en="", line=((1, 2), (3, 4)))
    newer = b'{"kind":"road","id":"r","road":{"name":"r","name_en":"","line":[],"lights":3}}'
    assert msgspec.json.decode(newer, type=RegisterEntry).road == Road(name="r", name_en="")


def test_a_district_of_a_map_keeps_the_outer_ring_of_each_part() -> None:
    """A ring ends where it begins; a hole is not kept."""
    square = [[0, 0], [4, 0], [4, 4], [0, 4], [0, 0]]
    hole = [[1, 1], [2, 1], [2, 2], [1, 1]]
    far = [[10, 10], [11, 10], [11, 11], [10, 10]]
    feature = {"properties": {"id": "d", "name": "D"}, "geometry": {
        "type": "MultiPolygon", "coordinates": [[square, hole], [far]]}}  # fmt: skip
    text = msgspec.json.encode({"type": "FeatureCollection", "features": [feature]})
    read = read_file(text, "geojson")
    assert not read.faults
    district = read.entries["district/d"].district
    assert district is not None
    assert district.area == (((0, 0), (0, 4), (4, 4), (4, 0)), ((10, 10), (10, 11), (11, 11)))
