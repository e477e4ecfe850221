"""Attempts that were never committed count for nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.store.hbase import ledger as rules
from ingest.store.hbase.ledger import (
    Cell,
    Ledger,
    apply_change,
    begin_attempt,
    commit_attempt,
    is_forgotten,
    open_writer,
    value,
)
from ingest.store.port import Position, StoreError
from tests.ingest.store.made import position


def adding(more: int) -> rules.Change:
    return lambda numbers: {"n": numbers.get("n", 0) + more}


def test_an_attempt_counts_from_its_commit_on() -> None:
    first = begin_attempt(Ledger(), 1_000)
    assert not first.counts(1_000)
    assert commit_attempt(first, []).counts(1_000)


def test_an_attempt_that_was_left_never_counts() -> None:
    """Neither after the next one's commit nor after another writer's."""
    left = begin_attempt(Ledger(), 1_000)
    after = commit_attempt(begin_attempt(open_writer(left, "another"), 2_000), [])
    assert not after.counts(1_000)
    assert after.counts(2_000)


def test_the_same_batch_goes_on_under_the_same_number() -> None:
    """The answer was lost, or the store was away in the middle: no number has failed."""
    first = begin_attempt(Ledger(), 1_000, [position(4, 0), position(9, 2, partition=1)])
    again = begin_attempt(first, 2_000, [position(9, 2, partition=1), position(4, 0)])
    assert again == first
    done = commit_attempt(again, [position(4, 0)])
    assert (done.committed, done.failed, done.pending) == (1_000, (), ())


@pytest.mark.parametrize("other", [[position(5, 0)], [position(4, 1)], []])
def test_another_batch_gives_the_number_up(other: list[Position]) -> None:
    """What it wrote would not be written again under it. So does another writer."""
    left = begin_attempt(Ledger(), 1_000, [position(4, 0)])
    assert begin_attempt(left, 2_000, other).failed == (1_000,)
    taken = open_writer(left, "another")
    assert begin_attempt(taken, 2_000, [position(4, 0)]).begun == 2_000
    assert taken.failed == (1_000,)


def test_an_attempt_is_forgotten_only_where_it_was_begun_from_what_the_store_says() -> None:
    """Not where it is under way, was committed or given up, nor where another writer came."""
    left = begin_attempt(Ledger(), 1_000, [position(4, 0)])
    for before in (commit_attempt(left, [position(4, 0)]), left):
        attempt = begin_attempt(before, 2_000, [position(9, 4)])
        assert is_forgotten(before, attempt)
        assert not is_forgotten(attempt, attempt)
        assert not is_forgotten(commit_attempt(attempt, [position(9, 4)]), attempt)
        assert not is_forgotten(begin_attempt(attempt, 3_000), attempt)
        assert not is_forgotten(open_writer(before, "another"), attempt)


def test_numbers_grow_although_the_clock_goes_back() -> None:
    ledger = commit_attempt(begin_attempt(Ledger(), 5_000), [])
    assert begin_attempt(ledger, 10).begun == 5_001


def test_positions_stand_beside_each_other() -> None:
    """An application's commit leaves the others' positions and its other partitions alone."""
    ledger = commit_attempt(begin_attempt(Ledger(), 1), [position(4), position(9, partition=1)])
    ledger = commit_attempt(begin_attempt(ledger, 2), [position(6), position(1, application="quality")])
    ends = [(p, ledger.end_offset(p)) for p in (position(0), position(0, partition=1))]
    assert [end for _, end in ends] == [6, 9]
    assert ledger.end_offset(position(0, application="quality")) == 1
    assert ledger.end_offset(position(0, application="unknown")) == -1


def test_attempts_without_an_end_are_bounded() -> None:
    """More attempts than the bound mean a fault that numbering cannot repair."""
    ledger = Ledger(failed=tuple(range(rules.MAX_FAILED)), begun=30_000, committed=29_999)
    with pytest.raises(StoreError, match="never committed"):
        begin_attempt(ledger, 40_000)


@given(
    st.lists(
        st.tuples(
            st.integers(1, 100),  # what the batch adds
            st.sampled_from(["commit", "die before the cell", "die behind the cell", "clock back"]),
        ),
        max_size=40,
    )
)
def test_a_cell_holds_exactly_what_was_committed(batches: list[tuple[int, str]]) -> None:
    """Whenever its writer dies, and at every moment in between."""
    ledger, cell, due, now_ms = Ledger(), None, 0, 1_000
    for more, end in batches:
        now_ms += -500 if end == "clock back" else 7
        ledger = begin_attempt(ledger, now_ms)
        assert value(cell, ledger).get("n", 0) == due
        if end == "die before the cell":
            continue
        fresh = apply_change(cell, ledger, adding(more))
        assert fresh.attempt > (cell.attempt if cell else 0), "or HBase would keep the older one"
        cell = fresh
        assert value(cell, ledger).get("n", 0) == due
        if end == "die behind the cell":
            ledger = open_writer(ledger, "another")
            assert value(cell, ledger).get("n", 0) == due
        else:
            ledger = commit_attempt(ledger, [])
            due += more
        assert value(cell, ledger).get("n", 0) == due


def test_a_cell_that_is_not_there_is_empty() -> None:
    assert value(None, Ledger()) == {}
    assert apply_change(None, begin_attempt(Ledger(), 5), adding(3)) == Cell(5, {"n": 3}, {})
