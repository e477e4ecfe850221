"""The offsets of a batch are those that Spark wrote before it ran it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_apps.source.lost_records import LostRecords
from spark_apps.source.offset_log import OffsetLog, OffsetLogError, parse_offsets

A, B = ("data.vehicle", 0), ("data.vehicle", 1)


def write(folder: Path, batch_id: int, offsets: str) -> None:
    (folder / "offsets").mkdir(exist_ok=True)
    text = f'v1\n{{"batchWatermarkMs":0}}\n{offsets}'
    (folder / "offsets" / str(batch_id)).write_text(text, encoding="utf-8")


def test_a_batch_begins_where_the_one_before_it_ended(tmp_path: Path) -> None:
    """The first one where the query began; a partition without anything new is left out."""
    log = OffsetLog(tmp_path, {A: 5, B: 3}, LostRecords("q"), lambda _: None)
    write(tmp_path, 0, '{"data.vehicle":{"0":9,"1":3}}')
    write(tmp_path, 1, '{"data.vehicle":{"0":10,"1":4}}')
    assert log.ranges(0) == {A: (5, 9)}
    assert log.ranges(1) == {A: (9, 10), B: (3, 4)}


def test_a_partition_that_is_new_begins_at_its_first_record(tmp_path: Path) -> None:
    """Topics grow while we run."""
    log = OffsetLog(tmp_path, {A: 5}, LostRecords("q"), lambda _: None)
    write(tmp_path, 0, '{"data.vehicle":{"0":5,"1":2}}')
    assert log.ranges(0) == {B: (0, 2)}


def test_an_end_that_has_fallen_is_told_as_lost(tmp_path: Path) -> None:
    """What is written at these offsets again is what the applications have seen already."""
    lost = LostRecords("q")
    log = OffsetLog(tmp_path, {A: 9, B: 3}, lost, lambda _: None)
    write(tmp_path, 0, '{"data.vehicle":{"0":4,"1":4}}')
    assert log.ranges(0) == {B: (3, 4)}
    [told] = lost.incidents({}, 1)
    assert told.detail == {
        "subject": "q", "stage": "q", "lost": "5", "topics": "data.vehicle",
    }  # fmt: skip


def test_a_log_of_another_form_ends_the_query_instead_of_guessing(tmp_path: Path) -> None:
    """A wrong offset would lose or double records."""
    with pytest.raises(OffsetLogError, match="offsets/0"):
        OffsetLog(tmp_path, {}, LostRecords("q"), lambda _: None).ranges(0)
    write(tmp_path, 0, '{"data.vehicle":{"0":9}}\n{"data.face":{"0":9}}')
    with pytest.raises(OffsetLogError, match="2 sources"):
        OffsetLog(tmp_path, {}, LostRecords("q"), lambda _: None).ranges(0)


@given(st.text())
def test_no_text_raises_anything_but_a_value_error(text: str) -> None:
    """A torn file is an error of the query, with its path."""
    for candidate in (text, f"v1\n{{}}\n{text}"):
        try:
            parse_offsets(candidate)
        except ValueError:
            continue
