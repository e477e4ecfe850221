"""What goes over the pipe to a pass and back: as it was, or refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.log.cleaner.model import (
    ActiveProducer,
    CleanedGroup,
    CleanerLimits,
    CleanerMessageError,
    CleaningPass,
    PassResult,
    SegmentSummary,
    from_json,
    report_from_json,
    to_json,
)

COUNTS = st.integers(0, 2**63 - 1)
TIMES = st.integers(-1, 2**63 - 1)
TEXTS = st.text(max_size=20).filter(lambda text: text.isprintable())
RATIOS = st.floats(0, 1.7e308)


SEGMENTS = st.builds(
    SegmentSummary, COUNTS, COUNTS, COUNTS, COUNTS, COUNTS,
    newest_timestamp_ms=TIMES, first_timestamp_ms=TIMES,
)  # fmt: skip
PASSES = st.builds(
    CleaningPass,
    directory=TEXTS, topic=TEXTS, index=COUNTS, generation=COUNTS,
    first_dirty_offset=COUNTS, end_offset=COUNTS,
    groups=st.lists(st.lists(SEGMENTS, max_size=3).map(tuple), max_size=3).map(tuple),
    later_bases=st.lists(COUNTS, max_size=3).map(tuple),
    producers=st.lists(st.builds(ActiveProducer, TIMES, TIMES, TIMES), max_size=3).map(tuple),
    now_ms=COUNTS, delete_retention_ms=COUNTS, index_interval_bytes=COUNTS,
    limits=st.builds(CleanerLimits, COUNTS, RATIOS, COUNTS),
)  # fmt: skip
GROUPS = st.builds(
    CleanedGroup, COUNTS, COUNTS, COUNTS, st.lists(COUNTS).map(tuple), st.booleans(),
    COUNTS, COUNTS, COUNTS, COUNTS, COUNTS,
)  # fmt: skip
RESULTS = st.builds(PassResult, COUNTS, COUNTS, COUNTS, COUNTS, COUNTS, TEXTS)


@given(PASSES)
def test_a_pass_is_read_as_it_was_written(cleaning: CleaningPass) -> None:
    line = to_json(cleaning)
    assert b"\n" not in line
    assert from_json(line, CleaningPass) == cleaning


@given(st.one_of(GROUPS, RESULTS))
def test_a_report_is_read_as_it_was_written(report: CleanedGroup | PassResult) -> None:
    assert report_from_json(to_json(report)) == report


@given(PASSES, st.data())
def test_a_field_that_is_missing_unknown_or_of_another_kind_is_refused(
    cleaning: CleaningPass, data: st.DataObject
) -> None:
    fields: dict[str, Any] = json.loads(to_json(cleaning))
    name = data.draw(st.sampled_from(sorted(fields)))
    match data.draw(st.sampled_from(["missing", "unknown", "other"])):
        case "missing" if name != "type":  # which may be left out where one kind is expected
            del fields[name]
        case "unknown":
            fields["unknown"] = fields[name]
        case _:
            fields[name] = data.draw(st.sampled_from([None, {}, True, -1, 0.5]))
    with pytest.raises(CleanerMessageError):
        from_json(json.dumps(fields).encode(), CleaningPass)


@given(st.binary(max_size=60))
def test_bytes_of_any_kind_are_refused(line: bytes) -> None:
    for kind in (CleaningPass, SegmentSummary):
        with pytest.raises(CleanerMessageError):
            from_json(line, kind)
    with pytest.raises(CleanerMessageError):
        report_from_json(line)
