"""Which attempts to write a batch count, and up to where every partition has been read. Pure.

In: the ledger as it stands, the time as a value. Out: the next one. Never: HBase.

HBase changes one row at a time and knows no transaction over several. So a batch is written under
the number of an *attempt*, and counts from the moment at which one row, the ledger, says so:
together with the positions, by one compare-and-put. What an attempt wrote that was never committed
(the process died, the line broke) is known by its number, and counts for nothing until a later
attempt has written it again (ADR 0041).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from ingest.store.port import Position, StoreError

PositionKey = tuple[str, str, str, str, int]

MAX_FAILED = 20_000
"""Attempts that were begun and never committed: one for each death in the middle of a batch. Beyond
that something else is broken, and more numbers do not repair it."""


class Ledger(msgspec.Struct, frozen=True, kw_only=True):
    """Invariant: `committed <= begun`; an attempt counts if it is not younger than `committed`
    and not among `failed`. `ends` holds exclusive end offsets; `pending` what the attempt under way
    covers, as (…, start, end): who asks for the same again goes on with it."""

    writer: str = ""
    begun: int = 0
    committed: int = 0
    failed: tuple[int, ...] = ()
    ends: tuple[tuple[str, str, str, str, int, int], ...] = ()
    pending: tuple[tuple[str, str, str, str, int, int, int], ...] = ()

    def counts(self, attempt: int) -> bool:
        """Whether what was written under this number is part of the store."""
        return attempt <= self.committed and attempt not in self.failed

    def end_offset(self, position: Position) -> int:
        """How far its partition has been read; -1 if never."""
        return self.positions().get(position_key(position), -1)

    def positions(self) -> Mapping[PositionKey, int]:
        """Every partition's end offset."""
        return {(a, c, t, i, p): end for a, c, t, i, p, end in self.ends}


def position_key(position: Position) -> PositionKey:
    """What a position belongs to."""
    p = position
    return (p.application, p.cluster_id, p.topic, p.topic_id, p.partition)


def open_writer(ledger: Ledger, writer: str) -> Ledger:
    """A writer begins; the one before it is shut out, and what it had under way has failed."""
    return msgspec.structs.replace(_abandon_attempt(ledger), writer=writer)


def begin_attempt(ledger: Ledger, now_ms: int, positions: Sequence[Position] = ()) -> Ledger:
    """Another attempt, unless the one under way covers just these positions: then that one, whose
    writes are made again. A number is a moment, so that HBase can age what is written under it."""
    pending = tuple(sorted((*position_key(p), p.start_offset, p.end_offset) for p in positions))
    if ledger.begun > ledger.committed and pending and ledger.pending == pending:
        return ledger
    ledger = _abandon_attempt(ledger)
    return msgspec.structs.replace(ledger, begun=max(now_ms, ledger.begun + 1), pending=pending)


def is_forgotten(ledger: Ledger, attempt: Ledger) -> bool:
    """Whether the store is back where it was before this attempt of the same writer began.

    A region server that stood still until its regions were given away may take a write when it goes
    on, where the file system does not shut it out (HDFS does): the answer said that the attempt had
    begun. What is under its number may not count before that, nor be counted as failed.
    """
    if ledger.begun >= attempt.begun:
        return False
    before = _abandon_attempt(ledger)
    return attempt == msgspec.structs.replace(before, begun=attempt.begun, pending=attempt.pending)


def with_positions(ledger: Ledger, positions: Sequence[Position]) -> Ledger:
    """These positions stand; what was under way has failed."""
    return msgspec.structs.replace(_abandon_attempt(ledger), ends=_ends(ledger, positions))


def commit_attempt(ledger: Ledger, positions: Sequence[Position]) -> Ledger:
    """The attempt that is under way counts, and these positions with it."""
    return msgspec.structs.replace(
        ledger, committed=ledger.begun, pending=(), ends=_ends(ledger, positions)
    )


def _ends(
    ledger: Ledger, positions: Sequence[Position]
) -> tuple[tuple[str, str, str, str, int, int], ...]:
    ends = dict(ledger.positions()) | {position_key(p): p.end_offset for p in positions}
    return tuple((*key, end) for key, end in sorted(ends.items()))


def _abandon_attempt(ledger: Ledger) -> Ledger:
    if ledger.begun == ledger.committed:
        return ledger
    if len(ledger.failed) >= MAX_FAILED:
        raise StoreError(f"{MAX_FAILED} batches were begun and never committed")
    # Its number is not younger than `committed` once the next attempt is.
    failed = (*ledger.failed, ledger.begun)
    return msgspec.structs.replace(ledger, failed=failed, committed=ledger.begun, pending=())


Change = Callable[[dict[str, int]], dict[str, int]]


class Cell(msgspec.Struct, frozen=True):
    """Numbers of which one attempt made others. Before it is committed, and if it never is, the
    ones before it hold."""

    attempt: int
    now: dict[str, int]
    before: dict[str, int] = {}


def value(cell: Cell | None, ledger: Ledger) -> dict[str, int]:
    """What the cell says at the ledger's last commit."""
    if cell is None:
        return {}
    return cell.now if ledger.counts(cell.attempt) else cell.before


def apply_change(cell: Cell | None, ledger: Ledger, change: Change) -> Cell:
    """The cell after a change by the attempt under way, which may change it only once."""
    before = value(cell, ledger)
    return Cell(ledger.begun, change(dict(before)), before)
