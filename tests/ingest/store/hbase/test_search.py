"""A question becomes the part of the index that restricts most, and a condition on rows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.domain.former_plates import former_key
from bus.domain.plates import partly_read_form, plate_form, plate_key
from ingest.store.hbase.columns import IndexEntry
from ingest.store.hbase.keys import Facet
from ingest.store.hbase.plate_places import places_asked, places_of
from ingest.store.hbase.search import (
    AccessPath,
    choose_access_path,
    edges,
    is_covered_by_index,
    matches,
    may_match,
    ranges,
    tables_of,
    whole_minutes,
)
from ingest.store.port import Query
from tests.ingest.store.made import row

PLATE = AccessPath(places_asked("浙A11111"))
PLATES = ["", "无车牌", "浙A1", "浙B2", "浙A?1", "浙A-12345", "浙A12345", "浙A\0 12345", "AB-102-CD"]
ASKED = ["", "浙A*", "浙A1", "无车牌", "浙A12345", "浙AD12345", "浙A-12345", "AB102CD", "AB-102-CD", "浙??"]


@pytest.mark.parametrize(
    ("query", "checkpoints", "lead"),
    [
        (Query(), None, AccessPath()),
        (Query(captured_from_ms=5), None, AccessPath()),
        (Query(text="x"), None, AccessPath()),
        (Query(kind="vehicle"), None, AccessPath()),
        (Query(kind="face", district_id="d"), None, AccessPath()),
        (Query(plate="浙 ａ11111"), None, PLATE),
        (Query(plate="浙A11111", kind="vehicle"), None, PLATE),
        (Query(plate="浙A*"), None, AccessPath()),
        (Query(plate="无车牌"), None, AccessPath()),
        (Query(plate="浙A*", checkpoint_id="c"), None, AccessPath(((Facet.CHECKPOINT, "c"),))),
        (Query(checkpoint_id="c"), None, AccessPath(((Facet.CHECKPOINT, "c"),))),
        (Query(camera_ip="1"), ("c", "d"), AccessPath(((Facet.CHECKPOINT, "c"), (Facet.CHECKPOINT, "d")))),
        (Query(camera_ip="1"), (), AccessPath(())),
        (Query(camera_ip="1", kind="face"), ("c",), AccessPath(((Facet.CHECKPOINT, "c"),))),
    ],
)
def test_the_part_that_restricts_most_leads(
    query: Query, checkpoints: tuple[str, ...] | None, lead: AccessPath
) -> None:
    assert choose_access_path(query, checkpoints) == lead


@pytest.mark.parametrize(
    ("query", "tables"),
    [
        (Query(), ("vehicle", "face", "video")), (Query(kind="face"), ("face",)),
        (Query(kind="mover"), ("video",)), (Query(kind="x"), ()), (Query(plate="浙A*"), ("vehicle",)),
        (Query(plate="无车牌"), ("vehicle", "face", "video")), (Query(plate="浙A1", kind="face"), ()),
    ],
)  # fmt: skip
def test_only_tables_are_read_in_which_something_can_match(query: Query, tables: tuple[str, ...]) -> None:
    assert tables_of(query) == tables


@pytest.mark.parametrize(
    ("query", "covered"),
    [
        (Query(), True), (Query(kind="face", district_id="d", camera_ip="x"), True),
        (Query(plate="浙A*", captured_from_ms=5), True), (Query(checkpoint_id="c", kind="face"), True),
        (Query(plate="无车牌"), False), (Query(text="x"), False),
        (Query(plate="浙A11111", checkpoint_id="c"), False),
    ],
)  # fmt: skip
def test_records_are_read_only_for_what_the_index_does_not_tell(query: Query, covered: bool) -> None:
    assert is_covered_by_index(query, choose_access_path(query)) is covered


@given(st.sampled_from(["vehicle", "face"]), st.sampled_from(PLATES), st.sampled_from(ASKED), st.sampled_from(["", "face"]),
       st.booleans())  # fmt: skip
def test_the_index_never_hides_a_row_that_matches(
    kind: str, plate: str, asked_plate: str, asked_kind: str, is_former: bool
) -> None:
    """Entries of today and of an earlier version; of its masked plates patterns found none."""
    key = former_key(plate) if is_former else plate_key(plate)
    made = row(1, kind=kind, plate_key=key, plate_number=plate)
    query = Query(kind=asked_kind, plate=asked_plate)
    form = "" if is_former else partly_read_form(plate)
    entry = IndexEntry(1, made.kind, made.district_id, made.camera_ip, made.plate_key, plate_form=form)
    has_no_entry = is_former and not key
    if is_covered_by_index(query, choose_access_path(query)) and not has_no_entry:
        assert may_match(query, entry) is matches(query, made)
    elif not (has_no_entry and places_asked(asked_plate)) and asked_plate != "浙A*":
        assert may_match(query, entry) or not matches(query, made)


WHOLE_PLATES = st.text("浙AB1", min_size=1, max_size=8)


@given(WHOLE_PLATES, st.sets(st.integers(0, 7)), st.text("\0\u200b· ", max_size=2), st.booleans())
def test_a_whole_plate_is_looked_up_wherever_a_record_of_it_lies(
    plate: str, unread: set[int], odd: str, is_former: bool
) -> None:
    """Exactly one of the places asked holds the record, however much of it was read."""
    written = "".join("#" if at in unread else sign for at, sign in enumerate(plate)) + odd
    form = plate_form(written)
    places = [(Facet.PLATE, former_key(plate))] if is_former else list(places_of(form))
    asked = places_asked(plate)
    assert len(asked) == len(set(asked))
    assert sum(place in asked for place in places) == (1 if is_former or form else 0)


def test_a_doubtful_plate_lies_at_each_of_its_readings() -> None:
    """A question finds it at one of them."""
    places = list(places_of(plate_form("浙A-12345")))
    for asked in ("浙A12345", "浙AD12345"):
        assert sum(place in places_asked(asked) for place in places) == 1


def test_one_place_for_a_value_and_all_salts_for_the_time() -> None:
    assert len(ranges(AccessPath(((Facet.PLATE, "浙A11111"),)))) == 1
    assert len(ranges(AccessPath())) == 16
    assert ranges(AccessPath(())) == []


def test_a_condition_holds_for_all_that_is_asked() -> None:
    """Each field alone can refuse."""
    given_row = row(1, body=b'{"n": 7}')
    whole = Query(
        kind="vehicle", plate="浙A*9", checkpoint_id="110110#1#0#0", district_id="west",
        camera_ip="10.0.0.1", captured_from_ms=given_row.captured_at_ms,
        captured_until_ms=given_row.captured_at_ms + 1, record_id="id-1", text='"n"',
    )  # fmt: skip
    assert matches(whole, given_row)
    for name, other in (
        ("kind", "face"), ("plate", "浙B*"), ("checkpoint_id", "x"), ("district_id", "x"),
        ("camera_ip", "x"), ("captured_from_ms", given_row.captured_at_ms + 1),
        ("captured_until_ms", given_row.captured_at_ms), ("record_id", "x"), ("text", "m"),
    ):  # fmt: skip
        changed = {field: getattr(whole, field) for field in whole.__struct_fields__} | {name: other}
        assert not matches(Query(**changed), given_row), name


@given(st.integers(-200_000, 200_000), st.integers(-200_000, 200_000), st.integers(-250_000, 250_000))
def test_whole_minutes_and_edges_cover_a_time_exactly_once(from_ms: int, until_ms: int, at_ms: int) -> None:
    """Each moment of the requested period is counted exactly once."""
    query = Query(kind="vehicle", captured_from_ms=from_ms, captured_until_ms=until_ms)
    made = row(1, captured_at_ms=at_ms)
    span = whole_minutes(query)
    if span is None:
        return  # it contains no whole minute: the index is read
    inside = span[0] <= at_ms // 60_000 * 60_000 < span[1]
    assert inside + sum(matches(edge, made) for edge in edges(query, span)) == matches(query, made)


def test_minutes_do_not_answer_what_they_do_not_know() -> None:
    assert whole_minutes(Query()) is not None
    assert whole_minutes(Query(kind="face", captured_from_ms=1)) is not None
    for other in (Query(plate="x"), Query(camera_ip="x"), Query(text="x"), Query(district_id="x"),
                  Query(checkpoint_id="x"), Query(record_id="x"),
                  Query(captured_from_ms=1, captured_until_ms=59_999)):  # fmt: skip
        assert whole_minutes(other) is None
