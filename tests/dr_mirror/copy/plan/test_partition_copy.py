"""A partition between a source and a target that fail at any moment, against a model of both."""

from __future__ import annotations

import random

import pytest

from bus.client.model import TopicPartition
from dr_mirror.copy.plan.batches import batch_run
from dr_mirror.copy.plan.pace import MemoryBudget
from dr_mirror.copy.plan.partition_copy import FetchedFrame, PartitionAppend, PartitionCopy
from dr_mirror.copy.plan.resume import ResumePoint, SourceOffsets, TargetOffsets, resume_point
from dr_mirror.status.plan.status import lag_s, partition_status
from dr_mirror.topics.states import MirrorState
from tests.dr_mirror.batch_log import a_log

PARTITION = TopicPartition("data.vehicle", 0)


class TargetLog:
    """The target's compare-and-set append."""

    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.end = 0

    def append(self, append: PartitionAppend) -> bool:
        if append.base_offset != self.end:
            return False
        self.batches += [bytes(data) for data in append.data]
        self.end = append.end_offset
        return True


class MirroredPartitionWorld:
    """One partition, its source and target, and answers that are under way."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.log = a_log(dice, dice.randrange(1, 30))
        self.target = TargetLog()
        self.budget = MemoryBudget(1 << 20)
        self.copy = PartitionCopy(PARTITION, 400)
        self.fetched: list[tuple[int, bytes]] = []
        self.sent: list[tuple[PartitionAppend, bool]] = []

    @property
    def source_end(self) -> int:
        return self.log[-1][1]

    def begin(self) -> None:
        source, end = SourceOffsets(0, self.source_end), self.target.end
        point = resume_point(source, TargetOffsets(0, end, end), is_compacted=False)
        assert point.state is MirrorState.COPYING
        self.copy.begin(
            point.position, source, target_log_start=0, target_log_end=end, target_epoch=3,
            caught_up_ms=-1,
        )  # fmt: skip
        self.fetched.clear()  # the session forgets what was asked before

    def fetch(self) -> None:
        if self.copy.wants_fetch and not self.fetched:
            at = self.copy.position
            found = b"".join(batch for base, _, batch in self.log if base >= at)
            self.fetched.append((at, found[: self.dice.randrange(600)]))

    def on_fetched(self) -> None:
        if self.fetched:
            _, data = self.fetched.pop()
            self.budget.acquire(len(data))
            frame = FetchedFrame(len(data), self.budget.release)
            frame.hold()
            run = batch_run(data, self.copy.position, self.source_end)
            self.copy.on_fetched(run, frame, SourceOffsets(0, self.source_end), 1)
            frame.drop()

    def send(self) -> None:
        if self.copy.can_append:
            append = self.copy.next_append(self.dice.choice([1, 200, 10_000]))
            assert len(append.joined) == append.size
            is_lost = self.dice.random() < 0.2
            self.sent.append((append, False if is_lost else self.target.append(append)))

    def answer(self) -> None:
        if self.sent:
            append, is_taken = self.sent.pop(self.dice.randrange(len(self.sent)))
            if not self.copy.is_current(append):
                return
            if is_taken:
                self.copy.on_appended(append, 0)
            else:
                self.copy.halt(MirrorState.TARGET_UNAVAILABLE, "no answer")

    def step(self) -> None:
        if not self.copy.copying:
            self.begin()
        elif self.dice.random() < 0.05:
            self.copy.halt(MirrorState.STARTING)
            self.fetched.clear()
        self.dice.choice([self.fetch, self.on_fetched, self.send, self.answer])()
        assert self.copy.queued_bytes >= 0


@pytest.mark.parametrize("number", range(20))
def test_the_target_gets_every_batch_once_in_order_whatever_is_lost(number: int, dice: random.Random):
    """Lost answers, late answers, restarts; at the end no memory is held."""
    world = MirroredPartitionWorld(dice)
    for _ in range(4000):
        world.step()
        if world.target.end == world.source_end and not world.sent:
            break
    held = b"".join(world.target.batches)
    assert held == b"".join(batch for _, _, batch in world.log)[: len(held)]
    assert world.target.end == world.source_end
    world.copy.halt(MirrorState.STARTING)
    assert world.budget.used == world.copy.queued_bytes == 0


def copying(high_watermark: int, caught_up_ms: int = -1) -> PartitionCopy:
    copy = PartitionCopy(PARTITION, 1000)
    copy.begin(
        0, SourceOffsets(0, high_watermark), target_log_start=0, target_log_end=0, target_epoch=0,
        caught_up_ms=caught_up_ms,
    )  # fmt: skip
    return copy


def test_the_lag_in_time_begins_when_the_target_had_all():
    """Not known until it once had; 0 only while the source is heard."""
    assert lag_s(copying(10), 5000, 4000) == -1
    assert lag_s(copying(10, caught_up_ms=2000), 5000, 4000) == 3
    assert lag_s(copying(0), 5000, 4000) == 0
    lost = copying(0)
    lost.note(MirrorState.SOURCE_UNAVAILABLE, "away")
    assert lag_s(lost, 5000, 4000) == 1
    status = partition_status(lost, 5000, 4000)
    assert (status.state, status.detail, status.lag_records) == ("source_unavailable", "away", 0)


def test_the_source_s_deletions_are_passed_on_but_never_beyond_what_the_target_holds():
    """Else the target would throw away the records in hand."""
    copy = copying(10)
    frame = FetchedFrame(0, lambda _: None)
    frame.hold()
    copy.on_fetched(None, frame, SourceOffsets(7, 10), 1)
    assert not copy.can_append
    copy.acknowledged = 5
    assert copy.can_append
    append = copy.next_append(1000)
    assert (append.joined, append.source_log_start, append.base_offset) == (None, 5, 5)


def hole(end: int, log_start: int) -> ResumePoint:
    """Where copying goes on when the source begins behind what the target has."""
    found = resume_point(
        SourceOffsets(log_start, log_start + 10), TargetOffsets(0, end, end), is_compacted=False
    )
    assert found.missing == log_start - end
    return found


def test_a_hole_stays_visible_while_copying_goes_on():
    """Until the process ends; what is missing is added up."""
    copy = copying(10)
    assert copy.on_hole(hole(5, 8))
    copy.begin(
        8, SourceOffsets(8, 10), target_log_start=8, target_log_end=8, target_epoch=0,
        caught_up_ms=-1,
    )  # fmt: skip
    copy.note(MirrorState.SOURCE_UNAVAILABLE, "away")
    frame = FetchedFrame(0, lambda _: None)
    frame.hold()
    copy.on_fetched(None, frame, SourceOffsets(8, 10), 1)
    assert (copy.state, copy.missing) == (MirrorState.HOLE, 3)
    assert copy.on_hole(hole(20, 22))
    assert copy.missing == 5


def test_a_hole_that_the_target_has_not_answered_is_counted_once():
    """More may have been deleted until it is asked again."""
    copy = copying(10)
    assert copy.on_hole(hole(5, 8))
    assert not copy.on_hole(hole(5, 8))
    assert copy.on_hole(hole(5, 9))
    assert copy.missing == 4


def test_a_log_that_begins_within_a_batch_is_fetched_from_its_start_and_appended_from_the_batch_s():
    copy = copying(10)
    copy.begin(
        5, SourceOffsets(7, 10), target_log_start=5, target_log_end=5, target_epoch=0,
        caught_up_ms=-1,
    )  # fmt: skip
    assert (copy.fetch_from.position, copy.position) == (7, 5)
    assert not copy.log_start_moved, "the target has nothing yet that could go"
