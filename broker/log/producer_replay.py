"""Updates producer state, leader epochs and the transaction index from batches already in the log.

Batches come in offset order. None is refused: the log's contents are authoritative.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker.log.epochs import LeaderEpochs
from broker.log.producer_state import CompletedTransaction, ProducerState
from broker.log.txnindex import AbortedTransaction, TransactionIndex
from bus.errors import ErrorCode
from bus.records.batch import CONTROL, BatchHeader, Buffer, RecordsError
from bus.records.control import ControlType, control_type, coordinator_epoch
from bus.records.read import read_records


def marker_of(header: BatchHeader, batch: Buffer) -> tuple[bool, int] | None:
    """(aborted, coordinator epoch) of a transaction marker; ``None`` for other control batches."""
    record = next(read_records(batch), None)
    if record is None:
        return None
    kind = control_type(record.key)
    if kind not in (ControlType.ABORT, ControlType.COMMIT):
        return None
    if header.producer_id < 0:
        raise RecordsError(ErrorCode.INVALID_RECORD, "a transaction marker without producer id")
    return kind is ControlType.ABORT, coordinator_epoch(record.value)


def update_producers(
    header: BatchHeader,
    base_offset: int,
    marker: tuple[bool, int] | None,
    producers: ProducerState,
) -> AbortedTransaction | None:
    """Update the producers from one batch; returns the transaction it aborted, if any."""
    if not header.attributes & CONTROL:
        producers.add_batch(header, base_offset)
        return None
    if marker is None:
        return None
    aborted, epoch = marker
    ended = producers.complete_transaction(
        header, base_offset, aborted=aborted, coordinator_epoch=epoch
    )
    if ended is None or not ended.aborted:
        return None
    return _index_entry(ended, producers)


def _index_entry(ended: CompletedTransaction, producers: ProducerState) -> AbortedTransaction:
    """The entry of an aborted transaction, with the last stable offset as of its marker."""
    undecided = producers.first_undecided_offset
    stable = ended.last_offset + 1 if undecided is None else undecided
    return AbortedTransaction(ended.producer_id, ended.first_offset, ended.last_offset, stable)


def replay_batch(
    header: BatchHeader,
    batch: Buffer,
    producers: ProducerState,
    epochs: LeaderEpochs,
    transactions: TransactionIndex,
) -> None:
    """Update producers, epochs and transactions from a batch found on the disk."""
    epochs.assign(header.partition_leader_epoch, header.base_offset)
    if header.producer_id < 0:
        return
    try:
        marker = marker_of(header, batch) if header.attributes & CONTROL else None
    except RecordsError:
        marker = None  # a control record of a kind we do not know changes nothing here
    aborted = update_producers(header, header.base_offset, marker, producers)
    if aborted is not None:
        transactions.append(aborted)


def markers_in(
    view: memoryview, batches: Sequence[tuple[int, BatchHeader]]
) -> dict[int, tuple[bool, int] | None]:
    """The transaction markers among batches of ``view``, by the position of their batch."""
    return {
        at: marker_or_none(header, view[at : at + header.size_bytes])
        for at, header in batches
        if header.attributes & CONTROL and header.producer_id >= 0
    }


def marker_or_none(header: BatchHeader, batch: Buffer) -> tuple[bool, int] | None:
    """The marker in a batch of the leader's; as in recovery, one of a kind we do not know changes
    nothing here."""
    try:
        return marker_of(header, batch)
    except RecordsError:
        return None
