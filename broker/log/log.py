"""The log of one partition replica: segments, leader epochs and producer state.

In: batches as bytes, offsets, timestamps, the time as a value. Out: byte ranges of whole batches,
offsets, ``LogError``. Never: a clock, a task, a decision about leadership or visibility. The caller
sets the high watermark, which only bounds what may be deleted and what is stable.

Durability: what ``append`` has returned is in the system's page cache and survives the death of
the process; ``flush`` (or flush.messages, flush.ms) makes it survive the death of the machine.

A full disk: the append fails with KAFKA_STORAGE_ERROR, the partial batch is truncated at once (or,
if even that fails, before the next append), and appends succeed again when there is room. Apache
Kafka takes the whole log directory offline instead; on a single disk that would stop the bus.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Sequence

from broker.config.views import TopicConfig
from broker.disk.port import Disk, DiskError
from broker.log.active_segment import ActiveSegmentWriter
from broker.log.append_guard import AppendGuard
from broker.log.cleaning_state import CleaningState
from broker.log.epochs import FILE_NAME, EpochEnd, LeaderEpochs
from broker.log.errors import LogError, storage_error
from broker.log.files import FilePool, NonBlockingReads, parse_directory
from broker.log.flush_state import FlushState, PendingFlush
from broker.log.producer_replay import marker_of, markers_in, update_producers
from broker.log.producer_snapshots import ProducerSnapshots
from broker.log.producer_state import BatchMetadata, ProducerState
from broker.log.recovery import Recovery
from broker.log.replacement_files import finish_replacements
from broker.log.segment import Segment
from broker.log.segments import FetchSlice, PendingTruncation, Segments, force_truncation
from broker.log.txnindex import AbortedTransaction
from broker.log.validation import (
    AppendInfo,
    AppendOrigin,
    to_topic_codec,
    validate_batch,
    validate_batches,
    writable,
)
from bus.errors import ErrorCode
from bus.records.batch import (
    CONTROL,
    LENGTH_AND_OFFSET_BYTES,
    BatchHeader,
    Buffer,
    assign,
    header_at,
    stamp_log_append_time,
)

log = logging.getLogger("broker.log")


class Log:
    """One partition's log.

    Invariant: log_start_offset <= high_watermark <= end_offset; recovery_point <= end_offset.
    Invariant: the last segment is the only one that is written to.

    Whole, though long: what has a state of its own is a class beside it (segments, writer, flushes,
    producers, epochs, snapshots); what is left moves the same three offsets.
    """

    def __init__(
        self,
        directory: str,
        *,
        disk: Disk,
        config: TopicConfig,
        now_ms: int,
        clean: bool = False,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        files: FilePool | None = None,
    ) -> None:
        """Open the log in ``directory``, made if there is none, recovered unless ``clean``."""
        self.directory = directory
        self.topic, self.index = parse_directory(directory)
        self._name = f"{self.topic}-{self.index}"
        self.topic_id: bytes | None = None
        self.guard = AppendGuard(self.topic)
        self.cleaning = CleaningState()
        self.reconfigure(config)
        self._disk = disk
        self._files = FilePool(disk) if files is None else files  # an empty one is false
        disk.mkdirs(directory)
        names = finish_replacements(disk, directory, disk.listdir(directory))
        self._flush_state = FlushState(disk, directory, is_new=not names)
        self.leader_epochs = LeaderEpochs(disk, f"{directory}/{FILE_NAME}", FILE_NAME in names)
        self.snapshots = ProducerSnapshots(disk, directory, names)
        if self._load(now_ms, clean, recovery_point, log_start_offset, names):
            disk.flush_directory(directory)

    def _load(
        self,
        now_ms: int,
        clean: bool,
        recovery_point: int,
        log_start_offset: int,
        names: list[str] | None = None,
    ) -> bool:
        """``names``: what is in the directory, where that has just been read. True: all of it lay
        below the log's start and was removed, which the caller must make durable."""
        recovery = Recovery(
            self.directory, self._disk, self._files, self.config, self.leader_epochs,
            self.snapshots, now_ms,
        )  # fmt: skip
        found = recovery.run(
            self._disk.listdir(self.directory) if names is None else names,
            clean=clean,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
        )
        self._segments = Segments(found.segments)
        self.producers: ProducerState = found.producers
        self._writer = ActiveSegmentWriter(
            self._segments, self.producers, self.snapshots, self._flush_state, self._disk,
            self._files,
        )  # fmt: skip
        self.end_offset = found.end_offset
        self.truncated_bytes = found.truncated_bytes
        first = self._segments.first.base_offset
        self.log_start_offset = max(first, min(log_start_offset, self.end_offset))
        self.high_watermark = self.log_start_offset
        self._flush_state.on_open(min(recovery_point, self.end_offset), now_ms, found.unforced)
        if self.end_offset < log_start_offset:
            self._drop_all(log_start_offset, now_ms)
            return True
        return False

    def reconfigure(self, config: TopicConfig) -> None:
        """Apply new settings."""
        self.config = config
        # A share of segment.jitter.ms that differs from log to log but not from run to run.
        spread = zlib.crc32(f"{self.topic}-{self.index}".encode())
        self._jitter_ms = spread % (config.segment_jitter_ms + 1)
        self.guard.reconfigure(config)
        self.cleaning.reconfigure(config)

    # --- appending -------------------------------------------------------------------------------

    def append(
        self,
        records: bytearray | memoryview | bytes,
        *,
        leader_epoch: int,
        now_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
    ) -> AppendInfo:
        """Append one batch as leader: check it, give it offsets and epoch, write it.

        ``records`` is written to in place (base offset, leader epoch), so a read-only buffer is
        copied first. Raises LogError; then nothing has changed. With flush.messages the batch may
        not be acknowledged yet: see ``acknowledgeable_end_offset`` and ``needs_flush``.
        """
        if self.guard.is_closed:
            self.guard.refuse()
        # Everything that may refuse the batch comes before the first write.
        header = validate_batch(records, self.config, now_ms, origin, self._name)
        marker = None
        if header.producer_id >= 0:
            # A producer that got no answer sends again: the batch must not stand here twice.
            marker, sent = self._check_producer(header, records, origin)
            if sent is not None:
                epoch = self.leader_epochs.epoch_for_offset(sent.base_offset)
                return AppendInfo.of_duplicate(sent, self.log_start_offset, epoch)
        if self.config.codec >= 0 and origin is AppendOrigin.CLIENT:
            records = to_topic_codec(records, header, self.config)
            header = header_at(records)
        # In the request's own buffer: neither offset nor epoch is under the CRC, so the bytes go
        # from the socket to the file without a copy and without being packed again.
        batch = writable(records)
        base_offset, size = self.end_offset, header.batch_length + LENGTH_AND_OFFSET_BYTES
        if size != len(batch):
            batch = memoryview(batch)[:size]
        last_offset = base_offset + header.last_offset_delta
        assign(batch, 0, base_offset, leader_epoch)
        log_append_time_ms = -1
        if self.config.log_append_time:
            stamp_log_append_time(batch, 0, now_ms)
            header = header_at(batch)
            log_append_time_ms = now_ms
        self._writer.write(
            batch, size, header.max_timestamp, last_offset, now_ms, self.config, self._jitter_ms
        )
        # The write came first: had it failed, memory would still say what the file holds. The roll
        # in it may have changed the active segment.
        self._writer.active.index_batch(header, last_offset, size, self.config.index_interval_bytes)
        self.end_offset = last_offset + 1
        if leader_epoch != self.leader_epochs.latest:
            self.leader_epochs.assign(leader_epoch, base_offset)
        if header.producer_id >= 0:
            self._update_producers(header, base_offset, marker)
        if self.end_offset - self._flush_state.recovery_point >= self.config.flush_messages:
            self._flush_state.hold(base_offset)
        return AppendInfo(
            base_offset, last_offset, header.max_timestamp, log_append_time_ms,
            self.log_start_offset, header.records_count, size, leader_epoch,
        )  # fmt: skip

    def _check_producer(
        self, header: BatchHeader, records: Buffer, origin: AppendOrigin
    ) -> tuple[tuple[bool, int] | None, BatchMetadata | None]:
        """The marker of a transaction that this is, or the batch that it repeats; LogError if the
        producer's epoch or sequence is wrong."""
        if header.attributes & CONTROL:
            marker = marker_of(header, records)
            if marker is not None:
                self.producers.check_marker(header, marker[1])
            return marker, None
        return None, self.producers.check(header, from_client=origin is AppendOrigin.CLIENT)

    def append_as_follower(
        self, records: bytes | bytearray | memoryview, now_ms: int
    ) -> AppendInfo:
        """Append whole batches as the leader has them, offsets and epochs kept.

        Raises LogError, and nothing has changed: CORRUPT_MESSAGE if a batch was damaged on its
        way or on the leader's disk, OFFSET_OUT_OF_RANGE if offsets repeat.
        """
        self.guard.check_not_blocked()
        view = memoryview(records)
        batches = validate_batches(view)
        first, last = batches[0][1], batches[-1][1]
        size = batches[-1][0] + last.size_bytes
        end = self.end_offset
        begins_inside = first.base_offset < end
        if begins_inside:
            if not self.is_empty or first.last_offset < end:
                raise LogError(
                    ErrorCode.OFFSET_OUT_OF_RANGE,
                    f"offset {first.base_offset} comes again, the log ends at {end}",
                )
            # Copied again from the leader's log start, which lies inside this batch. There is
            # nothing on the disk that could reappear.
            self.begin_truncate_fully(first.base_offset, now_ms)
            self.guard.unblock()
        info = self.append_batches(view[:size], batches, now_ms)
        if begins_inside:
            self.advance_log_start_offset(end)
            self.advance_high_watermark(end)
            info.log_start_offset = end
        return info

    def append_batches(
        self, view: memoryview, batches: Sequence[tuple[int, BatchHeader]], now_ms: int
    ) -> AppendInfo:
        """Append whole, checked batches with their offsets and epochs: all of ``view``."""
        first, last = batches[0][1], batches[-1][1]
        newest = max([header.max_timestamp for _, header in batches])
        markers = markers_in(view, batches)
        self._writer.write(
            view, len(view), newest, last.last_offset, now_ms, self.config, self._jitter_ms,
            max(len(view), self.config.segment_bytes), first.base_offset,
        )  # fmt: skip
        is_far = self._writer.active.base_offset > self.end_offset
        for at, header in batches:
            self._index_replicated(header, markers.get(at))
        unflushed = self.end_offset - self._flush_state.recovery_point
        # Recovery takes an unflushed segment that begins beyond the last one's end for a loss.
        if is_far or unflushed >= self.config.flush_messages:
            self._flush_state.hold(first.base_offset)
        return AppendInfo(
            first.base_offset, last.last_offset, newest, -1, self.log_start_offset,
            sum([one.records_count for _, one in batches]), len(view), last.partition_leader_epoch,
        )  # fmt: skip

    @property
    def is_empty(self) -> bool:
        """Whether there is no batch at all."""
        return not self._writer.active.size_bytes and len(self._segments.all) == 1

    def _index_replicated(self, header: BatchHeader, marker: tuple[bool, int] | None) -> None:
        last_offset, size = header.last_offset, header.size_bytes
        self._writer.active.index_batch(header, last_offset, size, self.config.index_interval_bytes)
        self.end_offset = last_offset + 1
        if header.partition_leader_epoch != self.leader_epochs.latest:
            self.leader_epochs.assign(header.partition_leader_epoch, header.base_offset)
        if header.producer_id >= 0:
            self._update_producers(header, header.base_offset, marker)

    def _update_producers(
        self, header: BatchHeader, base_offset: int, marker: tuple[bool, int] | None
    ) -> None:
        aborted = update_producers(header, base_offset, marker, self.producers)
        if aborted is not None:
            try:
                self._writer.active.transactions.append(aborted)
            except DiskError as error:  # it is in memory, and recovery finds the marker in the log
                log.warning("%s: %s", self._writer.active.transactions.path, error)

    def roll(self, now_ms: int) -> None:
        """Begin a new segment at the log's end; nothing happens if the active one is empty."""
        self._writer.roll(now_ms)

    # --- reading ---------------------------------------------------------------------------------

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        upper_offset: int | None = None,
        min_one: bool = True,
        waits: bool = True,
        skips_empty: bool = False,
    ) -> FetchSlice:
        """Whole batches from the one that contains ``offset``, none at or above ``upper_offset``.

        At most ``max_bytes``; with ``min_one`` the first batch comes even if it is larger. Raises
        LogError OFFSET_OUT_OF_RANGE outside [log start, end]; at the end the answer is empty. With
        ``waits`` false it raises ``WouldBlock`` for what is not in memory. ``skips_empty``: where
        only batches without records would come, what follows them comes instead.
        """
        end = self.end_offset if upper_offset is None else min(upper_offset, self.end_offset)
        if offset < self.log_start_offset or offset > self.end_offset:
            raise LogError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {offset} is outside [{self.log_start_offset}, {self.end_offset}]",
            )
        if offset >= end:
            return FetchSlice(b"", end)
        read = self._segments.read_records if skips_empty else self._segments.read
        try:
            if waits:
                return FetchSlice(read(offset, max_bytes, end, min_one), end)
            with self._files.non_blocking:
                return FetchSlice(read(offset, max_bytes, end, min_one), end)
        except DiskError as error:
            raise storage_error(error) from error

    def read_segment(self, segment: Segment, position: int, max_bytes: int) -> Buffer:
        """Whole batches of one segment from a position on, at least one; ``WouldBlock`` if they
        are not in memory."""
        try:
            with self._files.non_blocking:
                return segment.read(position, max_bytes, segment.size_bytes, min_one=True)
        except DiskError as error:
            raise storage_error(error) from error

    def readable_bytes(self, offset: int, upper_offset: int, *, waits: bool = True) -> int:
        """About how many bytes lie between two offsets; exact enough to decide on waiting."""
        if offset >= upper_offset:
            return 0
        try:
            if waits:
                return self._segments.distance(offset, upper_offset)
            with self._files.non_blocking:
                return self._segments.distance(offset, upper_offset)
        except DiskError as error:
            raise storage_error(error) from error

    def non_blocking_reads(self) -> NonBlockingReads:
        """Look-ups in between raise ``WouldBlock`` for what is not in memory."""
        return self._files.non_blocking

    def aborted_transactions(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Aborted transactions with records in [start, end), oldest first."""
        return self._segments.aborted(start_offset, end_offset)

    @property
    def first_base_offset(self) -> int:
        """Where the oldest segment begins; the log may start inside it."""
        return self._segments.first.base_offset

    @property
    def size_bytes(self) -> int:
        """Bytes of batches in all segments."""
        return self._segments.size_bytes

    @property
    def segments(self) -> Segments:
        """The segments, for retention, look-ups by time and tests."""
        return self._segments

    @property
    def active_segment(self) -> Segment:
        return self._writer.active

    # --- watermarks ------------------------------------------------------------------------------

    def advance_high_watermark(self, high_watermark: int) -> None:
        """Everything below is on all in-sync replicas."""
        self.high_watermark = high_watermark
        if self.producers.unreplicated:
            self.producers.on_high_watermark(high_watermark)

    @property
    def last_stable_offset(self) -> int:
        """The end of what a read-committed consumer may see."""
        unstable = self.producers.first_unstable_offset
        return self.high_watermark if unstable is None else min(unstable, self.high_watermark)

    @property
    def latest_epoch(self) -> int:
        """The leader epoch of the newest batch; -1 in an empty log."""
        return self.leader_epochs.latest

    def end_offset_for_epoch(self, epoch: int) -> EpochEnd:
        """The largest epoch not above ``epoch``, and where it ends here."""
        return self.leader_epochs.end_of(epoch, self.end_offset)

    # --- shortening ------------------------------------------------------------------------------

    def delete_records_before(self, offset: int) -> int:
        """Raise the log's start; retention frees the space. Returns the start."""
        if not 0 <= offset <= self.high_watermark:
            raise LogError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {offset} is not in 0..{self.high_watermark}, the high watermark",
            )
        self.advance_log_start_offset(max(offset, self.log_start_offset))
        return self.log_start_offset

    def advance_log_start_offset(self, offset: int) -> None:
        """The log begins at ``offset`` now."""
        self.log_start_offset = offset
        self.leader_epochs.truncate_from_start(offset)
        self.cleaning.on_start_raised(offset)

    def truncate_to(self, offset: int, now_ms: int) -> None:
        """Drop everything at or after ``offset``, durably. The caller may wait for the device."""
        self._force_truncation(self.begin_truncate_to(offset, now_ms))

    def truncate_fully_and_start_at(self, offset: int, now_ms: int) -> None:
        """Drop everything, durably; the next batch gets ``offset``."""
        self._force_truncation(self.begin_truncate_fully(offset, now_ms))

    def _force_truncation(self, truncation: PendingTruncation) -> None:
        try:
            force_truncation(self._disk, self.directory, truncation)
        except DiskError as error:
            raise storage_error(error) from error
        self.guard.unblock()

    def begin_truncate_to(self, offset: int, now_ms: int) -> PendingTruncation:
        """Drop everything at or after ``offset`` (a batch that contains it goes as a whole).

        The log takes no append until the truncation has been forced and ``guard.unblock`` is
        called.
        LogError if the disk refuses; the log cannot be used any more then, its directory has
        failed.
        """
        if offset >= self.end_offset:
            # An epoch that began at our end and wrote nothing may contradict the leader's.
            self.leader_epochs.truncate_from_end(offset)
            truncation = PendingTruncation([], False)
        elif offset < self._segments.first.base_offset:
            return self.begin_truncate_fully(offset, now_ms)
        else:
            try:
                truncation = self._truncate(offset, now_ms)
            except DiskError as error:
                raise storage_error(error) from error
        self.guard.block()
        return truncation

    def _truncate(self, offset: int, now_ms: int) -> PendingTruncation:
        truncation = self._segments.truncate(offset, self._disk)
        self.snapshots.drop_after(offset)
        start, watermark = self.log_start_offset, self.high_watermark
        flushed = min(self.recovery_point, offset)
        # Batches below are in the page cache as we wrote them: their headers are read again for the
        # producers, their CRCs are not checked, flushed or not.
        is_gone = self._load(now_ms, False, offset, start)
        self._flush_state.on_truncate(flushed, self.end_offset)
        self.cleaning.on_truncated(self.end_offset)
        self.advance_high_watermark(min(watermark, self.end_offset))
        return PendingTruncation([], True) if is_gone else truncation

    def begin_truncate_fully(self, offset: int, now_ms: int) -> PendingTruncation:
        """Drop everything; the next batch gets ``offset``. As with ``begin_truncate_to``."""
        try:
            self._drop_all(offset, now_ms)
        except DiskError as error:
            raise storage_error(error) from error
        self.guard.block()
        return PendingTruncation([], True)

    def _drop_all(self, offset: int, now_ms: int) -> None:
        self._segments.withdraw_replacement(self._disk)
        for segment in self._segments.all:
            segment.release()
            for path in segment.file_names():
                self._disk.remove(path)
        self.snapshots.drop_after(-1)
        self.leader_epochs.clear()
        self._load(now_ms, False, offset, offset)
        self._flush_state.on_truncate(offset, self.end_offset)
        self.cleaning.on_truncated(offset)

    # --- durability and end ----------------------------------------------------------------------

    @property
    def recovery_point(self) -> int:
        """Below it everything is on the device."""
        return self._flush_state.recovery_point

    @property
    def last_flush_ms(self) -> int:
        """When it was last flushed, or opened."""
        return self._flush_state.last_flush_ms

    @property
    def is_new(self) -> bool:
        """Whether neither its directory's name nor its topic id has been flushed."""
        return self._flush_state.is_new

    @is_new.setter
    def is_new(self, is_new: bool) -> None:
        self._flush_state.is_new = is_new

    @property
    def acknowledgeable_end_offset(self) -> int:
        """The end of what may be acknowledged, and shown: what flush.messages wants flushed and is
        not yet lies behind it."""
        held = self._flush_state.held_at
        return self.end_offset if held is None else held

    @property
    def needs_flush(self) -> bool:
        """Whether flush.messages keeps something from being acknowledged."""
        return self._flush_state.held_at is not None

    def flush_failed(self, error: DiskError) -> None:
        """A flush on a worker thread has failed; there is no other."""
        self._flush_state.failure = error

    def flush(self) -> None:
        """Force everything to the device; the recovery point is the log's end then. The caller
        may wait for the device. Not tried a second time after a failure: LogError."""
        try:
            self._flush_state.flush(
                self._segments, self._writer.active, self.end_offset, self.leader_epochs
            )
        except DiskError as error:
            raise storage_error(error) from error

    def begin_flush(self) -> PendingFlush:
        """What a flush on a worker thread has to do from here on; DiskError."""
        return self._flush_state.begin(self._segments, self.end_offset, self.leader_epochs)

    def mark_flushed(self, flush: PendingFlush, now_ms: int) -> None:
        """What ``flush`` was for is on the device."""
        self._flush_state.complete(flush, self.end_offset, now_ms, self.config.flush_messages)
        if flush.epochs is not None:
            self.leader_epochs.mark_saved(flush.epochs.version)

    def take_snapshot(self) -> None:
        """Save the producers as of now, so that recovery need not read further back."""
        path = self.snapshots.write(self.end_offset, self.producers)
        if path is not None:
            self._flush_state.add_file(path)
            self._flush_state.on_file_created()
        self.snapshots.keep_only({segment.base_offset for segment in self._segments.all})

    def close(self) -> None:
        """Flush and finish all files, so that the next opening is a clean one."""
        self.take_snapshot()
        self.flush()
        self._writer.active.close_for_writing()
        self.release()

    def close_unflushed(self) -> None:
        """Finish all files for another opening by this process; nothing is forced."""
        self.take_snapshot()
        for segment in self._segments.since(self.recovery_point):
            segment.save_indexes()
        self._writer.active.close_for_writing()
        self.release()

    def copy_unflushed_state(self, former: Log) -> None:
        """This log is ``former`` under another name, which was closed unflushed: its epochs, and
        the files it would have forced."""
        self.leader_epochs.copy_from(former.leader_epochs)
        self._flush_state.copy_pending_files(former._flush_state)
        self.is_new = True

    def release(self) -> None:
        """Close all handles and write nothing (the directory is about to be removed)."""
        for segment in self._segments.all:
            segment.release()
