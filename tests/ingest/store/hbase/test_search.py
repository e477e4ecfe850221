"""A question becomes the part of the index that restricts most, and a condition on rows."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.store.hbase.columns import IndexEntry
from ingest.store.hbase.keys import Facet
from ingest.store.hbase.search import (
    AccessPath,
    choose_access_path,
    edges,
    fits,
    is_covered_by_index,
    matches,
    may_match,
    ranges,
    tables_of,
    whole_minutes,
)
from ingest.store.port import Query
from tests.ingest.store.made import row

SIGNS = st.text("ab*", max_size=12)


@given(SIGNS, st.text("ab", max_size=12))
def test_a_pattern_is_a_run_of_anything_at_each_star(pattern: str, text: str) -> None:
    """Against Python's regular expressions, in linear time for any pattern."""
    as_regex = ".*".join(re.escape(part) for part in pattern.split("*"))
    assert fits(pattern, text) is (re.fullmatch(as_regex, text) is not None)


@pytest.mark.parametrize(
    ("query", "checkpoints", "lead"),
    [
        (Query(), None, AccessPath(Facet.TIME)),
        (Query(captured_from_ms=5), None, AccessPath(Facet.TIME)),
        (Query(text="x"), None, AccessPath(Facet.TIME)),
        (Query(kind="vehicle"), None, AccessPath(Facet.TIME)),
        (Query(kind="face", district_id="d"), None, AccessPath(Facet.TIME)),
        (Query(plate="浙 ａ11111"), None, AccessPath(Facet.PLATE, ("浙A11111",))),
        (Query(plate="浙A11111", kind="vehicle"), None, AccessPath(Facet.PLATE, ("浙A11111",))),
        (Query(plate="浙A*"), None, AccessPath(Facet.TIME)),
        (Query(plate="无车牌"), None, AccessPath(Facet.TIME)),
        (Query(plate="浙A*", checkpoint_id="c"), None, AccessPath(Facet.CHECKPOINT, ("c",))),
        (Query(checkpoint_id="c"), None, AccessPath(Facet.CHECKPOINT, ("c",))),
        (Query(camera_ip="1"), ("c", "d"), AccessPath(Facet.CHECKPOINT, ("c", "d"))),
        (Query(camera_ip="1"), (), AccessPath(Facet.CHECKPOINT, ())),
        (Query(camera_ip="1", kind="face"), ("c",), AccessPath(Facet.CHECKPOINT, ("c",))),
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


@given(st.sampled_from(["vehicle", "face"]), st.sampled_from(["", "浙A1", "浙B2"]),
       st.sampled_from(["", "浙A*", "浙A1", "无车牌"]), st.sampled_from(["", "face"]))  # fmt: skip
def test_the_index_never_hides_a_row_that_matches(
    kind: str, plate: str, asked_plate: str, asked_kind: str
) -> None:
    made = row(1, kind=kind, plate_key=plate, plate_number=plate or "无车牌")
    query = Query(kind=asked_kind, plate=asked_plate)
    entry = IndexEntry(1, made.kind, made.district_id, made.camera_ip, made.plate_key)
    if is_covered_by_index(query, choose_access_path(query)):
        assert may_match(query, entry) is matches(query, made)
    else:
        assert may_match(query, entry) or not matches(query, made)


def test_one_place_for_a_value_and_all_salts_for_the_time() -> None:
    assert len(ranges(AccessPath(Facet.PLATE, ("浙A11111",)))) == 1
    assert len(ranges(AccessPath(Facet.TIME))) == 16
    assert ranges(AccessPath(Facet.CHECKPOINT, ())) == []


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
