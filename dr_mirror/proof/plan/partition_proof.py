"""What is proven of one partition, replica by replica, and which of its blocks are compared next.
Pure.

In: the offsets that both sides hold, results of comparisons, the time in milliseconds. Out: the
next `ProofTask`. Never: an I/O, a clock; an offset called proven that was compared on fewer
replicas than the target has.

Two passes go over each replica's log. The *recent* pass begins every `interval_ms` and reads again
what is younger than `recent_ms` by the records' own times, whenever the mirror began; of what the
target got within that time the newest too, since a clock may be wrong; and what differs, so that a
repair is seen soon. The *scrub* goes over all that is older, so that each block's turn comes once
in `scrub_ms`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

import msgspec

from bus.client.model import TopicPartition
from dr_mirror.policy.proof_pace import ProofPace

BLOCK_OFFSETS = 1_000
"""Mostly a megabyte or less, so that a broker's answer holds whole blocks; a difference is then
found batch by batch."""
TASK_BLOCKS = 64
"""Blocks compared in one task, after which another partition may have its turn."""
MARKS = 12
"""In how many steps the bound of what was got of late moves on: five minutes of an hour."""
MAX_DIFFERENCES = 20
"""Ranges kept of one partition, the first ones; more have one cause."""
MAX_AGAIN = 64
"""Blocks of one replica that differ and are read again in every interval."""
FIRST_RETRY_MS, LONGEST_RETRY_MS = 1_000, 60_000
"""After a replica did not answer."""


class ProofKind(Enum):
    """Which pass a task belongs to."""

    RECENT = "recent"
    SCRUB = "scrub"
    AGAIN = "again"
    """What differed when it was read last."""


@dataclass(frozen=True, slots=True)
class HeldBounds:
    """What both sides hold of a partition: [start, end). `brokers` have its replicas at the target;
    `caught_up_ms`: the newest time of which the target has all that the source had then, -1:
    none. From `young_from` on records are young by their own times; what was got of late counts
    as recent from `newest_from` on."""

    start: int
    end: int
    brokers: tuple[int, ...]
    caught_up_ms: int
    young_from: int
    newest_from: int


@dataclass(frozen=True, slots=True)
class ProofTask:
    """Compare [first, end) of a partition on these replicas with the source."""

    partition: TopicPartition
    kind: ProofKind
    brokers: tuple[int, ...]
    first: int
    end: int


class DifferingRange(msgspec.Struct, frozen=True):
    """Offsets at which a replica does not hold what the source has. `found_ms`: since when it is
    known; `directory` is the log directory at the target, empty where it could not be asked."""

    broker: int
    first_offset: int
    end_offset: int
    found_ms: int
    detail: str
    directory: str = ""


class TimeMark(msgspec.Struct, frozen=True):
    """The end that both sides had at a time."""

    at_ms: int
    end: int


class ReplicaProof(msgspec.Struct, kw_only=True):
    """One replica at the target. Invariant: everything of [`old_end`, `proven_to`) has been
    compared at least once, and everything below `old_end` once a scrub is complete."""

    broker: int
    first_seen_ms: int
    old_end: int
    proven_to: int
    recent_at: int = -1
    """Where the recent pass is; -1: none is under way."""
    recent_begun_ms: int = -1
    recent_end: int = -1
    """Where the pass under way ends, at which the target had all of the source at
    `recent_of_ms`."""
    recent_of_ms: int = -1
    complete_to_ms: int = -1
    """The newest time of which the replica holds all that the source had then, were all older
    proven."""
    scrub_at: int = 0
    scrub_begun_ms: int = -1
    scrubbed_ms: int = -1
    """When the last complete scrub began; -1: none is complete."""
    again: list[int] = []
    """Blocks that differ and are read again in this interval."""
    failure: str = ""
    failures: int = 0
    retry_ms: int = 0

    def gap(self, start: int) -> int:
        """Old offsets that no scrub has reached yet."""
        return 0 if self.scrubbed_ms >= 0 else max(self.old_end - max(self.scrub_at, start), 0)


class PartitionProof(msgspec.Struct, kw_only=True):
    """One partition. Invariants: `recent_from` never goes back, the scrub has what is below; what
    is below `got_from` was at the target `recent_ms` ago, or when it was first looked at."""

    topic: str
    partition: int
    topic_id: str
    start: int = 0
    end: int = 0
    caught_up_ms: int = -1
    recent_from: int = 0
    got_from: int = 0
    marks: list[TimeMark] = []
    replicas: list[ReplicaProof] = []
    differences: list[DifferingRange] = []
    source_failure: str = ""
    source_failures: int = 0
    scrub_retry_ms: int = 0

    @property
    def key(self) -> TopicPartition:
        """As everybody names it."""
        return TopicPartition(self.topic, self.partition)

    def update(self, bounds: HeldBounds, pace: ProofPace, now_ms: int) -> None:
        """What both sides hold now. A replica that is new here begins unproven."""
        self.start, self.end = bounds.start, max(bounds.start, bounds.end)
        self.caught_up_ms = bounds.caught_up_ms
        self._note_got(pace, now_ms)
        begin = min(bounds.young_from, max(self.got_from, bounds.newest_from), self.end)
        self.recent_from = max(self.recent_from, _block_begin(begin))
        known = {one.broker: one for one in self.replicas}
        self.replicas = [
            known.get(broker) or self._new_replica(broker, now_ms) for broker in bounds.brokers
        ]
        self.differences = [
            one
            for one in self.differences
            if one.end_offset > self.start and one.broker in bounds.brokers
        ]

    def _note_got(self, pace: ProofPace, now_ms: int) -> None:
        """What the target has got by now, and which of it no longer of late."""
        if not self.replicas and not self.marks:
            self.got_from = self.end
        if not self.marks or now_ms - self.marks[-1].at_ms >= pace.recent_ms // MARKS:
            self.marks = [*self.marks, TimeMark(now_ms, self.end)]
        while self.marks and self.marks[0].at_ms <= now_ms - pace.recent_ms:
            self.got_from = max(self.got_from, self.marks[0].end)
            self.marks = self.marks[1:]

    def next_task(self, pace: ProofPace, now_ms: int) -> ProofTask | None:
        """What is due: what is recent first, then what differed, then the scrub; replicas that
        stand at the same offset together."""
        answering = [one for one in self.replicas if now_ms >= one.retry_ms]
        for replica in answering:
            self._begin_passes(replica, pace, now_ms)
        recent = [one for one in answering if one.recent_at >= 0]
        if recent:
            first = min(one.recent_at for one in recent)
            end = min(_task_end(first), max(one.recent_end for one in recent))
            together = tuple(one.broker for one in recent if one.recent_at == first)
            return ProofTask(self.key, ProofKind.RECENT, together, first, end)
        for replica in answering:
            if replica.again:
                first = max(replica.again[0] * BLOCK_OFFSETS, self.start)
                end = min(_block_begin(first) + BLOCK_OFFSETS, self.end)
                return ProofTask(self.key, ProofKind.AGAIN, (replica.broker,), first, end)
        due = [one for one in answering if self._is_scrub_due(one, pace, now_ms)]
        if not due or now_ms < self.scrub_retry_ms:
            return None
        first = min(one.scrub_at for one in due)
        together = tuple(one.broker for one in due if one.scrub_at == first)
        end = min(_task_end(first), self.recent_from)
        return ProofTask(self.key, ProofKind.SCRUB, together, first, end)

    def on_compared(
        self, task: ProofTask, broker: int, reached: int, found: Sequence[DifferingRange],
        pace: ProofPace, now_ms: int,
    ) -> None:  # fmt: skip
        """[task.first, reached) of a replica was compared, and this is all that differs in it. A
        replica that has no more yet is read on in the next interval."""
        replica = self._replica(broker)
        if replica is None:
            return
        self._note_differences(task, broker, reached, found)
        replica.failure, replica.failures, replica.retry_ms = "", 0, 0
        if task.kind is ProofKind.RECENT:
            if reached > replica.proven_to >= task.first:
                replica.proven_to = reached
            is_stuck = reached < task.end
            replica.recent_at = -1 if is_stuck or reached >= replica.recent_end else reached
            if reached >= replica.recent_end:
                replica.complete_to_ms = max(replica.complete_to_ms, replica.recent_of_ms)
        elif task.kind is ProofKind.AGAIN:
            replica.again = replica.again[1:]
        elif reached > task.first:
            replica.scrub_at = reached
        else:  # it does not even hold what is old: not all is in sync
            self.on_failed(broker, "it does not hold these offsets yet", now_ms)
        self._end_scrub(replica, pace, now_ms)

    def on_failed(self, broker: int, why: str, now_ms: int) -> None:
        """A replica did not answer; it goes on where it stands, after a while."""
        replica = self._replica(broker)
        if replica is not None:
            replica.failure, replica.failures = why, replica.failures + 1
            replica.retry_ms = now_ms + _retry_ms(replica.failures)

    def on_source(self, task: ProofTask, why: str, now_ms: int) -> None:
        """Whether the source answered (empty: it did) all that a task asked of it. Where it did
        not, the recent pass is over and the scrub waits for a while."""
        if not why:
            self.source_failure, self.source_failures, self.scrub_retry_ms = "", 0, 0
            return
        self.source_failure, self.source_failures = why, self.source_failures + 1
        if task.kind is ProofKind.SCRUB:
            self.scrub_retry_ms = now_ms + _retry_ms(self.source_failures)
        for broker in task.brokers:
            replica = self._replica(broker)
            if replica is not None and task.kind is ProofKind.RECENT:
                replica.recent_at = -1
            elif replica is not None and task.kind is ProofKind.AGAIN:
                replica.again = replica.again[1:]

    # -- what is proven ---------------------------------------------------------------------

    @property
    def unproven_offsets(self) -> int:
        """Offsets that at least one replica was never compared at."""
        return max(
            (max(self.end - max(one.proven_to, self.start), 0) + one.gap(self.start)
             for one in self.replicas),
            default=self.end - self.start,
        )  # fmt: skip

    @property
    def complete_to_ms(self) -> int:
        """The newest time of which every replica holds, proven, all that the source had then; -1:
        not known, as long as old blocks are unproven or something differs."""
        if self.differences or any(one.gap(self.start) for one in self.replicas):
            return -1
        return min((one.complete_to_ms for one in self.replicas), default=-1)

    def oldest_proof_ms(self) -> int:
        """When the block that waits longest was proven last; where it never was, when it was first
        seen. -1: there is nothing to prove."""
        return min((self._oldest_of(one) for one in self.replicas), default=-1)

    def _oldest_of(self, replica: ReplicaProof) -> int:
        if replica.gap(self.start):
            return replica.first_seen_ms
        recent_ms = (
            replica.recent_begun_ms if replica.recent_begun_ms >= 0 else replica.first_seen_ms
        )
        old = self.recent_from - self.start
        if old <= 0 or replica.scrubbed_ms < 0:
            return recent_ms
        share = min(max(replica.scrub_at - self.start, 0) / old, 1.0)
        passed_ms = replica.scrub_begun_ms - replica.scrubbed_ms
        return min(recent_ms, round(replica.scrubbed_ms + share * passed_ms))

    # -- passes -------------------------------------------------------------------------------

    def _new_replica(self, broker: int, now_ms: int) -> ReplicaProof:
        old_end = max(_block_begin(self.recent_from), self.start)
        return ReplicaProof(
            broker=broker, first_seen_ms=now_ms, old_end=old_end, proven_to=old_end,
            scrub_at=self.start, scrub_begun_ms=now_ms,
        )  # fmt: skip

    def _begin_passes(self, replica: ReplicaProof, pace: ProofPace, now_ms: int) -> None:
        replica.scrub_at = max(replica.scrub_at, self.start)
        replica.proven_to = max(replica.proven_to, self.start)
        if replica.recent_at >= 0:
            replica.recent_at = max(replica.recent_at, self.start)
            if replica.recent_at >= replica.recent_end:  # what was left of the pass is deleted
                replica.recent_at = -1
                replica.complete_to_ms = max(replica.complete_to_ms, replica.recent_of_ms)
        replica.again = [one for one in replica.again if self._is_held(one)]
        self._end_scrub(replica, pace, now_ms)
        is_due = now_ms - replica.recent_begun_ms >= pace.interval_ms
        if replica.recent_begun_ms >= 0 and (replica.recent_at >= 0 or not is_due):
            return
        first = max(min(self.recent_from, _block_begin(replica.proven_to)), self.start)
        replica.recent_begun_ms, replica.recent_end = now_ms, self.end
        replica.recent_of_ms = self.caught_up_ms
        replica.recent_at = first if first < self.end else -1
        if first >= self.end:
            replica.complete_to_ms = max(replica.complete_to_ms, replica.recent_of_ms)
        replica.again = sorted(self._differing_blocks(replica.broker, first))[:MAX_AGAIN]

    def _differing_blocks(self, broker: int, below: int) -> set[int]:
        """Those of a replica that lie below what is recent."""
        found: set[int] = set()
        for one in self.differences:
            if one.broker == broker:
                end = min(one.end_offset, below)
                found.update(range(one.first_offset // BLOCK_OFFSETS, -(-end // BLOCK_OFFSETS)))
        return found

    def _is_held(self, block: int) -> bool:
        """Whether both sides still hold something of it."""
        first = max(block * BLOCK_OFFSETS, self.start)
        return first < min((block + 1) * BLOCK_OFFSETS, self.end)

    def _is_scrub_due(self, replica: ReplicaProof, pace: ProofPace, now_ms: int) -> bool:
        """Whether its next block's turn has come: position by the share of the time."""
        old = self.recent_from - self.start
        if replica.scrub_at >= self.recent_from or now_ms < replica.scrub_begun_ms:
            return False
        passed = (now_ms - replica.scrub_begun_ms) / pace.scrub_ms
        return passed >= (replica.scrub_at - self.start) / old

    def _end_scrub(self, replica: ReplicaProof, pace: ProofPace, now_ms: int) -> None:
        """A scrub that has come to what is recent is complete; the next one begins in its turn."""
        if replica.scrub_at < self.recent_from or now_ms < replica.scrub_begun_ms:
            return
        replica.scrubbed_ms = replica.scrub_begun_ms
        replica.scrub_begun_ms = max(replica.scrub_begun_ms + pace.scrub_ms, now_ms)
        replica.scrub_at = self.start

    def _note_differences(
        self, task: ProofTask, broker: int, reached: int, found: Sequence[DifferingRange]
    ) -> None:
        before = [one for one in self.differences if one.broker == broker]
        others = [one for one in self.differences if one.broker != broker]
        kept = [part for one in before for part in _outside(one, task.first, reached)]
        new = [_since_before(one, before) for one in found]
        self.differences = _joined([*others, *kept, *new])[:MAX_DIFFERENCES]

    def _replica(self, broker: int) -> ReplicaProof | None:
        return next((one for one in self.replicas if one.broker == broker), None)


def _place(one: DifferingRange) -> tuple[int, int]:
    return one.broker, one.first_offset


def _outside(one: DifferingRange, first: int, end: int) -> list[DifferingRange]:
    """What of a range lies outside [first, end)."""
    parts = ((one.first_offset, min(one.end_offset, first)),
             (max(one.first_offset, end), one.end_offset))  # fmt: skip
    return [
        msgspec.structs.replace(one, first_offset=begin, end_offset=stop)
        for begin, stop in parts
        if begin < stop
    ]


def _since_before(new: DifferingRange, before: Sequence[DifferingRange]) -> DifferingRange:
    """What was known to differ keeps its time."""
    times = [
        one.found_ms
        for one in before
        if one.first_offset < new.end_offset and new.first_offset < one.end_offset
    ]
    return msgspec.structs.replace(new, found_ms=min([new.found_ms, *times]))


def _joined(ranges: Iterable[DifferingRange]) -> list[DifferingRange]:
    """Ranges of a replica that follow upon each other as one."""
    joined: list[DifferingRange] = []
    for one in sorted(ranges, key=_place):
        last = joined[-1] if joined else None
        is_next = last is not None and last.broker == one.broker and (
            last.end_offset == one.first_offset and last.detail == one.detail
            and last.directory == one.directory
        )  # fmt: skip
        if is_next and last is not None:
            found_ms = min(last.found_ms, one.found_ms)
            joined[-1] = msgspec.structs.replace(last, end_offset=one.end_offset, found_ms=found_ms)
        else:
            joined.append(one)
    return joined


def _block_begin(offset: int) -> int:
    return offset // BLOCK_OFFSETS * BLOCK_OFFSETS


def _task_end(first: int) -> int:
    return _block_begin(first) + TASK_BLOCKS * BLOCK_OFFSETS


def _retry_ms(failures: int) -> int:
    return int(min(FIRST_RETRY_MS * 2 ** min(failures - 1, 10), LONGEST_RETRY_MS))
