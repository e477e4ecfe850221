"""What of a log stays, a piece after another, as Apache Kafka 4.4 decides it.

In: the pieces of a pass in the order of the log, the newest offsets of the keys. Out: the batches
that stay: as they are, with fewer records, or without any. Never: an offset, an epoch, a sequence
or a codec changed; a batch rewritten that is not understood.

Stays: the newest record of each key, a tombstone until its batch's delete horizon (KIP-534), and
what lies above the offsets that the map knows. Records without a key go, data of aborted
transactions goes. A marker goes once nothing needs it and its horizon has come, which is set when
nothing needs it. The newest batches of a producer that the log knows stay, without records if need
be: they have the producer's epoch and last sequences. So does the last batch of a group (ADR 0082).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from broker.log.cleaner.columns import Flags, Numbers
from broker.log.cleaner.digests import KeyHash
from broker.log.cleaner.model import ActiveProducer, CleaningPass
from broker.log.cleaner.offset_map import OffsetMap
from broker.log.cleaner.pieces import Piece
from broker.log.cleaner.transactions import CleanedTransactions
from bus.records.batch import (
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    Buffer,
    RecordsError,
)
from bus.records.control import ControlType, control_type
from bus.records.read import read_records
from bus.records.retain import RetainedPositions, emptied, rewritten

MAX_HORIZON_MS = 1 << 62
"""A horizon beyond it, which no clock reaches, leaves no room for the timestamps counted from
it."""

_COPY, _REWRITE, _EMPTY = 1, 2, 3


class KnownOffsets(NamedTuple):
    """The newest offsets of the keys of all records below ``end_offset`` that are dirty, by what
    ``hash`` makes of the keys."""

    newest: OffsetMap
    end_offset: int
    hash: KeyHash


class RetentionCounts:
    """What a group came to."""

    def __init__(self) -> None:
        self.bytes_read = self.bytes_kept = 0
        self.records_read = self.records_kept = 0
        self.copied_whole = 0
        self.is_changed = False


class _BatchRetention:
    """What the transactions and the producers of a piece say of its batches, an entry a batch."""

    def __init__(self, piece: Piece) -> None:
        self.is_control: Flags = piece.attributes & CONTROL != 0
        self.has_horizon: Flags = piece.attributes & DELETE_HORIZON != 0
        self.loses_records = np.zeros(len(piece), np.bool_)
        self.gets_horizon = np.zeros(len(piece), np.bool_)
        self.stays_empty = np.zeros(len(piece), np.bool_)


class Retention:
    """Invariant: ``counts`` are of the pieces since they were set anew."""

    def __init__(
        self, cleaning: CleaningPass, known: KnownOffsets, transactions: CleanedTransactions
    ) -> None:
        self._known = known
        self._transactions = transactions
        self._producers = {one.producer_id: one for one in cleaning.producers}
        self._now_ms = cleaning.now_ms
        self._horizon_ms = min(cleaning.now_ms + cleaning.delete_retention_ms, MAX_HORIZON_MS)
        self.counts = RetentionCounts()

    def retained(self, piece: Piece, *, ends_group: bool) -> Iterator[Buffer]:
        """The batches that stay of a piece; those that follow each other unchanged come
        together."""
        verdicts = self._judge(piece)
        verdicts.stays_empty[-1] |= ends_group
        kept = self._kept_records(piece, verdicts)
        actions = self._actions(piece, verdicts, kept)
        counts = self.counts
        counts.bytes_read += piece.size_bytes
        counts.records_read += int(piece.counts.sum())
        counts.is_changed |= bool((actions != _COPY).any())
        left = _PieceRecords(piece, kept, np.where(verdicts.gets_horizon, self._horizon_ms, -1))
        for first, last in _runs(actions):
            for part in self._written(piece, left, int(actions[first]), first, last):
                counts.bytes_kept += len(part)
                yield part

    def _written(
        self, piece: Piece, left: _PieceRecords, action: int, first: int, last: int
    ) -> Iterator[Buffer]:
        if action == _COPY:
            self.counts.records_kept += int(piece.counts[first : last + 1].sum())
            yield piece.batches(first, last)
            return
        for number in range(first, last + 1):
            if action == _EMPTY:
                yield emptied(piece.header(number))
                continue
            made = left.rewritten(number)
            if made is None:
                self.counts.copied_whole += 1
                self.counts.records_kept += int(piece.counts[number])
                yield piece.batches(number, number)
            else:
                self.counts.records_kept += int(left.kept_counts[number])
                yield made

    # --- batches ---------------------------------------------------------------------------------

    def _judge(self, piece: Piece) -> _BatchRetention:
        verdicts = _BatchRetention(piece)
        producer_ids = piece.headers["producer_id"].astype(np.int64)
        for number in np.flatnonzero(verdicts.is_control | (producer_ids >= 0)).tolist():
            producer_id = int(producer_ids[number])
            if verdicts.is_control[number]:
                self._judge_control(piece, number, producer_id, verdicts)
            elif piece.attributes[number] & TRANSACTIONAL:
                verdicts.loses_records[number] = self._transactions.on_data(
                    producer_id, int(piece.last_offsets[number])
                )
            producer = self._producers.get(producer_id)
            if producer is not None:
                verdicts.stays_empty[number] = _is_newest(producer, piece, number, verdicts)
        return verdicts

    def _judge_control(
        self, piece: Piece, number: int, producer_id: int, verdicts: _BatchRetention
    ) -> None:
        last_offset = int(piece.last_offsets[number])
        is_free = piece.counts[number] == 0  # it was emptied, when nothing needed it any more
        if not is_free:
            kind = _control_kind(piece, number)
            is_free = self._transactions.on_marker(kind, producer_id, last_offset)
        if verdicts.has_horizon[number]:
            horizon_ms = int(piece.headers["base_timestamp"][number])
            verdicts.loses_records[number] = is_free and horizon_ms <= self._now_ms
        else:
            verdicts.gets_horizon[number] = is_free

    def _actions(self, piece: Piece, verdicts: _BatchRetention, kept: Flags) -> Numbers:
        """What is made of each batch; 0: it goes."""
        count = len(piece)
        kept_counts = np.bincount(piece.records.batch[kept], minlength=count)
        is_tombstone = kept & ~piece.records.has_value
        tombstones = np.bincount(piece.records.batch[is_tombstone], minlength=count)
        verdicts.gets_horizon |= (tombstones > 0) & ~verdicts.is_control
        verdicts.gets_horizon &= ~verdicts.has_horizon
        actions = np.zeros(count, np.int64)
        stays = kept_counts > 0
        is_whole = (kept_counts == piece.counts) & ~verdicts.gets_horizon
        actions[stays] = np.where(is_whole[stays], _COPY, _REWRITE)
        actions[~stays & verdicts.stays_empty] = _EMPTY
        actions[(piece.counts == 0) & verdicts.stays_empty] = _COPY
        is_unreadable = piece.unreadable & ~verdicts.loses_records
        actions[is_unreadable] = _COPY
        self.counts.copied_whole += int(is_unreadable.sum())
        return actions

    # --- records ---------------------------------------------------------------------------------

    def _kept_records(self, piece: Piece, verdicts: _BatchRetention) -> Flags:
        """Which of the piece's records stay."""
        records = piece.records
        kept: Flags = ~verdicts.loses_records[records.batch]
        is_judged = kept & ~verdicts.is_control[records.batch]
        offsets = piece.record_offsets
        is_judged &= offsets < self._known.end_offset
        judged = np.flatnonzero(is_judged)
        kept[judged] = False
        judged = judged[records.key_size[judged] >= 0]
        known = self._known
        digests = known.hash.digests(piece.buffer, records.key[judged], records.key_size[judged])
        is_newest = offsets[judged] >= known.newest.get(digests)
        is_over = verdicts.has_horizon & (piece.headers["base_timestamp"] <= self._now_ms)
        stays = records.has_value[judged] | ~is_over[records.batch[judged]]
        kept[judged] = is_newest & stays
        return kept


class _PieceRecords:
    """The records that stay of a piece, to rewrite its batches with."""

    def __init__(self, piece: Piece, kept: Flags, new_horizons_ms: Numbers) -> None:
        records = piece.records.where(kept)
        headers = piece.headers[records.batch]
        is_stamped = headers["attributes"] & LOG_APPEND_TIME != 0
        own_ms = headers["base_timestamp"] + records.time_delta
        self._piece = piece
        self._times_ms = np.where(is_stamped, headers["max_timestamp"], own_ms)
        self._rests, self._ends = records.rest, records.end
        self._new_horizons_ms = new_horizons_ms
        self.kept_counts = np.bincount(records.batch, minlength=len(piece))
        self._stops = np.cumsum(self.kept_counts)

    def rewritten(self, number: int) -> bytearray | None:
        """One batch; None if it cannot be written so: then it stays as it is."""
        stop = int(self._stops[number])
        part = slice(stop - int(self.kept_counts[number]), stop)
        kept = RetainedPositions(
            self._rests[part].tolist(), self._ends[part].tolist(), self._times_ms[part].tolist()
        )
        horizon_ms = int(self._new_horizons_ms[number])
        header, body = self._piece.header(number), self._piece.buffer.data
        try:
            return rewritten(header, body, kept, None if horizon_ms < 0 else horizon_ms)
        except RecordsError:
            return None


def _is_newest(
    producer: ActiveProducer, piece: Piece, number: int, verdicts: _BatchRetention
) -> bool:
    """Whether a batch has one of a producer's last sequences, or its epoch if it has no data any
    more."""
    if producer.last_data_offset >= 0:
        last_offset = int(piece.last_offsets[number])
        return last_offset in (producer.last_data_offset, *producer.older_data_offsets)
    epoch = int(piece.headers["producer_epoch"][number])
    return bool(verdicts.is_control[number]) and epoch == producer.epoch


def _control_kind(piece: Piece, number: int) -> ControlType:
    try:
        record = next(read_records(piece.batches(number, number)), None)
        return ControlType.UNKNOWN if record is None else control_type(record.key)
    except RecordsError:
        return ControlType.UNKNOWN


def _runs(actions: Numbers) -> Iterator[tuple[int, int]]:
    """First and last index of neighbours of which the same is made, without those that go."""
    changes = np.flatnonzero(np.diff(actions)) + 1
    bounds = [0, *changes.tolist(), len(actions)]
    for first, end in pairwise(bounds):
        if actions[first]:
            yield first, end - 1
