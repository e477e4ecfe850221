"""What is cleaned next, up to where, and which segments become one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from broker.log.batch_scanner import OFFSETS_PER_SEGMENT
from broker.log.cleaner.model import (
    ActiveProducer,
    CleanerLimits,
    CleanerSettings,
    CompactedLog,
    SegmentSummary,
)
from broker.log.cleaner.plan import (
    MOST_SEGMENTS,
    DirtyLog,
    cleaning_pass,
    dirty_log,
    groups_before,
    groups_of,
    next_log,
)

NOW_MS = 1_760_000_000_000
NEVER_MS = 2**63 - 1
SETTINGS = CleanerSettings(
    min_cleanable_dirty_ratio=0.5,
    min_compaction_lag_ms=0,
    max_compaction_lag_ms=NEVER_MS,
    delete_retention_ms=1000,
    segment_bytes=1000,
    segment_index_bytes=100,
    index_interval_bytes=4096,
    is_deleting=False,
)
LIMITS = CleanerLimits(1 << 20, 0.9, 1 << 19)


def segment(base: int, end: int, size: int = 100, age_ms: int = 0, **fields: Any) -> SegmentSummary:
    defaults = {"index_bytes": 8, "time_index_bytes": 12}
    return SegmentSummary(
        base_offset=base, end_offset=end, size_bytes=size,
        newest_timestamp_ms=NOW_MS - age_ms, first_timestamp_ms=NOW_MS - age_ms,
        **{**defaults, **fields},
    )  # fmt: skip


def log_of(*segments: SegmentSummary, settings: dict[str, Any] | None = None,
           **fields: Any) -> CompactedLog:  # fmt: skip
    """A log of which all is committed, stable and forced, and nothing was cleaned yet."""
    end = segments[-1].end_offset
    log = CompactedLog(
        directory="/logs/table-0", topic="table", index=0, generation=7, segments=segments,
        log_start_offset=0, high_watermark=end, last_stable_offset=end, recovery_point=end,
        first_dirty_offset=segments[0].base_offset, settings=replace(SETTINGS, **(settings or {})),
    )  # fmt: skip
    return replace(log, **fields)


def next_of(logs: list[CompactedLog]) -> DirtyLog | None:
    return next_log(dirty_log(one, NOW_MS) for one in logs)


FOUR = (segment(0, 10), segment(10, 20), segment(20, 30), segment(30, 40))


@pytest.mark.parametrize(
    ("bound", "offset", "end_offset"),
    [
        ("high_watermark", 40, 30),  # the active segment
        ("high_watermark", 30, 30),
        ("high_watermark", 29, 20),
        ("last_stable_offset", 20, 20),
        ("last_stable_offset", 19, 10),
        ("recovery_point", 25, 20),
        ("recovery_point", 0, 0),
    ],
)
def test_nothing_at_or_above_a_bound_is_cleaned_and_no_segment_in_part(
    bound: str, offset: int, end_offset: int
) -> None:
    dirty = dirty_log(replace(log_of(*FOUR), **{bound: offset}), NOW_MS)
    assert dirty.end_offset == end_offset
    assert dirty.cleanable_bytes == 10 * end_offset


def test_a_segment_with_a_record_that_is_too_young_is_not_cleaned_nor_any_after_it() -> None:
    old, young = segment(0, 10, age_ms=500), segment(10, 20, age_ms=400)
    last = segment(20, 30, age_ms=900)
    settings = {"min_compaction_lag_ms": 500}
    log = log_of(old, young, last, segment(30, 40), settings=settings)
    assert dirty_log(log, NOW_MS).end_offset == 10
    assert dirty_log(log, NOW_MS + 99).end_offset == 10
    assert dirty_log(log, NOW_MS + 100).end_offset == 30
    assert dirty_log(log, NOW_MS - 10_000).end_offset == 0, "a clock that went back"


def test_the_lag_is_not_asked_of_what_was_cleaned_already() -> None:
    young, old = segment(0, 10, age_ms=0), segment(10, 20, age_ms=900)
    log = log_of(young, old, segment(20, 30), first_dirty_offset=10,
                 settings={"min_compaction_lag_ms": 500})  # fmt: skip
    assert dirty_log(log, NOW_MS).end_offset == 20


def test_the_dirtiest_log_is_next_by_bytes() -> None:
    clean = log_of(*FOUR, first_dirty_offset=30, topic="clean")
    half = log_of(*FOUR, first_dirty_offset=20, topic="half", settings={
        "min_cleanable_dirty_ratio": 0.3})  # fmt: skip
    most = log_of(segment(0, 10, 1), *FOUR[1:], first_dirty_offset=10, topic="most")
    assert [dirty_log(log, NOW_MS).ratio for log in (clean, half)] == [0.0, 1 / 3]
    assert dirty_log(most, NOW_MS).ratio == 200 / 201
    found = next_of([clean, half, most])
    assert found is not None
    assert found.log is most
    assert next_of([clean]) is None
    assert next_of([]) is None


def test_a_log_that_is_exactly_as_dirty_as_allowed_waits() -> None:
    """As in Kafka: more than the ratio."""
    log = log_of(segment(0, 10), segment(10, 20), segment(20, 30), first_dirty_offset=10)
    assert dirty_log(log, NOW_MS).ratio == 0.5
    assert next_of([log]) is None
    assert next_of([replace(log, first_dirty_offset=0)]) is not None


def test_a_log_that_waits_longer_than_the_largest_lag_comes_before_every_dirtier_one() -> None:
    dirty = log_of(*FOUR, topic="dirty")
    clean = segment(0, 10, 5000)
    lags = {"max_compaction_lag_ms": 1000}
    due, long_due = (
        log_of(clean, segment(10, 20, 50, age_ms=age_ms), segment(20, 30), topic=f"{age_ms}",
               first_dirty_offset=10, settings=lags)
        for age_ms in (1001, 5000)
    )  # fmt: skip
    waits = log_of(clean, segment(10, 20, age_ms=1000), segment(20, 30), first_dirty_offset=10,
                   settings=lags)  # fmt: skip
    assert next_of([waits]) is None
    for logs in ([dirty, due, long_due, waits], [long_due, due, dirty]):
        found = next_of(logs)
        assert found is not None
        assert found.log is long_due
    assert dirty_log(long_due, NOW_MS).overdue_ms == 4000


def test_a_lag_that_is_over_cleans_nothing_that_may_not_be_cleaned() -> None:
    log = log_of(segment(0, 10, age_ms=9999), segment(10, 20), high_watermark=5,
                 settings={"max_compaction_lag_ms": 1})  # fmt: skip
    assert dirty_log(log, NOW_MS).overdue_ms > 0
    assert next_of([log]) is None


def test_an_empty_log_has_nothing_to_clean() -> None:
    assert next_of([log_of(segment(0, 0, 0))]) is None
    assert next_of([log_of(segment(0, 10, 0), segment(10, 10, 0))]) is None


@pytest.mark.parametrize(
    ("larger", "bases"),
    [
        ({}, [[0, 10, 20]]),
        ({"segment_bytes": 299}, [[0, 10], [20]]),
        ({"segment_bytes": 99}, [[0], [10], [20]]),
        ({"segment_index_bytes": 35}, [[0, 10], [20]]),
        ({"segment_index_bytes": 23}, [[0], [10], [20]]),
    ],
)
def test_neighbours_that_fit_into_one_segment_become_one(
    larger: dict[str, int], bases: list[list[int]]
) -> None:
    groups = groups_of(FOUR[:3], replace(SETTINGS, **larger))
    assert [[one.base_offset for one in group] for group in groups] == bases


def test_a_group_spans_no_more_offsets_than_an_index_can_hold() -> None:
    first, end = segment(5, 6), 5 + OFFSETS_PER_SEGMENT + 1
    assert len(list(groups_of([first, segment(6, end)], SETTINGS))) == 1
    assert len(list(groups_of([first, segment(6, end + 1)], SETTINGS))) == 2


def test_a_group_has_no_more_segments_than_the_loop_can_swap_at_once() -> None:
    small = [segment(number * 10, number * 10 + 10) for number in range(MOST_SEGMENTS * 2 + 1)]
    roomy = replace(SETTINGS, segment_bytes=1 << 30, segment_index_bytes=1 << 30)
    assert [len(one) for one in groups_of(small, roomy)] == [MOST_SEGMENTS, MOST_SEGMENTS, 1]


def test_a_pass_knows_its_groups_what_lies_behind_it_and_the_producers_of_before() -> None:
    producers = [ActiveProducer(1, 0, -1), ActiveProducer(2, 0, 19), ActiveProducer(3, 0, 20)]
    log = log_of(*FOUR, last_stable_offset=25, first_dirty_offset=10)
    cleaning = cleaning_pass(dirty_log(log, NOW_MS), producers, LIMITS, NOW_MS)
    assert cleaning.groups == (FOUR[:2],)
    assert cleaning.later_bases == (20, 30)
    assert cleaning.producers == tuple(producers[:2])
    assert (cleaning.first_dirty_offset, cleaning.end_offset) == (10, 20)
    assert (cleaning.generation, cleaning.now_ms) == (7, NOW_MS)
    assert list(groups_before(cleaning, 10)) == [FOUR[:1]]
    assert list(groups_before(cleaning, 11)) == [FOUR[:2]]


def drawn_log(data: st.DataObject) -> CompactedLog:
    sizes = data.draw(st.lists(st.integers(0, 400), min_size=1, max_size=8))
    spans = data.draw(st.lists(st.integers(1, 50), min_size=len(sizes), max_size=len(sizes)))
    bases = [sum(spans[:n]) for n in range(len(spans) + 1)]
    ages = [data.draw(st.integers(-5, 2000)) for _ in sizes]
    segments = [segment(*fields) for fields in zip(bases, bases[1:], sizes, ages, strict=False)]
    end = bases[-1]
    offsets = st.integers(0, end)
    return log_of(
        *segments, high_watermark=data.draw(offsets), last_stable_offset=data.draw(offsets),
        recovery_point=data.draw(offsets), first_dirty_offset=data.draw(offsets),
        settings={
            "min_compaction_lag_ms": data.draw(st.sampled_from([0, 500])),
            "max_compaction_lag_ms": data.draw(st.sampled_from([0, 500, NEVER_MS])),
            "min_cleanable_dirty_ratio": data.draw(st.sampled_from([0.0, 0.5, 1.0])),
        },
    )  # fmt: skip


@given(st.data())
def test_a_pass_over_any_log_covers_whole_segments_below_every_bound(data: st.DataObject) -> None:
    log = drawn_log(data)
    dirty = dirty_log(log, NOW_MS)
    cleaning = cleaning_pass(dirty, (), LIMITS, NOW_MS)
    covered = [one for group in cleaning.groups for one in group]
    assert covered == list(log.segments[: len(covered)])
    assert [one.base_offset for one in log.segments[len(covered) :]] == list(cleaning.later_bases)
    assert len(covered) < len(log.segments)
    end = covered[-1].end_offset if covered else 0
    assert cleaning.end_offset == end
    assert end <= min(log.high_watermark, log.last_stable_offset, log.recovery_point)
    lag_ms = log.settings.min_compaction_lag_ms
    for one in covered:
        is_dirty = one.end_offset > log.first_dirty_offset
        assert not (lag_ms and is_dirty and one.newest_timestamp_ms > NOW_MS - lag_ms)
    assert_counts(dirty, covered)


def assert_counts(dirty: DirtyLog, covered: list[SegmentSummary]) -> None:
    log = dirty.log
    cleanable = sum(one.size_bytes for one in covered if one.end_offset > log.first_dirty_offset)
    assert dirty.cleanable_bytes == cleanable
    clean = [one for one in log.segments[:-1] if one.end_offset <= log.first_dirty_offset]
    assert dirty.clean_bytes == sum(one.size_bytes for one in clean)
    assert 0 <= dirty.ratio <= 1
    if dirty.is_cleanable:
        assert cleanable
