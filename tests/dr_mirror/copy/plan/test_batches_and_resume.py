"""Runs of batches out of fetched bytes, and where a partition goes on."""

from __future__ import annotations

import contextlib
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bus.records.batch import RecordsError, assign
from dr_mirror.copy.plan.batches import SplitBatch, batch_run, is_same_batch
from dr_mirror.copy.plan.resume import SourceOffsets, TargetOffsets, difference_at, resume_point
from dr_mirror.topics.states import MirrorState
from tests.dr_mirror.batch_log import a_batch, a_log

END = 1 << 40


@settings(max_examples=40)
@given(st.randoms(use_true_random=False), st.data())
def test_a_run_is_the_whole_batches_from_the_position_below_the_high_watermark(dice, data):
    """However the bytes are cut off, and wherever the response begins."""
    log = a_log(dice, dice.randrange(1, 8))
    whole = b"".join(batch for _, _, batch in log)
    cut = whole[: data.draw(st.integers(0, len(whole)))]
    first = data.draw(st.integers(0, len(log) - 1))
    position = log[first][0] - (dice.randrange(2) if first == 0 else 0)
    high_watermark = dice.choice([each[1] for each in log])
    size, wanted = 0, []
    for base, end, batch in log:
        size += len(batch)
        if size > len(cut) or end > high_watermark:
            break
        if base >= position:
            wanted.append((base, end, batch))
    run = batch_run(cut, max(position, 0), high_watermark)
    if not wanted:
        assert run is None
        return
    assert bytes(run.data) == b"".join(batch for _, _, batch in wanted)
    assert (run.base_offset, run.end_offset) == (wanted[0][0], wanted[-1][1])
    assert run.batches == len(wanted)
    assert run.records == sum(end - base for base, end, _ in wanted)


def test_a_batch_that_begins_before_the_position_and_ends_behind_it_is_an_error(dice: random.Random):
    """The target's end lies within a batch of the source: they are not the same log."""
    with pytest.raises(SplitBatch):
        batch_run(a_batch(dice, 10, 4), 12, END)
    assert batch_run(a_batch(dice, 10, 4), 14, END) is None


@given(st.binary(max_size=400))
def test_garbage_is_an_error_of_records_or_nothing(garbage: bytes):
    """And nothing else escapes."""
    try:
        run = batch_run(garbage, 0, END)
    except RecordsError:
        return
    assert run is None or run.batches


@settings(max_examples=40)
@given(st.randoms(use_true_random=False))
def test_one_changed_byte_of_a_batch_in_a_run_never_escapes_as_another_error(dice):
    """Headers are trusted only as far as they are checked."""
    data = bytearray(b"".join(batch for _, _, batch in a_log(dice, 3)))
    data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
    with contextlib.suppress(RecordsError):
        batch_run(bytes(data), 0, END)


def test_batches_are_the_same_but_for_the_leader_epoch(dice: random.Random):
    """Every other byte counts."""
    batch = a_batch(dice, 5, 3, epoch=1)
    other = bytearray(batch)
    assign(other, 0, 5, 77)
    assert is_same_batch(batch, other + b"more behind it")
    for at in (*range(12), *range(16, len(batch), 7)):
        changed = bytearray(batch)
        changed[at] ^= 1
        assert difference_at(7, batch, changed), f"byte {at}"
    assert "cannot be compared" in difference_at(7, b"", batch)


SOURCES = st.tuples(st.integers(0, 50), st.integers(0, 50)).map(
    lambda pair: SourceOffsets(min(pair), max(pair))
)
TARGETS = st.tuples(st.integers(0, 50), st.integers(0, 50)).map(
    lambda pair: TargetOffsets(min(pair), max(pair), max(pair))
)


@given(SOURCES, TARGETS, st.booleans())
def test_copying_goes_on_where_the_target_ends_or_is_refused_or_states_a_hole(source, target, compacted):
    """Every pair of logs has exactly one answer, and no record is left out without a word."""
    point = resume_point(source, target, is_compacted=compacted)
    if target.log_end > source.high_watermark:
        assert point.state is MirrorState.SOURCE_TRUNCATED
    elif source.log_start <= target.log_end:
        assert (point.state, point.position, point.missing) == (MirrorState.COPYING, target.log_end, 0)
    else:
        assert point.position == source.log_start
        assert point.missing == (0 if target.log_end == 0 else source.log_start - target.log_end)
        assert (point.state is MirrorState.HOLE) == bool(point.missing)
    if point.compare_at >= 0:
        assert not compacted
        assert source.log_start <= point.compare_at == target.log_end - 1 >= target.log_start
