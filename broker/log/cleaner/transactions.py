"""Transactions as a pass meets them: which data was aborted, which markers nothing needs. Pure.

In: the aborted transactions of the log's indexes, then the transactional batches in their order.
Out: whether a batch may go, and the index entries that are needed still. Never: a record's key.

A marker is needed while a batch of its transaction stands in the log, though that batch be empty:
without it a reader of committed records, and a broker that reads the log at its start, would take
the transaction for an open one. What Apache Kafka calls CleanedTransactionMetadata.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop

from broker.log.txnindex import AbortedTransaction
from bus.records.control import ControlType


class CleanedTransactions:
    """Transactions of a pass.

    Invariant: ``_aborted`` maps a producer inside an aborted transaction to its index entry, and
    ``_seen`` has those of them of whose data a batch was met; ``_committed`` the producers of data
    that no marker has ended yet, and no index entry calls aborted.
    """

    def __init__(self, aborted: Iterable[AbortedTransaction], start: int, end: int) -> None:
        """``aborted``: of the whole log; those that touch [start, end) count."""
        touching = {one for one in aborted if one.last_offset >= start and one.first_offset < end}
        self._coming = [(one.first_offset, one) for one in touching]
        heapify(self._coming)
        self._aborted: dict[int, AbortedTransaction] = {}
        self._seen: set[int] = set()
        self._committed: set[int] = set()
        self.needed: list[AbortedTransaction] = []
        """Entries of the markers that stay, for whoever takes them out."""

    def on_data(self, producer_id: int, last_offset: int) -> bool:
        """Whether this transactional batch was aborted."""
        self._begin_up_to(last_offset)
        entry = self._aborted.get(producer_id)
        if entry is not None and last_offset <= entry.last_offset:
            self._seen.add(producer_id)
            return True
        self._committed.add(producer_id)
        return False

    def on_marker(self, kind: ControlType, producer_id: int, last_offset: int) -> bool:
        """Whether nothing needs this control batch. One of another kind than a transaction's end is
        always needed."""
        self._begin_up_to(last_offset)
        if kind is ControlType.COMMIT:
            is_needed = producer_id in self._committed
            self._committed.discard(producer_id)
            return not is_needed
        return kind is ControlType.ABORT and not self._is_abort_needed(producer_id)

    def _is_abort_needed(self, producer_id: int) -> bool:
        entry = self._aborted.pop(producer_id, None)
        is_needed = producer_id in self._seen
        self._seen.discard(producer_id)
        if entry is not None and is_needed:
            self.needed.append(entry)
        return is_needed

    def _begin_up_to(self, offset: int) -> None:
        while self._coming and self._coming[0][0] <= offset:
            entry = heappop(self._coming)[1]
            self._aborted[entry.producer_id] = entry
