"""One pass of the cleaner: the keys of the dirty part, then every group rewritten.

In: a ``CleaningPass``, the disk. Out: a report for each group, whose new files are written and
forced by then, and one for the end. Never: a file of the log changed, renamed or removed; anything
that its caller's process holds: a pass runs as well in a process of its own.

Damage ends the pass with a report that says so. A DiskError is the caller's; ``.cleaned`` files
that it leaves are written over by the next attempt and removed at a start.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from broker.disk.port import Disk
from broker.log.cleaner.digests import KeyHash
from broker.log.cleaner.model import CleanedGroup, CleaningPass, PassResult, SegmentSummary
from broker.log.cleaner.offset_map import OffsetMap
from broker.log.cleaner.pieces import DamagedSegment, Piece, SegmentPieces
from broker.log.cleaner.plan import groups_before
from broker.log.cleaner.retention import KnownOffsets, Retention, RetentionCounts
from broker.log.cleaner.transactions import CleanedTransactions
from broker.log.files import LOG, TXN_INDEX, segment_path
from broker.log.replacement_files import Span, write_cleaned
from broker.log.txnindex import AbortedTransaction, TransactionIndex
from bus.records.batch import (
    CONTROL,
    HEADER,
    HEADER_BYTES,
    LENGTH_AND_OFFSET_BYTES,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    BatchHeader,
    Buffer,
    seal,
)

log = logging.getLogger("broker.log")

Pause = Callable[[int], None]
"""Called between pieces of a buffer's size with the bytes read and written since; may sleep, and
may raise, which ends the pass."""


def run_pass(
    disk: Disk, cleaning: CleaningPass, pause: Pause, writer: str = ""
) -> Iterator[CleanedGroup | PassResult]:
    """The reports of a pass, its result last. ``writer``: see ``write_cleaned``; no client knows a
    broker's, which the digests of keys rely on."""
    try:
        yield from _RunningPass(disk, cleaning, pause, writer).run()
    except DamagedSegment as damage:
        yield PassResult(
            generation=cleaning.generation,
            next_dirty_offset=cleaning.first_dirty_offset,
            keys=0,
            max_keys=0,
            map_bytes_read=0,
            uncleanable=str(damage),
        )


class _RunningPass:
    def __init__(self, disk: Disk, cleaning: CleaningPass, pause: Pause, writer: str) -> None:
        self._disk = disk
        self._cleaning = cleaning
        self._pause = pause
        self._writer = writer
        self._hash = KeyHash(writer.encode())
        self._newest = OffsetMap(
            cleaning.limits.dedupe_buffer_bytes, cleaning.limits.load_factor
        )
        self._map_bytes_read = 0

    def run(self) -> Iterator[CleanedGroup | PassResult]:
        cleaning = self._cleaning
        aborted = self._load_aborted()
        end_offset = self._collect_keys(aborted)
        groups = list(groups_before(cleaning, end_offset))
        if groups:
            begin = groups[0][0].base_offset
            transactions = CleanedTransactions(aborted, begin, groups[-1][-1].end_offset)
            known = KnownOffsets(self._newest, end_offset, self._hash)
            retention = Retention(cleaning, known, transactions)
            for group in groups:
                yield self._clean(group, retention, transactions)
        yield PassResult(
            generation=cleaning.generation,
            next_dirty_offset=end_offset,
            keys=self._newest.keys,
            max_keys=self._newest.max_keys,
            map_bytes_read=self._map_bytes_read,
        )

    def _load_aborted(self) -> list[AbortedTransaction]:
        """Of all segments, before one of them is replaced. A marker may lie in any later segment
        than its data."""
        bases = [segment.base_offset for group in self._cleaning.groups for segment in group]
        aborted: list[AbortedTransaction] = []
        for base in (*bases, *self._cleaning.later_bases):
            path = segment_path(self._cleaning.directory, base, TXN_INDEX)
            index = TransactionIndex(path, self._disk)
            index.load()
            aborted += index.entries
        return aborted

    # --- keys ------------------------------------------------------------------------------------

    def _collect_keys(self, aborted: Sequence[AbortedTransaction]) -> int:
        """Up to where the map knows the keys of the dirty part."""
        start, end = self._cleaning.first_dirty_offset, self._cleaning.end_offset
        transactions = CleanedTransactions(aborted, start, end)
        for group in self._cleaning.groups:
            for segment in group:
                if segment.end_offset <= start:
                    continue
                for piece in self._pieces(segment):
                    self._map_bytes_read += piece.size_bytes
                    full_at = self._note_keys(piece, transactions)
                    if full_at is not None:
                        return full_at
        return max(start, end)

    def _note_keys(self, piece: Piece, transactions: CleanedTransactions) -> int | None:
        """Note a piece's keys; the offset of the first one that did not fit, if any."""
        start = self._cleaning.first_dirty_offset
        is_data = (piece.attributes & CONTROL == 0) & (piece.last_offsets >= start)
        for number in np.flatnonzero(is_data & (piece.attributes & TRANSACTIONAL != 0)).tolist():
            producer_id = int(piece.headers["producer_id"][number])
            last_offset = int(piece.last_offsets[number])
            is_data[number] = not transactions.on_data(producer_id, last_offset)
        records = piece.records
        offsets = piece.record_offsets
        wanted = np.flatnonzero(
            is_data[records.batch] & (offsets >= start) & (records.key_size >= 0)
        )
        digests = self._hash.digests(piece.buffer, records.key[wanted], records.key_size[wanted])
        noted = self._newest.put(digests, offsets[wanted])
        return int(offsets[wanted[noted]]) if noted < len(wanted) else None

    # --- groups ----------------------------------------------------------------------------------

    def _clean(
        self,
        group: Sequence[SegmentSummary],
        retention: Retention,
        transactions: CleanedTransactions,
    ) -> CleanedGroup:
        span = Span(group[0].base_offset, group[-1].end_offset)
        counts = retention.counts = RetentionCounts()
        transactions.needed = []
        write_cleaned(
            self._disk,
            self._cleaning.directory,
            span,
            self._retained(group, span, retention),
            transactions.needed,
            self._cleaning.index_interval_bytes,
            self._writer,
        )
        self._pause(0)
        if counts.copied_whole:
            log.warning("%s: %d batches of [%d, %d) do not unpack and stay as they are",
                        self._cleaning.directory, counts.copied_whole, *span)  # fmt: skip
        return CleanedGroup(
            generation=self._cleaning.generation,
            base_offset=span.base_offset,
            end_offset=span.end_offset,
            bases=tuple(segment.base_offset for segment in group),
            is_changed=counts.is_changed or len(group) > 1,
            bytes_read=counts.bytes_read,
            bytes_kept=counts.bytes_kept,
            records_read=counts.records_read,
            records_kept=counts.records_kept,
            copied_whole=counts.copied_whole,
        )

    def _retained(
        self, group: Sequence[SegmentSummary], span: Span, retention: Retention
    ) -> Iterator[Buffer]:
        """What stays of a group's segments, up to the very end of what they stand for."""
        end_offset, epoch = span.base_offset, NO_LEADER_EPOCH
        before: Piece | None = None
        for segment in group:
            for piece in self._pieces(segment):
                if before is not None:
                    yield from self._written(retention.retained(before, ends_group=False))
                before = piece
        if before is not None:
            yield from self._written(retention.retained(before, ends_group=True))
            end_offset = int(before.last_offsets[-1]) + 1
            epoch = int(before.headers["partition_leader_epoch"][-1])
        if end_offset < span.end_offset:
            retention.counts.is_changed = True
            yield batch_over(end_offset, span.end_offset, epoch)

    def _written(self, parts: Iterator[Buffer]) -> Iterator[Buffer]:
        for part in parts:
            yield part
            self._pause(len(part))

    def _pieces(self, segment: SegmentSummary) -> Iterator[Piece]:
        """The batches of a segment, with a pause after each read."""
        path = segment_path(self._cleaning.directory, segment.base_offset, LOG)
        buffer_bytes = self._cleaning.limits.io_buffer_bytes
        file = self._disk.open(path)
        try:
            pieces = SegmentPieces(file, segment.base_offset, segment.size_bytes, buffer_bytes)
            for piece in pieces:
                if pieces.next_offset > segment.end_offset:
                    raise DamagedSegment(f"{path} goes on after offset {segment.end_offset - 1}")
                self._pause(piece.size_bytes)
                yield piece
        finally:
            file.close()


def batch_over(base_offset: int, end_offset: int, epoch: int) -> bytearray:
    """A batch without records over the offsets [base_offset, end_offset). Apache Kafka leaves out
    the last batches of a segment that it cleans, and recovery here would take their absence for a
    loss (ADR 0082)."""
    batch = bytearray(HEADER_BYTES)
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=HEADER_BYTES - LENGTH_AND_OFFSET_BYTES,
        partition_leader_epoch=epoch,
        magic=MAGIC,
        crc=0,
        attributes=0,
        last_offset_delta=end_offset - 1 - base_offset,
        base_timestamp=NO_TIMESTAMP,
        max_timestamp=NO_TIMESTAMP,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        base_sequence=NO_SEQUENCE,
        records_count=0,
    )
    HEADER.pack_into(batch, 0, *header)
    seal(batch, 0, HEADER_BYTES)
    return batch
