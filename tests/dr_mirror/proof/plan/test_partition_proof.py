"""Which blocks are compared when, and what is called proven."""

from __future__ import annotations

import random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dr_mirror.policy.proof_pace import ProofPace
from dr_mirror.proof.plan.partition_proof import (
    BLOCK_OFFSETS,
    MARKS,
    DifferingRange,
    HeldBounds,
    PartitionProof,
    ProofKind,
    ProofTask,
)
from dr_mirror.proof.plan.proof_status import TopicProofTotals, proof_status

PACE = ProofPace(recent_ms=12_000, interval_ms=1_000, scrub_ms=40_000)
STEP_MS = 500


class TwoLogs:
    """Replicas whose blocks remember when they were compared; the proof goes its own way."""

    def __init__(self, dice: random.Random, *, held: int = 0, young: int = 0) -> None:
        """Of what was `held` before the first look, the last `young` are as old as their records
        say, between nothing and what is just recent; all before them are older."""
        self.dice = dice
        self.now_ms = 1_000_000
        self.start, self.end = 0, held
        begin_ms = self.now_ms - PACE.recent_ms
        self.arrived = [(begin_ms - STEP_MS, held - young)] + [
            (begin_ms + n * PACE.recent_ms // 10, held - young + young * n // 10) for n in range(1, 11)
        ]  # when the records before each offset had come
        self.brokers = (1, 2, 3)
        self.clock_is_wrong, self.newest = False, 10**9
        self.flipped: dict[int, int] = {}  # broker -> offset
        self.unreachable: set[int] = set()
        self.compared_ms: dict[tuple[int, int], int] = {}  # broker and block -> when
        self.ends: list[tuple[int, int]] = []
        self.proof = PartitionProof(topic="data.face", partition=0, topic_id="ab")

    def step(self, records: int = 0) -> list[ProofTask]:
        """Half a second, and all that is due in it."""
        self.now_ms += STEP_MS
        self.end += records
        self.ends.append((self.now_ms, self.end))
        self.arrived.append((self.now_ms, self.end))
        bounds = HeldBounds(self.start, self.end, self.brokers, self.now_ms, *self.froms)
        self.proof.update(bounds, PACE, self.now_ms)
        done: list[ProofTask] = []
        while (task := self.proof.next_task(PACE, self.now_ms)) is not None:
            self.compare(task)
            done.append(task)
            assert len(done) < 10_000
        return done

    @property
    def froms(self) -> tuple[int, int]:
        """As `HeldBounds` has them; records that call themselves old are none of them young."""
        young_from = self.end if self.clock_is_wrong else self.young_from
        return young_from, max(self.end - self.newest, 0)

    @property
    def young_from(self) -> int:
        """The first offset whose record is younger than what is recent, as a broker says it."""
        return self.young_in(0)

    def young_in(self, ms: int) -> int:
        """Which one it will be."""
        bound_ms = self.now_ms + ms - PACE.recent_ms
        return max(end for at_ms, end in self.arrived if at_ms < bound_ms)

    def compare(self, task: ProofTask) -> None:
        assert self.start <= task.first < task.end <= self.end
        for broker in task.brokers:
            if broker in self.unreachable:
                self.proof.on_failed(broker, "no answer", self.now_ms)
                continue
            blocks = range(task.first // BLOCK_OFFSETS, -(-task.end // BLOCK_OFFSETS))
            for block in blocks:
                self.compared_ms[broker, block] = self.now_ms
            self.proof.on_compared(
                task, broker, task.end, self.found(task, broker), PACE, self.now_ms
            )
        self.proof.on_source(task, "", self.now_ms)

    def found(self, task: ProofTask, broker: int) -> list[DifferingRange]:
        offset = self.flipped.get(broker, -1)
        if not task.first <= offset < task.end:
            return []
        return [
            DifferingRange(broker, offset, offset + 1, self.now_ms, "the batch differs", "/data")
        ]

    def age_ms(self, broker: int, offset: int) -> int:
        return self.now_ms - self.compared_ms.get((broker, offset // BLOCK_OFFSETS), 0)

    def steps(self, ms: int, records: int = 0) -> None:
        for _ in range(ms // STEP_MS):
            self.step(records)


@settings(max_examples=8, deadline=None)
@given(st.randoms(use_true_random=False))
def test_every_block_of_every_replica_is_compared_in_its_time_whatever_comes(dice):
    """What is younger than an hour in each interval, all else within a scrub; records come, old ones
    go, replicas are away for a while and come back."""
    logs = TwoLogs(dice, held=dice.choice([0, 0, 7_300, 250_000]))
    for _ in range(dice.randrange(3, 8)):
        logs.steps(dice.randrange(1, 60) * STEP_MS, dice.choice([0, 3, 40, 700]))
        if dice.random() < 0.3:
            logs.start = dice.randrange(logs.start, logs.end + 1)
        logs.unreachable = {each for each in logs.brokers if dice.random() < 0.15}
    logs.unreachable = set()
    logs.steps(PACE.scrub_ms + PACE.recent_ms + 70_000, 5)  # a replica is asked again in a minute
    assert logs.proof.unproven_offsets <= 20
    for broker in logs.brokers:
        for offset in range(logs.start, logs.end - 20, BLOCK_OFFSETS):
            assert logs.age_ms(broker, offset) <= PACE.scrub_ms + 2 * PACE.interval_ms
        recent_end = next(end for at_ms, end in logs.ends if at_ms >= logs.now_ms - PACE.recent_ms)
        for offset in range(max(recent_end, logs.start), logs.end - 20, BLOCK_OFFSETS):
            assert logs.age_ms(broker, offset) <= 2 * PACE.interval_ms


@pytest.mark.parametrize("flipped", [False, True])
def test_what_was_deleted_before_a_replica_answered_is_asked_of_nobody(flipped):
    """All of it goes while a pass is under way, and while a difference waits to be read again."""
    logs = TwoLogs(random.Random(1))
    logs.step(3)
    if flipped:
        logs.flipped[2] = logs.start
        logs.steps(PACE.recent_ms * 2)
        assert logs.proof.differences
    logs.unreachable = {1, 2}
    logs.steps(2 * PACE.interval_ms, 3)
    logs.start = logs.end
    logs.unreachable = set()
    logs.steps(60_000 + PACE.interval_ms)  # a replica is asked again in a minute
    assert logs.proof.unproven_offsets == 0
    assert not logs.proof.differences
    assert logs.proof.complete_to_ms >= logs.now_ms - 2 * PACE.interval_ms


@settings(max_examples=8, deadline=None)
@given(st.randoms(use_true_random=False))
def test_complete_up_to_a_time_is_said_only_of_what_was_compared_on_every_replica(dice):
    """Whatever comes in between, also a restart that has the saved state only."""
    logs = TwoLogs(dice, held=dice.choice([0, 12_345]))
    for _ in range(dice.randrange(50, 250)):
        logs.step(dice.choice([0, 0, 9, 900]))
        if dice.random() < 0.05:
            logs.unreachable = {each for each in logs.brokers if dice.random() < 0.4}
        if dice.random() < 0.02:
            logs.proof = msgspec.json.decode(msgspec.json.encode(logs.proof), type=PartitionProof)
        complete_ms = logs.proof.complete_to_ms
        if complete_ms >= 0:
            end = next(end for at_ms, end in reversed(logs.ends) if at_ms <= complete_ms)
            for broker in logs.brokers:
                for offset in range(logs.start, end, BLOCK_OFFSETS):
                    assert (broker, offset // BLOCK_OFFSETS) in logs.compared_ms
    oldest_ms = logs.proof.oldest_proof_ms()
    assert oldest_ms <= logs.now_ms


@pytest.mark.parametrize("is_recent", [True, False])
def test_a_flipped_bit_is_named_in_its_time_and_its_repair_in_an_interval(is_recent, dice):
    """A recent one within an interval, an old one within a scrub."""
    logs = TwoLogs(dice)
    logs.steps(10_000, 500)
    if not is_recent:
        logs.steps(PACE.recent_ms * 2)
    broker, offset = dice.choice(logs.brokers), dice.randrange(logs.end - BLOCK_OFFSETS)
    logs.flipped[broker] = offset
    bound_ms = 2 * PACE.interval_ms if is_recent else PACE.scrub_ms + PACE.interval_ms
    logs.steps(bound_ms)
    [found] = logs.proof.differences
    assert (found.broker, found.first_offset, found.directory) == (broker, offset, "/data")
    assert logs.proof.complete_to_ms == -1
    first_found_ms = found.found_ms
    logs.steps(10 * PACE.interval_ms)
    [found] = logs.proof.differences
    assert found.found_ms == first_found_ms
    logs.flipped.clear()
    logs.steps(2 * PACE.interval_ms)
    assert not logs.proof.differences
    assert logs.proof.complete_to_ms > 0


@settings(max_examples=30, deadline=None)
@given(dice=st.randoms(use_true_random=False), held=st.integers(2_000, 90_000), data=st.data())
def test_what_is_young_at_the_first_look_is_named_in_an_interval_however_much_was_before(
    dice, held, data
):
    """It failed where a partition held a block or more when the mirror began: what was fresh then
    waited for the scrub."""
    young = data.draw(st.integers(BLOCK_OFFSETS + 100, held))
    logs = TwoLogs(dice, held=held, young=young)
    if data.draw(st.booleans()):
        logs.steps(data.draw(st.integers(0, 4)) * STEP_MS, 3)
    broker = dice.choice(logs.brokers)
    offset = data.draw(st.integers(logs.young_in(2 * PACE.interval_ms), held - 1))
    logs.flipped[broker] = offset
    logs.steps(2 * PACE.interval_ms)
    [found] = logs.proof.differences
    assert (found.broker, found.first_offset) == (broker, offset)


def test_what_came_of_late_is_recent_though_its_records_call_themselves_old_up_to_a_bound(dice):
    """A clock that stands in 1970; and a backlog of days, which is not all read in every interval."""
    logs = TwoLogs(dice)
    logs.clock_is_wrong, logs.newest = True, 60_000
    logs.steps(8_000, 5_000)
    logs.step()
    read = [task for _ in range(4) for task in logs.step() if task.kind is ProofKind.RECENT]
    assert min(task.first for task in read) == logs.end - logs.newest
    logs.flipped[2] = logs.end - 30_000
    logs.steps(2 * PACE.interval_ms)
    [found] = logs.proof.differences
    assert found.first_offset == logs.flipped[2]
    logs.flipped.clear()
    logs.steps(2 * PACE.recent_ms)
    assert not [task for _ in range(4) for task in logs.step() if task.kind is ProofKind.RECENT]


def test_what_was_old_at_the_first_look_is_proven_at_the_pace_of_the_scrub_and_held_back_until_then(
    dice,
):
    """Complete up to a time is not said before; what is young is compared meanwhile."""
    logs = TwoLogs(dice, held=500_000, young=50_000)
    logs.steps(PACE.scrub_ms // 2, 10)
    assert logs.proof.complete_to_ms == -1
    assert logs.proof.unproven_offsets > 150_000
    read = [task for _ in range(4) for task in logs.step(10) if task.kind is ProofKind.RECENT]
    assert min(task.first for task in read) >= logs.young_from - BLOCK_OFFSETS
    logs.steps(PACE.scrub_ms, 10)
    assert logs.proof.complete_to_ms >= logs.now_ms - 2 * PACE.interval_ms


def test_the_scrub_goes_at_an_even_pace_and_not_all_at_once(dice):
    """A log that was there before: half of it after half of the time."""
    logs = TwoLogs(dice, held=2_000_000)
    logs.steps(PACE.scrub_ms // 2)
    scrubbed = logs.proof.replicas[0].scrub_at
    assert 0.45 <= scrubbed / logs.end <= 0.6
    assert logs.proof.complete_to_ms == -1
    assert logs.proof.unproven_offsets == logs.end - scrubbed - logs.end % BLOCK_OFFSETS
    totals = TopicProofTotals(logs.proof.topic)
    totals.add(logs.proof)
    [topic] = proof_status(
        [totals], now_ms=logs.now_ms, compared_blocks=0, read_bytes=0, bytes_per_s=0,
        not_compared={}, unavailable="",
    ).topics  # fmt: skip
    assert topic.unproven_blocks + topic.blocks == 2_000
    assert topic.oldest_s == (PACE.scrub_ms // 2 - STEP_MS) / 1000


def test_a_source_that_is_silent_ends_the_recent_pass_and_lets_the_scrub_wait(dice):
    """No task comes again at once; all comes again later."""
    logs = TwoLogs(dice, held=500_000)
    logs.step(100)
    logs.now_ms += PACE.interval_ms
    logs.proof.update(HeldBounds(0, logs.end, logs.brokers, -1, *logs.froms), PACE, logs.now_ms)
    kinds = set()
    for _ in range(10):
        task = logs.proof.next_task(PACE, logs.now_ms)
        if task is None:
            break
        kinds.add(task.kind)
        logs.proof.on_source(task, "no answer", logs.now_ms)
    assert task is None
    assert kinds <= {ProofKind.RECENT, ProofKind.SCRUB}
    assert logs.proof.source_failure == "no answer"
    logs.steps(PACE.scrub_ms)
    assert logs.proof.source_failure == ""


def test_memory_is_bounded_whatever_differs(dice):
    """Ranges that follow upon each other are one; many are cut off; marks are few."""
    logs = TwoLogs(dice)
    logs.steps(30_000, 900)
    task = ProofTask(logs.proof.key, ProofKind.SCRUB, (1,), 0, 100_000)
    alike = [DifferingRange(1, at, at + 10, 5, "x", "") for at in range(0, 1_000, 10)]
    logs.proof.on_compared(task, 1, 100_000, alike, PACE, logs.now_ms)
    assert [(one.first_offset, one.end_offset) for one in logs.proof.differences] == [(0, 1_000)]
    apart = [DifferingRange(1, at, at + 1, 5, "x", "") for at in range(0, 1_000, 10)]
    logs.proof.on_compared(task, 1, 100_000, apart, PACE, logs.now_ms)
    assert len(logs.proof.differences) == 20
    assert len(logs.proof.marks) <= MARKS + 1
    logs.start = logs.end
    logs.step()
    assert not logs.proof.differences
