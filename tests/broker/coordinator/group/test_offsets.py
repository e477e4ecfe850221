"""Committed offsets: replay, removal, expiry; and their records in Kafka's format."""

from __future__ import annotations

import random

import pytest

from broker.coordinator.group.offsets import OffsetTable
from broker.coordinator.group.records import (
    CommittedOffset,
    CoordinatorRecord,
    GroupRecord,
    OffsetRecord,
    StoredGroup,
    StoredMember,
    decode,
    encode,
)
from broker.coordinator.group.subscription import subscribed_topics
from broker.coordinator.hashing import java_abs, java_hash

DAY = 86_400_000


def offset(at: int, committed_ms: int = 0, expires_ms: int = -1) -> CommittedOffset:
    return CommittedOffset(at, 3, "note", committed_ms, expires_ms)


def table(*records: OffsetRecord) -> OffsetTable:
    made = OffsetTable()
    for record in records:
        made.replay(record)
    return made


def test_the_newest_commit_counts_and_a_tombstone_removes_it() -> None:
    """Replay in sequence."""
    made = table(OffsetRecord("g", "t", 0, offset(1)), OffsetRecord("g", "t", 0, offset(5)))
    assert made.of("g")["t", 0].offset == 5
    made.replay(OffsetRecord("g", "t", 0, None))
    assert made.of("g") == {}
    assert made.group_ids() == []


def test_offsets_expire_when_the_group_has_been_empty_for_the_retention() -> None:
    """KIP-211: not by age alone."""
    made = table(OffsetRecord("g", "t", 0, offset(1, committed_ms=0)))
    kept = made.expired("g", now_ms=2 * DAY, retention_ms=DAY, empty_since_ms=int(1.5 * DAY))
    assert kept == []
    gone = made.expired("g", now_ms=3 * DAY, retention_ms=DAY, empty_since_ms=int(1.5 * DAY))
    assert gone == [OffsetRecord("g", "t", 0, None)]


def test_offsets_of_subscribed_topics_do_not_expire() -> None:
    """However long ago they were committed."""
    made = table(OffsetRecord("g", "t", 0, offset(1)), OffsetRecord("g", "u", 0, offset(1)))
    gone = made.expired(
        "g", now_ms=9 * DAY, retention_ms=DAY, empty_since_ms=None, subscribed=frozenset({"t"})
    )
    assert gone == [OffsetRecord("g", "u", 0, None)]


def test_a_commit_with_its_own_retention_expires_at_its_own_time() -> None:
    """OffsetCommit 2-4 could ask for that."""
    made = table(OffsetRecord("g", "t", 0, offset(1, expires_ms=100)))
    assert not made.expired("g", now_ms=99, retention_ms=DAY, empty_since_ms=None)
    assert made.expired("g", now_ms=100, retention_ms=DAY, empty_since_ms=None)


def test_deleted_topics_take_their_offsets_with_them() -> None:
    """In every group."""
    made = table(OffsetRecord("g", "t", 0, offset(1)), OffsetRecord("h", "t", 1, offset(1)))
    assert {r.group_id for r in made.of_topics(frozenset({"t"}))} == {"g", "h"}


MEMBER = StoredMember("m", None, "c", "/h", 1, 2, b"sub", b"ass")
RECORDS: list[CoordinatorRecord] = [
    OffsetRecord("g", "t", 3, offset(7, 8)),
    OffsetRecord("g", "t", 3, offset(7, 8, expires_ms=9)),
    OffsetRecord("g", "t", 3, None),
    GroupRecord("g", StoredGroup("consumer", 4, "range", "m", 5, (MEMBER,))),
    GroupRecord("g", StoredGroup(None, 0, None, None, 5)),
    GroupRecord("g", None),
]


@pytest.mark.parametrize("record", RECORDS)
def test_a_record_survives_the_log(record: CoordinatorRecord) -> None:
    """What is encoded is decoded; version 1 of the value keeps no leader epoch."""
    back = decode(*encode(record))
    if isinstance(record, OffsetRecord) and record.value and record.value.expire_timestamp_ms > 0:
        assert isinstance(back, OffsetRecord)
        assert back.value is not None
        assert back.value.expire_timestamp_ms == 9
        return
    assert back == record


def test_a_key_of_a_later_kafka_is_passed_over() -> None:
    """Its partition must still load."""
    assert decode((99).to_bytes(2, "big") + b"whatever", b"x") is None


def test_groups_are_spread_as_kafka_spreads_them() -> None:
    """String.hashCode and Utils.abs, so that other brokers and tools agree on the partition."""
    assert java_hash("hello") == 99162322
    assert java_hash("polygenelubricants") == -(1 << 31)
    assert java_abs(java_hash("polygenelubricants")) == 0
    assert java_hash("车辆") == 0x8F66 * 31 + 0x8F86
    assert java_abs(java_hash("group-with-a-long-name")) >= 0


def test_no_bytes_break_the_reading_of_a_subscription() -> None:
    """The metadata belongs to the clients; garbage is 'not known', never an error."""
    good = b"\0\1\0\0\0\2\0\1a\0\2bc\xff\xff\xff\xff"
    assert subscribed_topics(good) == {"a", "bc"}
    seed = 20_261_121
    dice = random.Random(seed)
    for _ in range(2000):
        data = bytearray(good[: dice.randrange(len(good) + 1)])
        for _ in range(dice.randrange(3)):
            if data:
                data[dice.randrange(len(data))] = dice.randrange(256)
        found = subscribed_topics(bytes(data))
        assert found is None or all(isinstance(name, str) for name in found), seed
