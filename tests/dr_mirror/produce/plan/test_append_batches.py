"""The batches of a partition go to a leader that fails at any moment; a model of it finds doubles."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from bus.client.model import TopicPartition
from bus.errors import ErrorCode
from bus.records.batch import only_batch
from bus.records.build import build_batch
from bus.records.read import read_records
from bus.records.record import Record
from dr_mirror.produce.plan.append_batches import AppendBatches
from dr_mirror.produce.plan.offset_translation import OffsetTranslator
from dr_mirror.produce.plan.rewrite import BatchProducer, ProducedBatch
from tests.dr_mirror.batch_log import a_log

PARTITION = TopicPartition("data.vehicle", 0)
PRODUCER = BatchProducer(7, 0, is_transactional=False)
CACHED = 5


class TargetPartition:
    """What a leader does with an idempotent producer's batches: the last five are known again."""

    def __init__(self) -> None:
        self.records: list[bytes | None] = []
        self.cached: list[tuple[int, int]] = []
        self.sequence = 0

    def append(self, data: bytearray) -> tuple[ErrorCode, int]:
        header = only_batch(data)
        known = dict(self.cached[-CACHED:])
        if header.base_sequence in known:
            return ErrorCode.NONE, known[header.base_sequence]
        if header.base_sequence != self.sequence:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
        offset = len(self.records)
        self.cached.append((header.base_sequence, offset))
        self.records += [each.value for each in read_records(data)]
        self.sequence += header.records_count
        return ErrorCode.NONE, offset


def send(batches: AppendBatches, leader: TargetPartition, dice: random.Random) -> None:
    """Up to five under way; an answer or a request may be lost, and all behind it with it."""
    under_way: list[tuple[ProducedBatch, ErrorCode, int]] = []
    is_lost = False
    while True:
        batch = batches.next_batch(PRODUCER) if len(under_way) < CACHED else None
        if batch is not None:
            is_lost = is_lost or dice.random() < 0.1
            found = leader.append(batch.data) if not is_lost else (ErrorCode.NETWORK_EXCEPTION, -1)
            under_way.append((batch, *found))
        elif not under_way:
            return
        if under_way and (batch is None or dice.random() < 0.5):
            first, code, offset = under_way.pop(0)
            if code or dice.random() < 0.1:
                batches.on_failed(code or ErrorCode.NETWORK_EXCEPTION, "")
            elif batches.failure is None:
                batches.on_acknowledged(first, offset)


@pytest.mark.parametrize("round_", range(20))
def test_batches_that_are_sent_again_are_at_the_target_once_and_in_order(
    dice: random.Random, round_: int
):
    """And the offsets that the answers told translate every record's to where it is."""
    log = a_log(dice, dice.randrange(1, 40))
    batches = AppendBatches(PARTITION, [memoryview(one[2]) for one in log], 0, 0)
    leader = TargetPartition()
    send(batches, leader, dice)
    while batches.failure is not None:
        assert batches.may_send_again
        batches.rewind()
        send(batches, leader, dice)
    wanted = [each for one in log for each in read_records(one[2])]
    assert leader.records == [each.value for each in wanted]
    assert batches.target_end == len(wanted)
    assert batches.acknowledged == log[-1][1]
    assert all(one.source_offset < other.source_offset for one, other in pairwise(batches.segments))
    translator = OffsetTranslator()
    for segment in batches.segments:
        translator.add(segment)
    assert [translator.translate(each.offset) for each in wanted] == list(range(len(wanted)))


def test_after_a_failure_nothing_goes_that_would_follow_it():
    """The leader refuses what comes behind a batch that it lacks."""
    log = [memoryview(build_batch([Record(None, b"%d" % n)], base_offset=n)) for n in range(3)]
    batches = AppendBatches(PARTITION, log, 0, 0)
    first = batches.next_batch(PRODUCER)
    assert first is not None
    batches.on_failed(ErrorCode.MESSAGE_TOO_LARGE, "")
    assert batches.next_batch(PRODUCER) is None
    assert not batches.may_send_again
    batches.rewind()
    again = batches.next_batch(PRODUCER)
    assert again is first
