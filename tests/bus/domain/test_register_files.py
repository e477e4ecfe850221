"""The register as files: what is written is read again, and nothing else passes."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.contracts.register import Checkpoint, Device, District, Register, Road
from bus.domain.register_changes import (
    apply_entry,
    changes,
    entries_of,
    faults,
    register_of,
)
from bus.domain.register_formats import FORMATS, read_file, write_file

# What people write: no surrogates, no control characters, no blanks around.
NAMES = st.text(
    st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp", "Zs")), min_size=1, max_size=8
)
DEGREES = st.floats(-90, 90)


@st.composite
def registers(draw: st.DrawFn) -> Register:
    """A register without faults, in the order of its keys."""
    districts = draw(st.lists(NAMES, unique=True, min_size=1, max_size=3))
    places = draw(st.lists(NAMES, unique=True, min_size=1, max_size=4))
    cameras = draw(st.lists(NAMES, unique=True, max_size=5))
    roads = draw(st.lists(NAMES, unique=True, max_size=2))
    made = Register(
        site=draw(NAMES),
        districts=tuple(District(district_id=d, name=draw(NAMES), name_en="") for d in districts),
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
            )
            for ip in cameras
        ),
        roads=tuple(
            Road(name=r, name_en="", line=((draw(DEGREES), draw(DEGREES)), (1.5, 2.5)))
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
    held = dict(before)
    for entry in planned.values():
        apply_entry(held, entry)
    assert register_of(held) == other
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
        (5, "kind is one of site, district, checkpoint, device, road, not 'lamp'"),
        (7, "device/10.0.0.1 stands in line 6 already: keep one of the two"),
    ]
    assert all(one.text_zh for one in read.faults)


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
