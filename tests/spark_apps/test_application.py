"""Applications of one query each get the records after their own position, once."""

from __future__ import annotations

import random
from collections.abc import Sequence

from pyspark.sql import DataFrame

from spark_apps.batches.message import OffsetRanges, StreamMessage
from spark_apps.queries.application import AppCursor, SharedQuery

A, B = ("data.vehicle", 0), ("data.face", 0)


class Recording:
    """An application that keeps what it was given."""

    headers = False

    def __init__(self, name: str, topics: tuple[str, ...], trigger_ms: int = 0) -> None:
        self.name = name
        self.topics = topics
        self.trigger_ms = trigger_ms
        self.got: list[tuple[str, int]] = []
        self.offsets: list[OffsetRanges] = []

    def transform(self, messages: DataFrame) -> DataFrame:
        return messages

    def on_batch(self, messages: Sequence[StreamMessage], offsets: OffsetRanges) -> None:
        self.got += [(m.topic, m.offset) for m in messages]
        self.offsets.append(offsets)

    def on_frame(self, frame: DataFrame, offsets: OffsetRanges) -> None:
        self.offsets.append(offsets)


def message(topic: str, offset: int) -> StreamMessage:
    return StreamMessage(topic, 0, offset, 0, b"{}")


def test_each_member_gets_only_its_topics() -> None:
    """The watch list does not see films."""
    both, one = Recording("both", (A[0], B[0])), Recording("one", (B[0],))
    query = SharedQuery([AppCursor(both, {}), AppCursor(one, {})])
    query.on_batch([message(*A), message(*B)], {A: (0, 1), B: (0, 1)})
    assert (both.got, one.got) == ([A, B], [B])
    assert one.offsets == [{B: (0, 1)}]


def test_a_batch_without_a_record_still_moves_the_positions() -> None:
    """The markers of transactions and what compaction took away have offsets, but no records."""
    one = Recording("one", (A[0],))
    cursor = AppCursor(one, {A: 5})
    cursor.process([], {A: (3, 9)})
    assert (one.offsets, cursor.ends) == ([{A: (5, 9)}], {A: 9})


def test_a_query_begins_where_the_member_furthest_behind_stands() -> None:
    """And at the earliest record where a member has read nothing."""
    first, second = Recording("first", (A[0], B[0])), Recording("second", (A[0],))
    query = SharedQuery([AppCursor(first, {A: 5, B: 3}), AppCursor(second, {A: 9})])
    assert query.starting_positions([A, B]) == {A: 5, B: 3}
    assert (
        SharedQuery([AppCursor(first, {A: 5}), AppCursor(second, {})]).starting_positions([A, B])
        == {}
    )


def test_a_query_waits_as_long_as_its_most_hurried_member() -> None:
    """Its name lists its applications."""
    query = SharedQuery(
        [AppCursor(Recording("a", ("t",), 100), {}), AppCursor(Recording("b", ("u",), 0), {})]
    )
    assert (query.name, query.topics, query.trigger_ms) == ("a+b", ("t", "u"), 0)


def test_members_at_different_positions_each_read_everything_once(dice: random.Random) -> None:
    """Property: for any batches, no cursor misses or repeats an offset."""
    ends = [dice.randrange(100) for _ in range(3)]
    members = [Recording(f"m{n}", (A[0],)) for n in range(3)]
    query = SharedQuery([AppCursor(m, {A: end}) for m, end in zip(members, ends, strict=True)])
    at = query.starting_positions([A])[A]
    while at < 200:
        size = dice.randrange(1, 30)
        messages = [message(A[0], offset) for offset in range(at, at + size)]
        query.on_batch(messages, {A: (at, at + size)})
        at += size
    for member, end in zip(members, ends, strict=True):
        assert [offset for _, offset in member.got] == list(range(end, at))
