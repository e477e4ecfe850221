"""Confirmed offsets: what is published next."""

from __future__ import annotations

import random

from bus.client.model import TopicPartition
from bus.contracts.mirror import MirrorConfirmed, decode_confirmed
from dr_mirror.copy.plan.confirmed import (
    MAX_RECORDS,
    REPEAT_MS,
    ConfirmedOffsets,
    confirmed_records,
)
from dr_mirror.topics.topics import ClusterPair

CLUSTERS = ClusterPair("a", "b", 7)


def test_only_what_changed_or_grew_old_is_published_and_the_newest_value_always_comes(
    dice: random.Random,
):
    """A topic of values, written to by random rounds of which some fail, ends as what is held."""
    for _ in range(100):
        places = [TopicPartition("t", number) for number in range(dice.randrange(1, 8))]
        held = dict.fromkeys(places, 0)
        offsets, on_topic, now_ms = ConfirmedOffsets(), dict[TopicPartition, int](), 0
        for _ in range(dice.randrange(1, 30)):
            now_ms += dice.choice((1000, REPEAT_MS))
            held[dice.choice(places)] += dice.randrange(5)
            due = offsets.due(held, now_ms)
            assert all(held[place] == offset for place, offset in due.items())
            if dice.random() < 0.8:
                offsets.on_published(due, now_ms)
                on_topic |= due
                assert not offsets.due(held, now_ms)
        on_topic |= offsets.due(held, now_ms)
        assert on_topic == held


def test_what_is_copied_no_longer_is_not_published_and_is_new_when_it_comes_back():
    """A topic that was made again at the source may stand at the same offset."""
    offsets, place = ConfirmedOffsets(), TopicPartition("t", 0)
    offsets.on_published({place: 5}, 0)
    assert offsets.due({}, 1) == {}
    assert offsets.due({place: 5}, 2) == {place: 5}


def test_a_round_is_bounded_and_all_partitions_have_their_turn():
    """Every partition changes in every round."""
    count, offsets, seen = 3 * MAX_RECORDS, ConfirmedOffsets(), set[TopicPartition]()
    for turn in range(3):
        held = {TopicPartition("t", number): turn for number in range(count)}
        due = offsets.due(held, turn)
        assert len(due) == MAX_RECORDS
        offsets.on_published(due, turn)
        seen |= due.keys()
    assert len(seen) == count


def test_a_record_reads_back_as_what_was_said_and_foreign_bytes_as_nothing(dice: random.Random):
    """Round trip; then every damage is either the same value's or none."""
    [record] = confirmed_records({TopicPartition("data.face", 3): 12}, CLUSTERS, 99)
    said = decode_confirmed(bytes(record.value or b""))
    assert said == MirrorConfirmed(
        source_cluster_id="a", target_cluster_id="b", topic="data.face", partition=3, offset=12,
        generation=7, at_ms=99,
    )  # fmt: skip
    assert record.key == b"a/b/data.face-3"
    for _ in range(500):
        damaged = bytearray(record.value or b"")
        damaged[dice.randrange(len(damaged))] = dice.randrange(256)
        found = decode_confirmed(bytes(damaged[: dice.randrange(len(damaged) + 1)]))
        assert found is None or found.offset >= 0
    assert decode_confirmed(None) is None
