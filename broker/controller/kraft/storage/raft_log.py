"""`__cluster_metadata-0` on a disk: a log with Kafka's files, and the snapshots beside it.

In: batches, offsets, snapshots. Out: what is stored, as bytes or as decoded batches. Never:
leadership, commits, or the meaning of a record. Appending does not flush; a flush takes three steps
so that the event loop never waits for the device: `begin_flush`, then `force` on the worker
`METADATA_WORKER`, then `mark_flushed`. Other methods that wait for the device say so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from broker.clock.port import Clock
from broker.config.views import BrokerConfig, TopicConfig
from broker.controller.kraft.raft.messages import OffsetAndEpoch
from broker.controller.kraft.raft.voters import VoterSet
from broker.controller.kraft.storage.flushed_end import FlushedEnd
from broker.controller.kraft.storage.integrity import check_integrity
from broker.controller.kraft.storage.records import (
    StoredBatch,
    control_record,
    decode_batches,
    voters_in,
)
from broker.controller.kraft.storage.snapshots import MetadataSnapshots
from broker.controller.kraft.storage.unflushed_batches import put_aside
from broker.disk.port import Disk
from broker.log.checkpoint import write_epochs
from broker.log.epochs import FILE_NAME as EPOCHS_FILE
from broker.log.flush_state import PendingFlush, run_flush
from broker.log.log import Log
from broker.log.retention import delete_old_segments
from broker.log.validation import AppendOrigin
from bus.errors import check
from bus.protocol.record_framing import encode_metadata_record
from bus.records.batch import header_at
from bus.records.build import build_batch
from bus.records.control import ControlType
from bus.records.record import Record

TOPIC = "__cluster_metadata"
DIRECTORY = f"{TOPIC}-0"
READ_BYTES = 1024 * 1024
ZERO = OffsetAndEpoch(0, 0)


class RaftLog:
    """The log as the Raft core sees it (`quorum_state.LogView`) and as the shell changes it.

    Invariant: `start` is ZERO or the id of a snapshot on disk, so nothing before it is needed.
    """

    def __init__(
        self,
        root: str,
        *,
        disk: Disk,
        clock: Clock,
        config: BrokerConfig,
        is_only_voter: bool = False,
    ) -> None:
        self._disk = disk
        self._clock = clock
        self.directory = f"{root}/{DIRECTORY}"
        disk.mkdirs(self.directory)
        self.snapshots = MetadataSnapshots(disk, self.directory)
        latest = self.snapshots.latest
        if latest is not None:
            self.snapshots.check(latest)
        self._flushed_end = FlushedEnd(disk, self.directory)
        unflushed = check_integrity(
            disk,
            self.directory,
            latest,
            flushed_end=self._flushed_end.offset,
            is_only_voter=is_only_voter,
        )
        if unflushed is not None:
            put_aside(disk, self.directory, unflushed)
        settings = {
            "cleanup.policy": "delete",
            "retention.ms": "-1",
            "retention.bytes": "-1",
            "segment.bytes": str(config["metadata.log.segment.bytes"]),
            "segment.ms": str(config["metadata.log.segment.ms"]),
        }
        self._log = Log(
            self.directory,
            disk=disk,
            config=TopicConfig.of(config, settings),
            now_ms=clock.now_ms(),
        )
        self.start = self._find_start()
        if self._log.end_offset > self._log.recovery_point:
            self._log.flush()  # bytes from before a restart may be in the page cache only
        self._flushed_end.store(self._log.end_offset)

    def _find_start(self) -> OffsetAndEpoch:
        """Where the log begins: after the snapshot that covers everything before it."""
        latest, base = self.snapshots.latest, self._log.log_start_offset
        if latest is not None and latest.offset > self._log.end_offset:
            # A snapshot was fetched and the process died before the log was restarted after it.
            self._flushed_end.lower(latest.offset)
            self._log.truncate_fully_and_start_at(latest.offset, self._clock.now_ms())
            return latest
        if base == 0:
            return ZERO
        # Only whole segments are deleted: the first one may begin before the snapshot.
        covering = [one for one in self.snapshots.ids if base <= one.offset <= self._log.end_offset]
        check(covering, "a log that begins later has a snapshot of what was before")
        self._log.advance_log_start_offset(covering[0].offset)
        return covering[0]

    # -- reading ----------------------------------------------------------------------------

    @property
    def end(self) -> OffsetAndEpoch:
        """The end offset and the epoch of the last record."""
        epoch = self._log.latest_epoch
        return OffsetAndEpoch(self._log.end_offset, epoch if epoch >= 0 else self.start.epoch)

    @property
    def flushed_offset(self) -> int:
        """Everything below it survives a power loss."""
        return self._log.recovery_point

    @property
    def latest_snapshot(self) -> OffsetAndEpoch | None:
        """The newest snapshot."""
        return self.snapshots.latest

    @property
    def size_bytes(self) -> int:
        """The size of the log on disk."""
        return self._log.size_bytes

    def end_of_epoch(self, epoch: int) -> OffsetAndEpoch:
        """The largest epoch not above `epoch`, and its end offset."""
        if epoch >= self.end.epoch:
            return self.end
        entries = self._log.leader_epochs.entries
        if epoch < self.start.epoch or epoch < entries[0][0]:
            return self.start  # what is not known any more is older than the snapshot
        found = self._log.end_offset_for_epoch(epoch)
        return OffsetAndEpoch(max(found.end_offset, 0), max(found.epoch, 0))

    def read(self, offset: int, max_bytes: int, upper_offset: int | None = None) -> bytes:
        """Whole batches from `offset` on, at least one if there is one."""
        return bytes(self._log.read(offset, max_bytes, upper_offset=upper_offset).data)

    def batches(self, offset: int, upper_offset: int) -> Iterator[StoredBatch]:
        """The stored batches in [offset, upper_offset), decoded."""
        while offset < upper_offset:
            data = self.read(offset, READ_BYTES, upper_offset)
            check(len(data), "a log below its end has data")
            yield from decode_batches(data)
            offset = _end_offset(data)

    def read_with_end(self, offset: int) -> tuple[bytes, int]:
        """Whole batches from `offset` on, and the offset after them."""
        data = self.read(offset, READ_BYTES)
        check(len(data), "a log below its end has data")
        return data, _end_offset(data)

    def voters_in(self, data: bytes | memoryview) -> Iterator[tuple[int, VoterSet]]:
        """(offset, voters) of the VotersRecords in `data`."""
        return voters_in(data)

    # -- writing ----------------------------------------------------------------------------

    def append(self, records: Sequence[tuple[object, int]], epoch: int) -> int:
        """Stores metadata records, each with its version, as one batch. Returns the last one's
        offset."""
        now_ms = self._clock.now_ms()
        return self._append(
            build_batch(
                [
                    Record(None, encode_metadata_record(record, version), timestamp_ms=now_ms)
                    for record, version in records
                ]
            ),
            epoch,
        )

    def append_control(self, kind: ControlType, value: bytes, epoch: int) -> int:
        """Stores a control record. Returns its offset."""
        return self.append_controls([(kind, value)], epoch)

    def append_controls(self, rows: Sequence[tuple[ControlType, bytes]], epoch: int) -> int:
        """Stores several control records in one batch. Returns the last one's offset."""
        now_ms = self._clock.now_ms()
        records = [control_record(kind, value, now_ms) for kind, value in rows]
        return self._append(build_batch(records, is_control=True), epoch)

    def _append(self, batch: bytearray, epoch: int) -> int:
        now_ms = self._clock.now_ms()
        info = self._log.append(
            batch, leader_epoch=epoch, now_ms=now_ms, origin=AppendOrigin.RAFT_LEADER
        )
        return info.last_offset

    def append_fetched(self, records: bytes | memoryview) -> int:
        """Stores whole batches as the leader has them. Returns the log's end offset."""
        self._log.append_as_follower(records, self._clock.now_ms())
        return self._log.end_offset

    def begin_flush(self) -> PendingFlush | None:
        """What is to be flushed now; None if nothing is."""
        if self._log.recovery_point >= self._log.end_offset:
            return None
        return self._log.begin_flush()

    def force(self, flush: PendingFlush) -> None:
        """Runs on the worker: waits for the device. The epochs are written last, because what they
        say must be stored first (`integrity`), and then where the flushed part ends."""
        run_flush(self._disk, self.directory, flush)
        self._flushed_end.write(flush.offset, self._clock.now_ms())

    def mark_flushed(self, flush: PendingFlush) -> None:
        """Everything that was in the log when the flush began is on the device."""
        self._log.mark_flushed(flush, self._clock.now_ms())

    def truncate_to(self, offset: int) -> int:
        """Drops everything at or after `offset`; returns the log's end offset. Runs on the
        worker."""
        self._flushed_end.lower(offset)
        self._drop_clean_shutdowns_after(offset)
        self._drop_epochs_from(offset)
        self._log.truncate_to(offset, self._clock.now_ms())
        self._log.flush()
        self._flushed_end.write(self._log.end_offset, self._clock.now_ms())
        return self._log.end_offset

    def restart_after(self, snapshot: OffsetAndEpoch) -> None:
        """Drops everything; the log continues after a snapshot that is on disk. Runs on the
        worker."""
        check(self.snapshots.has(snapshot), "a log begins behind a snapshot that is there")
        self._flushed_end.lower(snapshot.offset)
        self._drop_clean_shutdowns_after(-1)
        self._log.truncate_fully_and_start_at(snapshot.offset, self._clock.now_ms())
        self.start = snapshot
        self._log.advance_high_watermark(snapshot.offset)

    def _drop_epochs_from(self, offset: int) -> None:
        """As with clean shutdowns: after a crash between the two, the log would seem to lack the
        start of an epoch."""
        entries = self._log.leader_epochs.entries
        remaining = [(epoch, start) for epoch, start in entries if start < offset]
        if remaining != entries:
            write_epochs(self._disk, f"{self.directory}/{EPOCHS_FILE}", remaining)

    def _drop_clean_shutdowns_after(self, offset: int) -> None:
        """Durably before the log itself is truncated: otherwise it would seem to have lost data."""
        if any(stop > offset for stop in self._log.snapshots.offsets):
            self._log.snapshots.drop_after(offset)
            self._disk.flush_directory(self.directory)

    def advance_high_watermark(self, offset: int) -> None:
        """Everything below is committed."""
        self._log.advance_high_watermark(min(offset, self._log.end_offset))

    def begins_before(self, snapshot: OffsetAndEpoch) -> bool:
        """Whether it contains anything that the snapshot covers."""
        return snapshot.offset > self._log.log_start_offset

    def drop_before(self, snapshot: OffsetAndEpoch) -> list[str]:
        """Drops whole segments that the snapshot covers; returns the files that may be removed."""
        if not self.begins_before(snapshot):
            return []
        # A roll marks everything before it as flushed.
        check(self.flushed_offset == self.end.offset, "a log is flushed before it is cut in front")
        self._log.roll(self._clock.now_ms())
        self._log.advance_log_start_offset(snapshot.offset)
        self.start = snapshot
        return list(delete_old_segments(self._log, self._disk, self._clock.now_ms()))

    def close(self) -> None:
        """Flushes and closes the files. Runs on the worker, after all its other work."""
        self._log.close()
        self._flushed_end.store(self._log.recovery_point)

    def release(self) -> None:
        """Closes the files as they are: what could not be flushed is not flushed again."""
        self._log.release()


def _end_offset(data: bytes) -> int:
    end = offset = 0
    while offset < len(data):
        header = header_at(data, offset)
        end = header.last_offset + 1
        offset += header.size_bytes
    return end
