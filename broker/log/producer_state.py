"""State of a partition's idempotent and transactional producers (KIP-98, KIP-360). Pure.

In: batch headers, as they are appended or replayed. Out: whether a batch is new, a duplicate or out
of order; which transactions are open; the last stable offset's bound. Never: I/O or a clock.

Kept per producer id: its epoch and its last five batches. A duplicate of one of these is answered
with its old offset; any other sequence that does not follow is refused.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from broker.log.errors import LogError
from bus.errors import ErrorCode
from bus.records.batch import (
    NO_PRODUCER_EPOCH,
    NO_SEQUENCE,
    TRANSACTIONAL,
    BatchHeader,
)

RETAINED_BATCHES = 5
"""As many as a producer may have in flight, so that a resent one is always recognised."""

_SEQUENCE_MODULUS = 1 << 31
NO_OFFSET = -1


class BatchMetadata(NamedTuple):
    """One remembered batch."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int

    @property
    def base_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) % _SEQUENCE_MODULUS

    @property
    def base_offset(self) -> int:
        return self.last_offset - self.offset_delta


class CompletedTransaction(NamedTuple):
    """A transaction whose marker has been appended at ``last_offset``."""

    producer_id: int
    first_offset: int
    last_offset: int
    aborted: bool


class ProducerEntry:
    """One producer. Invariant: all of ``batches`` carry ``epoch``, in rising sequence."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "last_timestamp_ms",
        "producer_id",
        "transaction_first_offset",
    )

    def __init__(self, producer_id: int, epoch: int = NO_PRODUCER_EPOCH) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.coordinator_epoch = -1
        self.last_timestamp_ms = -1
        self.transaction_first_offset = NO_OFFSET
        self.batches: deque[BatchMetadata] = deque(maxlen=RETAINED_BATCHES)

    @property
    def next_sequence(self) -> int:
        """What the next new batch has to begin with."""
        batches = self.batches
        return (batches[-1][0] + 1) % _SEQUENCE_MODULUS if batches else 0

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else NO_OFFSET

    def duplicate_of(self, header: BatchHeader) -> BatchMetadata | None:
        """The remembered batch that ``header`` repeats."""
        if header.producer_epoch != self.epoch:
            return None
        wanted = (header.base_sequence + header.last_offset_delta) % _SEQUENCE_MODULUS
        for sent in self.batches:
            if sent.last_sequence == wanted and sent.offset_delta == header.last_offset_delta:
                return sent
        return None

    def remember_older(self, headers: Iterable[BatchHeader]) -> None:
        """Put batches in front that stand in the log before those remembered, of this epoch."""
        oldest = self.batches[0].last_offset if self.batches else NO_OFFSET
        older = [
            BatchMetadata(header.last_sequence, header.last_offset, header.last_offset_delta,
                 header.max_timestamp)
            for header in headers
            if header.producer_epoch == self.epoch and header.last_offset < oldest
        ]  # fmt: skip
        self.batches = deque([*older, *self.batches], maxlen=RETAINED_BATCHES)

    def start_epoch(self, epoch: int) -> None:
        """A new epoch begins with an empty memory."""
        self.epoch = epoch
        self.batches.clear()


class ProducerState:
    """All producers of a partition.

    Invariant: ``_open`` maps the producers inside a transaction to its first offset, in rising
    order; ``unreplicated`` holds ended transactions not yet below the high watermark.
    """

    def __init__(self) -> None:
        self.entries: dict[int, ProducerEntry] = {}
        self._open: dict[int, int] = {}
        self.unreplicated: deque[CompletedTransaction] = deque()

    # --- before an append ------------------------------------------------------------------------

    def check(self, header: BatchHeader, *, from_client: bool) -> BatchMetadata | None:
        """The batch this one repeats, or ``None`` if it may be appended; else LogError."""
        entry = self.entries.get(header.producer_id)
        if entry is None:
            return None  # expired or never seen: any sequence may begin (KIP-360)
        if (
            header.producer_epoch == entry.epoch
            and header.base_sequence == entry.next_sequence
            and entry.transaction_first_offset == NO_OFFSET
        ):
            return None  # by far the most common case
        if from_client:
            duplicate = entry.duplicate_of(header)
            if duplicate is not None:
                return duplicate
        if header.producer_epoch < entry.epoch:
            raise LogError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {header.producer_id} has epoch {entry.epoch}, "
                f"the batch {header.producer_epoch}",
            )
        if from_client:
            self._check_sequence(entry, header)
            self._check_transaction(entry, header)
        return None

    @staticmethod
    def _check_sequence(entry: ProducerEntry, header: BatchHeader) -> None:
        first = header.base_sequence
        if header.producer_epoch != entry.epoch:
            in_order = first == 0 or entry.epoch == NO_PRODUCER_EPOCH
        else:
            in_order = first == entry.next_sequence
        if not in_order:
            raise LogError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {header.producer_id} epoch {header.producer_epoch}: sequence {first} "
                f"after {entry.last_sequence} of epoch {entry.epoch}",
            )

    @staticmethod
    def _check_transaction(entry: ProducerEntry, header: BatchHeader) -> None:
        is_open = entry.transaction_first_offset != NO_OFFSET
        if is_open and not header.attributes & TRANSACTIONAL:
            raise LogError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {header.producer_id} is inside a transaction",
            )

    def check_marker(self, header: BatchHeader, coordinator_epoch: int) -> None:
        """Refuse a transaction marker of an overtaken producer epoch or coordinator."""
        entry = self.entries.get(header.producer_id)
        if entry is None:
            return
        if header.producer_epoch < entry.epoch:
            raise LogError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"a marker of epoch {header.producer_epoch}, producer has {entry.epoch}",
            )
        if coordinator_epoch < entry.coordinator_epoch:
            raise LogError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"coordinator epoch {coordinator_epoch} after {entry.coordinator_epoch}",
            )

    # --- after an append, and on replay ----------------------------------------------------------

    def add_batch(self, header: BatchHeader, base_offset: int) -> None:
        """A data batch of a producer stands in the log at ``base_offset``."""
        entry = self.entries.get(header.producer_id) or self._entry(header.producer_id)
        if header.producer_epoch != entry.epoch:
            entry.start_epoch(header.producer_epoch)
        delta = header.last_offset_delta
        last_sequence = NO_SEQUENCE  # a coordinator's transactional records have none
        if header.base_sequence >= 0:
            last_sequence = (header.base_sequence + delta) % _SEQUENCE_MODULUS
        entry.batches.append(
            BatchMetadata(last_sequence, base_offset + delta, delta, header.max_timestamp)
        )
        entry.last_timestamp_ms = header.max_timestamp
        if header.attributes & TRANSACTIONAL and entry.transaction_first_offset == NO_OFFSET:
            entry.transaction_first_offset = base_offset
            self._open[header.producer_id] = base_offset

    def complete_transaction(
        self, header: BatchHeader, offset: int, *, aborted: bool, coordinator_epoch: int
    ) -> CompletedTransaction | None:
        """A transaction marker stands at ``offset``; the transaction it ends, if there was one."""
        entry = self._entry(header.producer_id)
        if header.producer_epoch != entry.epoch:
            entry.start_epoch(header.producer_epoch)
        entry.coordinator_epoch = coordinator_epoch
        entry.last_timestamp_ms = header.max_timestamp
        entry.transaction_first_offset = NO_OFFSET
        first_offset = self._open.pop(header.producer_id, None)
        if first_offset is None:
            return None
        completed = CompletedTransaction(header.producer_id, first_offset, offset, aborted)
        self.unreplicated.append(completed)
        return completed

    def _entry(self, producer_id: int) -> ProducerEntry:
        entry = self.entries.get(producer_id)
        if entry is None:
            entry = self.entries[producer_id] = ProducerEntry(producer_id)
        return entry

    # --- stable offsets --------------------------------------------------------------------------

    @property
    def first_undecided_offset(self) -> int | None:
        """Where the oldest open transaction begins."""
        return next(iter(self._open.values()), None)

    def open_transactions(self) -> dict[int, int]:
        """The producers inside a transaction, and where it begins."""
        return dict(self._open)

    def is_undecided(self, producer_id: int, first_offset: int) -> bool:
        """Whether the producer's transaction that begins there has no marker yet, or one that is
        not below the high watermark."""
        if self._open.get(producer_id) == first_offset:
            return True
        ended = self.unreplicated
        return any((t.producer_id, t.first_offset) == (producer_id, first_offset) for t in ended)

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset a read-committed consumer may not see yet."""
        if not self._open and not self.unreplicated:  # nearly always, on every fetch
            return None
        bounds = [t.first_offset for t in self.unreplicated]
        undecided = self.first_undecided_offset
        if undecided is not None:
            bounds.append(undecided)
        return min(bounds, default=None)

    def on_high_watermark(self, high_watermark: int) -> None:
        """Ended transactions below the watermark are stable."""
        kept = (t for t in self.unreplicated if t.last_offset >= high_watermark)
        self.unreplicated = deque(kept)

    # --- expiry and snapshots --------------------------------------------------------------------

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forget producers that were silent for long and have no open transaction; how many."""
        gone = [
            entry.producer_id
            for entry in self.entries.values()
            if entry.transaction_first_offset == NO_OFFSET
            and now_ms - entry.last_timestamp_ms >= expiration_ms
        ]
        for producer_id in gone:
            del self.entries[producer_id]
        return len(gone)

    def active(self) -> Iterator[ProducerEntry]:
        """All producers, for DescribeProducers and snapshots."""
        return iter(self.entries.values())

    def copy_from(self, other: ProducerState) -> None:
        """Take over the state of another log of the same batches, which is not used any more."""
        self.entries, self._open = other.entries, other._open
        self.unreplicated = other.unreplicated

    def restore(self, entries: Iterable[ProducerEntry]) -> None:
        """Begin with what a snapshot says."""
        self.entries = {entry.producer_id: entry for entry in entries}
        opened = [e for e in self.entries.values() if e.transaction_first_offset != NO_OFFSET]
        opened.sort(key=lambda entry: entry.transaction_first_offset)
        self._open = {e.producer_id: e.transaction_first_offset for e in opened}
        self.unreplicated.clear()
