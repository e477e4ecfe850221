"""Partitions of offsets as they may lie on a disk, and what a plain replay in order makes of them.

Commits and tombstones, alone and in transactions that are committed, aborted (by a marker of a newer
epoch, too, as a fenced producer's are) or open; batches that lost records inside, batches without records, and offsets that nothing has any more.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from broker.coordinator.group.records import OFFSETS, CommittedOffset, OffsetRecord
from broker.log.log import Log
from bus.records.batch import assign
from bus.records.build import build_batch
from bus.records.compression import Compression
from bus.records.control import end_txn_marker
from bus.records.record import Record

NOW_MS = 1_760_000_000_000
PRODUCERS = (5, 6, 7)
CODECS = (Compression.NONE, Compression.NONE, Compression.ZSTD, Compression.GZIP)

Offsets = dict[tuple[str, str, int], CommittedOffset]


@dataclass(slots=True)
class StoredChange:
    """One record, and the transaction it belongs to."""

    record: OffsetRecord
    transaction: int | None


@dataclass(slots=True)
class DrawnOffsets:
    """Appends to a log what it draws, and knows what of it counts."""

    log: Log
    dice: random.Random
    changes: list[StoredChange] = field(default_factory=list)
    committed: set[int] = field(default_factory=set)
    open_transactions: dict[int, int] = field(default_factory=dict)
    transactions: int = 0
    epochs: dict[int, int] = field(default_factory=lambda: dict.fromkeys(PRODUCERS, 0))

    def append(self) -> None:
        """One more batch, or a marker, or a hole before the next one."""
        kind = self.dice.random()
        if kind < 0.55:
            self._data(None)
        elif kind < 0.75:
            self._data(self.dice.choice(PRODUCERS))
        elif kind < 0.95 and self.open_transactions:
            self._end(self.dice.choice(sorted(self.open_transactions)))
        elif kind < 0.98:
            self.log.roll(NOW_MS)

    def plain_replay(self) -> Offsets:
        """The state, by reading every record in its order."""
        state: Offsets = {}
        for change in self.changes:
            if change.transaction is None or change.transaction in self.committed:
                record = change.record
                place = (record.group_id, record.topic, record.partition)
                state.pop(place, None)
                if record.value is not None:
                    state[place] = record.value
        return state

    def _data(self, producer_id: int | None) -> None:
        dice = self.dice
        records = [self._record() for _ in range(dice.randrange(5))]
        offsets = sorted(dice.sample(range(8), len(records)))
        made = [
            Record(*OFFSETS.encode(record), timestamp_ms=NOW_MS, offset=offset)
            for record, offset in zip(records, offsets, strict=True)
        ]
        last = max([*offsets, dice.randrange(8)])
        transaction = None
        if producer_id is not None:
            if producer_id not in self.open_transactions:
                self.transactions += 1
                self.open_transactions[producer_id] = self.transactions
            transaction = self.open_transactions[producer_id]
        batch = build_batch(
            made,
            producer_id=-1 if producer_id is None else producer_id,
            producer_epoch=-1 if producer_id is None else self.epochs[producer_id],
            base_timestamp=NOW_MS,
            is_transactional=producer_id is not None,
            compression=dice.choice(CODECS) if made else Compression.NONE,
            last_offset_delta=last,
        )
        self.changes += [StoredChange(record, transaction) for record in records]
        self._put(batch)

    def _record(self) -> OffsetRecord:
        dice = self.dice
        value = CommittedOffset(dice.randrange(1 << 40), 1, dice.choice(("", "m")), NOW_MS)
        is_removed = dice.random() < 0.3
        group, topic = f"group-{dice.randrange(3)}", f"t-{dice.randrange(2)}"
        return OffsetRecord(group, topic, dice.randrange(2), None if is_removed else value)

    def end_all(self) -> None:
        """No transaction is open any more."""
        for producer_id in sorted(self.open_transactions):
            self._end(producer_id)

    def _end(self, producer_id: int) -> None:
        is_commit = self.dice.random() < 0.5
        if not is_commit:
            self.epochs[producer_id] += self.dice.randrange(2)
        transaction = self.open_transactions.pop(producer_id)
        if is_commit:
            self.committed.add(transaction)
        self._put(
            end_txn_marker(commit=is_commit, producer_id=producer_id,
                           producer_epoch=self.epochs[producer_id], coordinator_epoch=1,
                           timestamp_ms=NOW_MS)
        )  # fmt: skip

    def _put(self, batch: bytearray) -> None:
        hole = self.dice.choice((0, 0, 0, 1, 1000))
        assign(batch, 0, self.log.end_offset + hole, 0)
        self.log.append_as_follower(batch, NOW_MS)
