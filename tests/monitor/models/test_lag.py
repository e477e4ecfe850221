"""Backlog from positions and ends."""

from __future__ import annotations

from ingest.store.port import Position
from monitor.models.lag import lags, total


def position(
    partition: int, end_offset: int, topic_id: str = "t1", application: str = "ingest"
) -> Position:
    return Position(
        application=application, cluster_id="c", topic="data.face", topic_id=topic_id,
        partition=partition, end_offset=end_offset,
    )  # fmt: skip


ENDS = {("data.face", 0): 100, ("data.face", 1): 50}


def test_lag_is_what_lies_between_position_and_end() -> None:
    """End offsets are exclusive: equal means everything was read."""
    found = lags("ingest", [position(0, 90), position(1, 50)], ENDS)
    assert [part.lag for part in found] == [10, 0]
    assert total(found) == 10


def test_a_partition_never_read_counts_from_its_earliest_record() -> None:
    """Retention may have deleted the beginning before the first read."""
    (first, second) = lags("ingest", [], ENDS, {("data.face", 0): 40})
    assert (first.lag, first.lost, second.lag) == (60, 0, 50)


def test_records_cut_before_they_were_read_are_lost_and_reported() -> None:
    """A position below the earliest record shows how many are lost."""
    (first, _) = lags("ingest", [position(0, 10)], ENDS, {("data.face", 0): 40})
    assert (first.lag, first.lost) == (60, 30)


def test_positions_of_a_topic_made_anew_or_of_others_are_void() -> None:
    """The same name with another id is another topic."""
    found = lags("ingest", [position(0, 90, "old"), position(1, 40, application="watchlist")], ENDS,
                 topic_ids={"data.face": "t1"})  # fmt: skip
    assert [part.lag for part in found] == [100, 50]


def test_a_position_beyond_the_end_is_no_negative_lag() -> None:
    """Ends are asked after positions, or a partition was cut."""
    assert lags("ingest", [position(0, 120)], ENDS)[0].lag == 0
