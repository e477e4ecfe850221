"""Opens a log directory after a clean stop, a kill or a loss of power.

In: a directory and its checkpoints. Out: segments that end with a whole batch, their indexes,
producer state, leader epochs. Never: more reading than needed. Below the recovery point everything
was flushed and is trusted; above it each batch's CRC is checked, the log is truncated at the first
batch that is not whole and valid, and indexes and producer state are rebuilt.

After a clean stop nothing is read but the last bytes of the last segment.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import NamedTuple

from broker.config.views import TopicConfig
from broker.disk.port import Disk, File
from broker.log.batch_scanner import NO_CRC, BatchScanner
from broker.log.epochs import LeaderEpochs
from broker.log.files import (
    CLEANED,
    DELETED,
    LOG,
    OFFSET_INDEX,
    REPLACES,
    SWAP,
    TIME_INDEX,
    TXN_INDEX,
    FilePool,
    base_offset_of,
)
from broker.log.producer_replay import replay_batch
from broker.log.producer_snapshots import ProducerSnapshots
from broker.log.producer_state import ProducerState
from broker.log.segment import Segment
from bus.records.batch import HEADER_BYTES, BatchHeader, header_at

log = logging.getLogger("broker.log")

_LEFT_BEHIND = (DELETED, CLEANED, ".tmp", SWAP, REPLACES)
_MAX_U32 = (1 << 32) - 1
TAIL_BYTES = 1 << 18
"""How far back to read for batches that producers may resend: mostly five of each."""


class Recovered(NamedTuple):
    """The state after opening. ``truncated_bytes`` were not valid and are gone; ``unforced`` are
    files whose bytes may not be on the device: truncated batches, and indexes written anew."""

    segments: list[Segment]
    producers: ProducerState
    end_offset: int
    truncated_bytes: int
    unforced: list[str]


class Recovery:
    """One opening of one directory; ``run`` does it."""

    def __init__(
        self,
        directory: str,
        disk: Disk,
        files: FilePool,
        config: TopicConfig,
        epochs: LeaderEpochs,
        snapshots: ProducerSnapshots,
        now_ms: int,
    ) -> None:
        self._directory = directory
        self._disk = disk
        self._files = files
        self._config = config
        self._epochs = epochs
        self._snapshots = snapshots
        self._now_ms = now_ms
        self._producers = ProducerState()
        self._truncated_bytes = 0
        self._unforced: list[str] = []

    def run(
        self, names: list[str], *, clean: bool, recovery_point: int, log_start_offset: int
    ) -> Recovered:
        """Open everything. ``names`` are the files in the directory; ``clean``: the last user
        closed the log cleanly."""
        segments = self._list_segments(self._clean_up(names))
        if segments:
            segments = self._open_all(segments, clean, recovery_point, log_start_offset)
            if not clean:
                # The last user may have died between a truncation and its flush.
                self._unforced.append(segments[-1].path)
        else:
            self._epochs.clear()
            segments = [self._segment(log_start_offset)]
        last = segments[-1]
        last.open_for_writing()
        end_offset = last.end_offset
        self._epochs.truncate_from_end(end_offset)
        self._snapshots.drop_after(end_offset)
        self._snapshots.keep_only({segment.base_offset for segment in segments})
        return Recovered(
            segments, self._producers, end_offset, self._truncated_bytes, self._unforced
        )

    # --- what is there ---------------------------------------------------------------------------

    def _clean_up(self, names: list[str]) -> list[int]:
        """Remove what interrupted file operations left; returns the base offsets of the segments.
        Replacements have been finished or undone already (``finish_replacements``)."""
        unfinished = [name for name in names if name.endswith(_LEFT_BEHIND)]
        for name in unfinished:
            self._disk.remove(f"{self._directory}/{name}")
        if unfinished:
            names = self._disk.listdir(self._directory)
        bases = sorted(
            base
            for name in names
            if name.endswith(LOG) and (base := base_offset_of(name)) is not None
        )
        self._remove_orphans(names, set(bases))
        return bases

    def _remove_orphans(self, names: list[str], bases: set[int]) -> None:
        for name in names:
            if name.endswith((OFFSET_INDEX, TIME_INDEX, TXN_INDEX)):
                base = base_offset_of(name)
                if base is not None and base not in bases:
                    self._disk.remove(f"{self._directory}/{name}")

    def _segment(self, base_offset: int) -> Segment:
        return Segment(self._directory, base_offset, self._disk, self._files, self._now_ms)

    def _list_segments(self, bases: list[int]) -> list[Segment]:
        """The segments with their file sizes; nothing inside is trusted yet."""
        segments = [self._segment(base) for base in bases]
        for segment, following in zip(segments, [*bases[1:], -1], strict=False):
            segment.size_bytes = self._disk.size_of(segment.path)
            segment.end_offset = following
            segment.transactions.load()
        return segments

    # --- opening ---------------------------------------------------------------------------------

    def _open_all(
        self, segments: list[Segment], clean: bool, recovery_point: int, log_start_offset: int
    ) -> list[Segment]:
        end_offset = self._clean_end(segments[-1]) if clean else None
        trusted_to = recovery_point if end_offset is None else end_offset
        snapshot = self._snapshots.newest(trusted_to)
        replay_from = segments[0].base_offset
        if snapshot is not None:
            replay_from = snapshot[0]
            self._producers.restore(snapshot[1])
        elif end_offset is not None and segments[0].base_offset == end_offset:
            replay_from = end_offset
        replay_from = max(replay_from, segments[0].base_offset)  # nothing below can be read
        if segments[0].base_offset > trusted_to:
            # Retention has deleted batches above the recovery point, whose epochs the file need not
            # have. With a gap in them this log, or as its leader another one, would be cut where an
            # older epoch ended. All that is deleted was committed: what is left says enough.
            self._epochs.clear()
        if self._epochs.is_doubtful:
            self._epochs.rebuild(self._epochs_below(replay_from, segments))
        first = self._epochs.first_start
        if first is not None and first > max(log_start_offset, segments[0].base_offset):
            # The log began there until a kill: its file of epochs was written, its start was not.
            # What is back has its epochs in the batches.
            known = self._epochs.entries
            back = self._epochs_below(min(first, replay_from), segments)
            self._epochs.rebuild([*back, *known])
        self._epochs.truncate_from_end(replay_from)
        doubtful_end = -1 if end_offset is not None else recovery_point
        segments = self._recover_segments(segments, replay_from, trusted_to, doubtful_end)
        if self._producers.entries:
            self._restore_older_batches(segments, replay_from)
        return segments

    def _epochs_below(self, offset: int, segments: list[Segment]) -> Iterator[tuple[int, int]]:
        """(leader epoch, base offset) of the batches below an offset, which are trusted."""
        if segments[0].base_offset < offset:
            log.warning("%s: the leader epochs are missing or damaged and read from the batches",
                        self._directory)  # fmt: skip
        for segment in segments:
            if segment.base_offset >= offset:
                return
            for _, header, _ in self._scan(segment, segment.file, 0, segment.size_bytes, NO_CRC):
                if header.base_offset >= offset:
                    return
                yield header.partition_leader_epoch, header.base_offset

    def _clean_end(self, last: Segment) -> int | None:
        """The end offset after a clean stop; ``None`` if the files contradict a clean stop."""
        if not self._load_indexes(last):
            return None
        entry = last.offsets.last()
        file = last.open_for_writing()
        walk = self._scan(last, file, entry[1] if entry else 0, last.size_bytes, NO_CRC)
        end_offset = last.base_offset
        for _, header, _ in walk:
            end_offset = header.base_offset + header.last_offset_delta + 1
        return None if walk.fault else end_offset

    def _recover_segments(
        self, segments: list[Segment], replay_from: int, trusted_to: int, doubtful_end: int
    ) -> list[Segment]:
        """``doubtful_end``: a segment that ends there was rolled after the last flush of its
        batches, and its index files may not have reached the device."""
        begin = min(replay_from, trusted_to)
        for at, segment in enumerate(segments[:-1]):
            is_adoptable = segment.end_offset <= begin and segment.end_offset != doubtful_end
            if is_adoptable and self._attach_indexes(segment):
                continue
            whole = self._recover(segment, begin, trusted_to)
            if not whole or self._has_gap_after(segment, segments[at + 1], trusted_to):
                self._drop(segments[at + 1 :])
                return segments[: at + 1]
            segment.close_for_writing()
            # Once the recovery point is beyond this segment, its indexes are used as they are.
            self._unforced += segment.index_files()
        self._recover(segments[-1], begin, trusted_to)
        return segments

    @staticmethod
    def _has_gap_after(segment: Segment, following: Segment, trusted_to: int) -> bool:
        """Whether records between two segments were lost with the power.

        Files reach the device in any order: the next segment may exist although whole batches at
        the end of this one, rolled and not yet flushed, are gone. A segment begins where the one
        before ended, which detects that. Segments the cleaner shortens lie below the recovery
        point.
        """
        if following.base_offset <= trusted_to or segment.end_offset == following.base_offset:
            return False
        log.warning(
            "%s ends at offset %d, the next segment begins at %d: the log is cut between them",
            segment.path, segment.end_offset, following.base_offset,
        )  # fmt: skip
        return True

    def _restore_older_batches(self, segments: list[Segment], before: int) -> None:
        """Give producers back the batches a snapshot leaves out, from the tail of the log.

        A snapshot holds the newest batch of each; a producer with five in flight over a restart
        would otherwise get OUT_OF_ORDER_SEQUENCE_NUMBER for its older ones, as in Apache Kafka.
        """
        older: dict[int, list[BatchHeader]] = {}
        left_bytes = TAIL_BYTES
        for segment in reversed(segments):
            found: dict[int, list[BatchHeader]] = {}
            for header in self._last_of(segment, left_bytes, before):
                found.setdefault(header.producer_id, []).append(header)
            for producer_id, headers in found.items():
                older[producer_id] = [*headers, *older.get(producer_id, ())]
            left_bytes -= segment.size_bytes
            if left_bytes <= 0:
                break
        for producer_id, headers in older.items():
            if producer_id in self._producers.entries:
                self._producers.entries[producer_id].remember_older(headers)

    def _last_of(self, segment: Segment, most_bytes: int, before: int) -> Iterator[BatchHeader]:
        """Producers' batches among the last bytes of a segment, below an offset."""
        entry = segment.offsets.floor_value(max(segment.size_bytes - most_bytes, 0))
        walk = self._scan(
            segment, segment.file, entry[1] if entry else 0, segment.size_bytes, NO_CRC
        )
        for _, header, _ in walk:
            if header.base_offset >= before:
                break
            if header.producer_id >= 0 and not header.is_control:
                yield header

    def _drop(self, segments: list[Segment]) -> None:
        """Remove the segments after a truncation: offsets would be missing before them."""
        for segment in segments:
            self._truncated_bytes += segment.size_bytes
            log.warning("%s removed: the log was cut before it", segment.path)
            segment.release()
            for path in segment.file_names():
                self._disk.remove(path)

    def _attach_indexes(self, segment: Segment) -> bool:
        """Use the index files of a segment below the recovery point as they are."""
        whole = segment.offsets.attach() and segment.times.attach()
        last = segment.offsets.last() if whole else None
        if not whole or (last and last[1] >= segment.size_bytes):
            log.warning("%s: the indexes are missing or damaged and rebuilt", segment.path)
            return False
        segment.restore_max_timestamp()
        return True

    # --- one segment -----------------------------------------------------------------------------

    def _recover(self, segment: Segment, replay_from: int, trusted_to: int) -> bool:
        """Walk over a segment from ``replay_from`` on; false if it had to be cut and what comes
        after it is worth nothing."""
        file, size, next_base = segment.open_for_writing(), segment.size_bytes, segment.end_offset
        segment.size_bytes = self._resume_at(segment, replay_from, file)
        segment.transactions.clear_from(replay_from)
        walk = self._scan(segment, file, segment.size_bytes, size, trusted_to)
        for _, header, batch in walk:
            last_offset = header.base_offset + header.last_offset_delta
            if 0 <= next_base <= last_offset:
                # Truncated, but it reappeared after a loss of power: the next segment is newer.
                self._truncate(segment, size, f"the next segment begins at {next_base}", trusted_to)
                return True
            fault = self._epoch_fault(header) if header.base_offset >= trusted_to else ""
            if fault:
                self._truncate(segment, size, fault, trusted_to)
                return False
            segment.index_batch(header, last_offset, len(batch), self._config.index_interval_bytes)
            if header.base_offset >= replay_from:
                replay_batch(header, batch, self._producers, self._epochs, segment.transactions)
        if walk.fault:
            self._truncate(segment, size, walk.fault, trusted_to)
        return not walk.fault

    def _epoch_fault(self, header: BatchHeader) -> str:
        """What is wrong with the batch's epoch: leaders' epochs rise. A segment that a follower had
        removed, and that reappeared after a loss of power, has the one of a former leader."""
        epoch, newest = header.partition_leader_epoch, self._epochs.latest
        return f"leader epoch {epoch} comes after {newest}" if epoch < newest else ""

    @staticmethod
    def _scan(segment: Segment, file: File, position: int, end: int, crc_from: int) -> BatchScanner:
        return BatchScanner(file, position, end, base_offset=segment.base_offset, crc_from=crc_from)

    def _resume_at(self, segment: Segment, replay_from: int, file: File) -> int:
        """The position where the scan begins; index entries up to there are kept."""
        segment.end_offset = segment.base_offset
        entry = None
        if replay_from > segment.base_offset and self._load_indexes(segment):
            entry = segment.offsets.floor_key(min(replay_from - segment.base_offset, _MAX_U32))
        header = self._header_of(entry, segment, file)
        if entry is None or header is None:
            self._empty_indexes(segment)
            return 0
        segment.offsets.truncate(segment.offsets.count_values_below(entry[1] + 1))
        segment.times.truncate(segment.times.count_values_below(entry[0] + 1))
        segment.restore_max_timestamp()
        segment.first_timestamp_ms = header_at(file.read(0, HEADER_BYTES)).max_timestamp
        segment.end_offset = header.base_offset
        return entry[1]

    @staticmethod
    def _header_of(
        entry: tuple[int, int] | None, segment: Segment, file: File
    ) -> BatchHeader | None:
        """The header an index entry points to; ``None`` if the entry does not match it."""
        if entry is None:
            return None
        header = header_at(file.read(entry[1], HEADER_BYTES))
        last_offset = header.base_offset + header.last_offset_delta
        return header if last_offset == segment.base_offset + entry[0] else None

    def _load_indexes(self, segment: Segment) -> bool:
        """Hold both indexes in memory; false if a file is missing or invalid."""
        last_position = segment.size_bytes - HEADER_BYTES
        for index, largest in ((segment.offsets, last_position), (segment.times, _MAX_U32)):
            if not index.attach():
                return False
            index.load()
            if not index.is_sane(largest):
                return False
        return True

    @staticmethod
    def _empty_indexes(segment: Segment) -> None:
        for index in (segment.offsets, segment.times):
            index.attach()
            index.load()
            index.truncate(0)

    def _truncate(self, segment: Segment, size: int, fault: str, trusted_to: int) -> None:
        gone = size - segment.size_bytes
        self._truncated_bytes += gone
        was_flushed = segment.end_offset < trusted_to
        log.log(
            logging.ERROR if was_flushed else logging.WARNING,
            "%s cut at byte %d (offset %d), %d bytes dropped%s: %s",
            segment.path,
            segment.size_bytes,
            segment.end_offset,
            gone,
            " that had been flushed (the disk is damaged)" if was_flushed else "",
            fault,
        )
        segment.truncate_partial_batch()
        self._unforced.append(segment.path)
