"""What a log knows of its leader epochs when retention deleted batches and the process was killed.

A follower says its newest epoch to the leader, which answers where that ended (KIP-595): with an
outdated one the follower would cut off acknowledged records and use their offsets again.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace

from hypothesis import example, given
from hypothesis import strategies as st

from broker.config.views import TopicConfig
from broker.disk.real import RealDisk
from broker.log.epochs import UNDEFINED_EPOCH
from broker.log.log import Log
from broker.log.retention import delete_old_segments
from bus.records.build import build_batch
from bus.records.record import Record

NOW_MS = 1_760_000_000_000
DAY_MS = 86_400_000
MakeLog = Callable[..., Log]
Batch = Callable[..., bytearray]
EXPIRED = {"retention_ms": 1}


def test_an_emptied_log_does_not_name_the_epoch_before_the_last_one(
    make_log: MakeLog, batch: Batch
) -> None:
    """Found by the simulation (seed 71220): epoch 4 was written and deleted between two flushes, so
    that the file knew only epoch 3, by which the leader made the follower go back to 3."""
    log = make_log(**EXPIRED)
    log.append(batch(3, timestamp_ms=NOW_MS - DAY_MS), leader_epoch=3, now_ms=NOW_MS)
    log.flush()
    log.append(batch(4, timestamp_ms=NOW_MS - DAY_MS), leader_epoch=4, now_ms=NOW_MS)
    log.advance_high_watermark(7)
    delete_old_segments(log, RealDisk(), NOW_MS)
    log.release()
    again = make_log(recovery_point=3, **EXPIRED)
    assert (again.log_start_offset, again.end_offset) == (7, 7)
    assert again.latest_epoch == UNDEFINED_EPOCH


def test_a_log_that_begins_with_a_later_epoch_does_not_say_that_an_older_one_ended_there(
    make_log: MakeLog, batch: Batch
) -> None:
    """As before, but epoch 5 has a record. As a leader this log would tell a follower in sync, which
    has all of epoch 4, that its last common epoch is 3."""
    log = make_log(**EXPIRED)
    log.append(batch(3, timestamp_ms=NOW_MS - DAY_MS), leader_epoch=3, now_ms=NOW_MS)
    log.flush()
    log.append(batch(4, timestamp_ms=NOW_MS - DAY_MS), leader_epoch=4, now_ms=NOW_MS)
    log.roll(NOW_MS)
    log.append(batch(1, timestamp_ms=NOW_MS), leader_epoch=5, now_ms=NOW_MS)
    log.advance_high_watermark(8)
    delete_old_segments(log, RealDisk(), NOW_MS)
    log.release()
    again = make_log(recovery_point=3, **EXPIRED)
    assert (again.log_start_offset, again.leader_epochs.entries) == (7, [(5, 7)])
    assert again.end_offset_for_epoch(4) == (4, 7)


def test_an_emptied_log_keeps_the_epoch_that_its_file_knows(
    make_log: MakeLog, batch: Batch, fast_dir: str
) -> None:
    """Also where only an old snapshot of the producers is left, from where on the epochs would be
    read from the batches again."""
    log = make_log(**EXPIRED)
    log.append(batch(3, timestamp_ms=NOW_MS - DAY_MS), leader_epoch=3, now_ms=NOW_MS)
    log.take_snapshot()
    log.append(batch(4, timestamp_ms=NOW_MS - DAY_MS), leader_epoch=4, now_ms=NOW_MS)
    log.flush()
    log.advance_high_watermark(7)
    log.roll(NOW_MS)
    log.snapshots.drop(7)
    log.segments.remove_first(1)
    log.release()
    RealDisk().remove(f"{fast_dir}/t-0/{0:020d}.log")
    assert make_log(recovery_point=7, **EXPIRED).latest_epoch == 4


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(0, 2)),
        st.tuples(st.just("delete"), st.integers(0, 5)),
        st.tuples(st.just("flush"), st.booleans()),
        st.tuples(st.just("roll"), st.just(0)),
        st.tuples(st.just("snapshot"), st.just(0)),
        st.tuples(st.just("kill"), st.just(0)),
    ),
    max_size=30,
)


class WrittenLog:
    """A log and the epoch of every record it ever had. `checkpoint`: the stored recovery point."""

    def __init__(self, directory: str) -> None:
        self.directory, self.written, self.checkpoint = directory, [], 0
        self.log = self.open()

    def open(self) -> Log:
        return Log(
            f"{self.directory}/t-0", disk=RealDisk(), config=replace(TopicConfig(), **EXPIRED),
            now_ms=NOW_MS, recovery_point=self.checkpoint,
        )  # fmt: skip

    def take(self, step: str, value: int) -> None:
        log = self.log
        if step == "append":
            epoch = (self.written[-1] if self.written else 0) + value
            data = build_batch([Record(b"k", b"v", timestamp_ms=NOW_MS)])
            log.append(data, leader_epoch=epoch, now_ms=NOW_MS)
            self.written.append(epoch)
            log.advance_high_watermark(log.end_offset)
        elif step == "delete":
            log.delete_records_before(max(log.log_start_offset, log.end_offset - value))
            # All are expired a day later: the segment that is written to goes, too.
            delete_old_segments(log, RealDisk(), NOW_MS + (DAY_MS if not value else 0))
        elif step == "flush":
            log.flush()
            self.checkpoint = log.recovery_point if value else self.checkpoint
        elif step == "roll":
            log.roll(NOW_MS)
        elif step == "snapshot":
            log.take_snapshot()
        else:
            log.release()
            self.log = self.open()
            self.log.advance_high_watermark(self.log.end_offset)

    def check(self) -> None:
        log = self.log
        assert log.end_offset == len(self.written)
        if log.latest_epoch != UNDEFINED_EPOCH:
            assert log.latest_epoch == self.written[-1]
            for epoch in set(self.written):
                # A follower that has all of an epoch is not told that it ended earlier.
                end = len(self.written) - self.written[::-1].index(epoch)
                if end >= log.log_start_offset:
                    assert log.end_offset_for_epoch(epoch) == (epoch, end)
        for offset in range(log.segments.first.base_offset, log.end_offset):
            known = log.leader_epochs.epoch_for_offset(offset)
            assert known == self.written[offset] or offset < log.log_start_offset


APPEND, ROLL = ("append", 0), ("roll", 0)


@given(STEPS)
@example([APPEND, APPEND, ROLL, ("delete", 1), ("flush", True)])
@example([APPEND, ("append", 1), ("snapshot", 0), APPEND, ("delete", 1), ("flush", True)])
def test_after_a_kill_the_newest_epoch_is_that_of_the_last_record_or_unknown(
    steps: list[tuple[str, int]],
) -> None:
    """Whatever was flushed and deleted before."""
    directory = tempfile.mkdtemp(prefix="databus-epochs-")
    try:
        written = WrittenLog(directory)
        for step, value in [*steps, ("kill", 0)]:
            written.take(step, value)
            written.check()
        written.log.release()
    finally:
        shutil.rmtree(directory)
