"""What transactions that are open at a load have written to a coordinator's partition. Pure.

In: batches in the order of the log, markers among them. Out: the records that have come into force
since. Never: what they mean, I/O. Kafka: the pending transactional offsets of its
OffsetMetadataManager.

A record of a transaction comes into force with the commit marker, but at its own place in the log:
one outside of transactions, or of a transaction that was committed earlier, that stands behind it
stays newer, as it would be read after a cleaning. Epochs play no part: a marker ends whatever its
producer has open, of an older epoch too, which is how a fenced producer is aborted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from bus.records.batch import CONTROL, TRANSACTIONAL
from bus.records.control import ControlType, control_type
from bus.records.key_values import NewestValues


class PendingValue(NamedTuple):
    """A value, or a tombstone, and the base offset of its batch."""

    base_offset: int
    value: bytes | None


class OpenTransactions:
    """Invariant: ``_pending`` has of each open transaction the newest value of each key, and none
    that stands in the log before one in force; so it holds no more than the transaction's keys,
    however often it wrote them. ``end_offset``: up to where the log was read."""

    def __init__(self) -> None:
        self.end_offset = 0
        self.first_offsets: dict[int, int] = {}
        """Where each transaction begins, by producer."""
        self._pending: dict[int, dict[bytes, PendingValue]] = {}
        self._due: dict[bytes, PendingValue] = {}

    def __bool__(self) -> bool:
        """Whether there is anything to wait for, or to replay."""
        return bool(self._pending or self._due)

    @property
    def is_due(self) -> bool:
        """Whether something has come into force that was not taken."""
        return bool(self._due)

    def on_batch(
        self, base_offset: int, attributes: int, producer_id: int, written: NewestValues
    ) -> None:
        """The next batch that is not known to be aborted: data, or a marker."""
        if attributes & CONTROL:
            for key in written:
                self._end(producer_id, control_type(key))
        elif attributes & TRANSACTIONAL:
            self.on_open(base_offset, producer_id, written)
        else:
            self.on_newer(written)

    def on_open(self, base_offset: int, producer_id: int, written: NewestValues) -> None:
        """Data of an open transaction."""
        self.first_offsets.setdefault(producer_id, base_offset)
        pending = self._pending.setdefault(producer_id, {})
        for key, value in written.items():
            pending[key] = PendingValue(base_offset, value)

    def on_newer(self, keys: Iterable[bytes]) -> None:
        """These were written and are in force: what is known of them was written before."""
        for key in keys:
            self._due.pop(key, None)
            for pending in self._pending.values():
                pending.pop(key, None)

    def take_due(self, most: int) -> list[tuple[bytes, bytes | None]]:
        """Some of what has come into force, which is not due any more then."""
        taken = [key for key, _ in zip(self._due, range(most), strict=False)]
        return [(key, self._due.pop(key).value) for key in taken]

    def _end(self, producer_id: int, kind: ControlType) -> None:
        if kind not in (ControlType.COMMIT, ControlType.ABORT):
            return
        self.first_offsets.pop(producer_id, None)
        pending = self._pending.pop(producer_id, {})
        if kind is ControlType.ABORT:
            return
        for key, one in pending.items():
            self._drop_older(key, one.base_offset)
            newer = self._due.get(key)
            if newer is None or newer.base_offset < one.base_offset:
                self._due[key] = one

    def _drop_older(self, key: bytes, base_offset: int) -> None:
        """What other transactions wrote before, they may commit without effect."""
        for pending in self._pending.values():
            older = pending.get(key)
            if older is not None and older.base_offset < base_offset:
                del pending[key]
