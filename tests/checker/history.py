"""What clients did and saw, as a list of events; one JSON object a line in a file.

In: events as clients record them. Out: the same events, read back. Never: a judgement (`rules`).

Values are unique: no two sends of one history carry the same one. Offsets named `next` and
`before` are exclusive. Times are milliseconds of one clock that all observers share.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec


class HistoryEvent(msgspec.Struct, tag_field="event", tag=str.lower, kw_only=True, omit_defaults=True):
    """Something that happened at a time."""

    at_ms: int = 0


class SendEvent(HistoryEvent, tag="send"):
    """A producer asked for `value` to be written. `op` names this attempt-with-all-its-retries.

    `ordered`: this producer promises that its sends to a partition keep their order (idempotent,
    or one request in flight). `transaction` is the transaction's id, empty for none.
    """

    op: int
    producer: str
    topic: str
    partition: int
    value: str
    acks: int = -1
    idempotent: bool = False
    ordered: bool = False
    transaction: str = ""


class Ack(HistoryEvent):
    """The broker acknowledged `op`. `offset` is -1 where it did not say (acks=0)."""

    op: int
    offset: int = -1


class Fail(HistoryEvent):
    """`op` ended without an acknowledgement. `certain`: it was surely not written."""

    op: int
    error: str
    certain: bool = False


class Poll(HistoryEvent):
    """A consumer asked from `position` on and got records; its next position is `next`.

    `assignment` names one uninterrupted ownership of the partition by one consumer; a seek begins
    a new one. `from_beginning`: this assignment began at the log's start.
    """

    consumer: str
    assignment: str
    topic: str
    partition: int
    position: int
    next: int
    records: list[tuple[int, str]] = []
    group: str = ""
    from_beginning: bool = False
    read_committed: bool = False
    transaction: str = ""
    """The consumer's own transaction that these reads belong to (consume, transform, produce)."""


class Commit(HistoryEvent):
    """A group's offset was to be committed. `outcome`: `asked`, then one of `ok`, `refused`."""

    op: int
    group: str
    topic: str
    partition: int
    offset: int
    outcome: str = "asked"


class CommittedEvent(HistoryEvent, tag="committed"):
    """What the coordinator says is committed (-1: nothing). `asked_ms`: when it was asked."""

    group: str
    topic: str
    partition: int
    offset: int
    asked_ms: int = 0


class Reset(HistoryEvent):
    """The group's offset was set by hand to `offset`; it may go back there."""

    group: str
    topic: str
    partition: int
    offset: int


class OutOfRange(HistoryEvent):
    """A group's member was out of range and goes on at `start`, where the log begins
    (`auto.offset.reset=earliest`); its commits may go back to there."""

    group: str
    topic: str
    partition: int
    start: int


class TransactionEvent(HistoryEvent, tag="transaction"):
    """A transaction's state: `begun`, `committing`, `committed`, `aborted` or `unknown`."""

    id: str
    state: str


class Deleted(HistoryEvent):
    """Records below `before` were deleted on purpose (DeleteRecords, retention, the topic)."""

    topic: str
    partition: int
    before: int


class Healed(HistoryEvent):
    """All faults are over; what follows is read to the end."""


class ReplicaStateEvent(HistoryEvent, tag="replicastate"):
    """One replica after recovery: its batches as (base, last, leader epoch, digest of bytes)."""

    broker: int
    topic: str
    partition: int
    log_start: int
    high_watermark: int
    batches: list[tuple[int, int, int, str]] = []


AnyEvent = (
    SendEvent | Ack | Fail | Poll | Commit | CommittedEvent | Reset | OutOfRange | TransactionEvent
    | Deleted | Healed | ReplicaStateEvent
)  # fmt: skip

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(AnyEvent).decode


def to_line(event: HistoryEvent) -> bytes:
    """One event as a line."""
    return _encode(event) + b"\n"


def from_lines(lines: Iterable[bytes | str]) -> Iterator[AnyEvent]:
    """Events of the lines; empty ones are left out. Raises msgspec.ValidationError."""
    for line in lines:
        if line.strip():
            yield _decode(line)


def read(path: Path) -> list[AnyEvent]:
    """A whole history; several processes' files are merged by the caller, sorted by `at_ms`."""
    with open(path, "rb") as file:
        return list(from_lines(file))
