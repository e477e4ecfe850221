"""Positions in a topic of the target, offsets of the source in those of the target, MirrorMaker's
records."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.client.model import TopicPartition
from dr_mirror.produce.plan.mirror_maker_records import (
    MirrorCheckpoint,
    MirrorHeartbeat,
    MirrorMakerRecordError,
    OffsetSync,
    read_offset_sync,
)
from dr_mirror.produce.plan.offset_translation import MAX_SEGMENTS, OffsetSegment, OffsetTranslator
from dr_mirror.produce.plan.positions import (
    InstanceKey,
    MirrorInstance,
    PositionKey,
    PositionsError,
    PositionTable,
    SourcePosition,
    encode,
    instance_in,
)

OFFSETS = st.integers(0, 2**63 - 1)


@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.sampled_from("xy"), st.integers(0, 2), OFFSETS),
        max_size=30,
    )
)
def test_the_newest_position_of_each_partition_of_each_source_counts(
    records: list[tuple[str, str, int, int]],
):
    """Sources that share a target do not see each other's."""
    table, newest = PositionTable(), {}
    for source, topic, partition, offset in records:
        position = SourcePosition(offset, offset // 2, "01", "02")
        table.apply(encode(PositionKey(source, topic, partition)), encode(position))
        newest[source, topic, partition] = position
    for source in "ab":
        for topic in "xy":
            for partition in range(3):
                found = table.position(source, TopicPartition(topic, partition))
                assert found == newest.get((source, topic, partition))


def test_an_instance_and_a_removed_position_are_read():
    """A key without a value removes it, as compaction does."""
    table, key = PositionTable(), encode(PositionKey("a", "x", 0))
    table.apply(encode(InstanceKey("a")), encode(MirrorInstance(7)))
    table.apply(key, encode(SourcePosition(1, 1, "01", "02")))
    assert instance_in(encode(InstanceKey("a")), encode(MirrorInstance(7))) == ("a", 7)
    assert instance_in(key, None) is None
    assert table.topic_ids("a") == {"x": "02"}
    assert table.topic_ids("b") == {}
    table.apply(key, None)
    assert table.position("a", TopicPartition("x", 0)) is None


@given(st.none() | st.binary(max_size=60), st.none() | st.binary(max_size=60))
def test_a_record_that_is_no_position_is_an_error_that_is_named(
    key: bytes | None, value: bytes | None
):
    """Going on from an older position would copy records twice."""
    with pytest.raises(PositionsError):
        PositionTable().apply(key, value)
    assert instance_in(key, value) is None


@pytest.mark.parametrize("round_", range(12))
def test_a_group_never_skips_a_record_and_recent_offsets_are_exact(
    dice: random.Random, round_: int
):
    """Against the true place of every record, with gaps on both sides and more segments than are kept."""
    translator, at_target = OffsetTranslator(), {}
    source = target = 0
    for _ in range(dice.randrange(1, 4 * MAX_SEGMENTS)):
        source += dice.randrange(3) if dice.random() < 0.5 else 0
        target += dice.randrange(2)
        count = dice.randrange(1, 5)
        translator.add(OffsetSegment(source, target, count))
        at_target.update((source + n, target + n) for n in range(count))
        source, target = source + count, target + count
    following = target
    for offset in range(source, -1, -1):
        following = at_target.get(offset, following)
        found = translator.translate(offset)
        assert found is None or found <= following
        if offset in at_target and offset > source - 20:
            assert found == following


def test_records_that_are_copied_again_begin_a_new_history():
    """At least once: the second copies lie behind the first ones."""
    translator = OffsetTranslator()
    translator.add(OffsetSegment(0, 0, 10))
    translator.add(OffsetSegment(5, 10, 10))
    assert translator.translate(4) is None
    assert translator.translate(7) == 12


@given(st.text(max_size=20), st.integers(0, 2**31 - 1), OFFSETS, OFFSETS)
def test_an_offset_sync_is_read_as_it_was_written(
    topic: str, partition: int, source: int, target: int
):
    """The same bytes as MirrorMaker's; a Java test reads the other two."""
    sync = OffsetSync(topic, partition, source, target)
    assert read_offset_sync(sync.key, sync.value) == sync


@given(st.none() | st.binary(max_size=40), st.none() | st.binary(max_size=40))
def test_bytes_that_are_no_offset_sync_are_refused(key: bytes | None, value: bytes | None):
    """With the parser's own error."""
    try:
        found = read_offset_sync(key, value)
    except MirrorMakerRecordError:
        return
    assert (found.key, found.value) == (key, value)


def test_checkpoints_and_heartbeats_have_the_bytes_of_mirrormakers_schemas():
    """STRING is a length of two bytes and UTF-8; a value begins with version 0."""
    checkpoint = MirrorCheckpoint("g", "t", 3, 7, 5, "m")
    assert checkpoint.key == b"\0\1g\0\1t\0\0\0\3"
    assert checkpoint.value == b"\0\0" + (7).to_bytes(8, "big") + (5).to_bytes(8, "big") + b"\0\1m"
    heartbeat = MirrorHeartbeat("A", "B", 9)
    assert (heartbeat.key, heartbeat.value) == (b"\0\1A\0\1B", b"\0\0" + (9).to_bytes(8, "big"))
