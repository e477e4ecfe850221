"""What a switch has done, as its file and `mirror report` say it. Pure.

In: ends and times. Out: one JSON line per statement. Never: a statement that is changed later: a
report is refined by another line, and what is not known is not counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from bus.client.model import TopicPartition
from bus.contracts.site_epoch import SiteEpoch

PLANNED, HEARD, FORCED, TAIL, REJOINED = "planned", "heard", "forced", "tail", "rejoined"
EDGE = "edge"
"""Kinds of statements, each at most once in a file but `TAIL`, which is one per partition, and
`EDGE`, which is one per edge."""


class ReportError(ValueError):
    """A line that is no statement."""


class PartitionStatement(msgspec.Struct, frozen=True, kw_only=True):
    """One partition. `end`: where it ended at the new primary when it was opened. `heard_end`: the
    last end heard from the former one, at `heard_ms`; -1: never. `known_missing`: offsets between
    the two. `former_end`: where it really ended at the former primary, -1: not known yet.
    `file`: where the former primary's own records are. `sent_again`: of the known ones, those that
    an edge sent to the new primary; `sent_again_beyond`: those behind `heard_end`; -1: it is no
    statement of an edge."""

    topic: str
    partition: int
    end: int = -1
    heard_end: int = -1
    heard_ms: int = -1
    known_missing: int = 0
    former_end: int = -1
    records: int = -1
    file: str = ""
    detail: str = ""
    sent_again: int = -1
    sent_again_beyond: int = -1


class SwitchStatement(msgspec.Struct, frozen=True, kw_only=True):
    """One line. `took_ms`: from the fence (planned) or the epoch (forced) until the topics are
    open. `notes`: what was not done, or what a person should know. Of an edge, `source` is its
    address, `moved_ms` when it had moved by its clock, `unacknowledged` how many messages the
    former primary may have taken without that edge having heard."""

    kind: str
    epoch: str
    number: int
    at_ms: int
    former: str
    new: str
    partitions: tuple[PartitionStatement, ...] = ()
    took_ms: int = -1
    notes: tuple[str, ...] = ()
    source: str = ""
    moved_ms: int = -1
    unacknowledged: int = 0


def statement(
    kind: str,
    epoch: SiteEpoch,
    at_ms: int,
    partitions: Iterable[PartitionStatement],
    *,
    took_ms: int = -1,
    notes: Iterable[str] = (),
) -> SwitchStatement:
    """Partitions by name."""
    ordered = tuple(sorted(partitions, key=lambda one: (one.topic, one.partition)))
    return SwitchStatement(
        kind=kind, epoch=epoch.text, number=epoch.number, at_ms=at_ms, former=epoch.secondary,
        new=epoch.primary, partitions=ordered, took_ms=took_ms, notes=tuple(notes),
    )  # fmt: skip


def encode_statement(one: SwitchStatement) -> bytes:
    """One line."""
    return msgspec.json.encode(one) + b"\n"


def decode_statements(data: bytes) -> list[SwitchStatement]:
    """All whole lines; a torn last one was never said. Raises ReportError."""
    lines = data.split(b"\n")[:-1]
    try:
        return [msgspec.json.decode(line, type=SwitchStatement) for line in lines]
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ReportError(f"a line of the report cannot be read: {error}") from None


def drained_partitions(ends: Mapping[TopicPartition, int]) -> list[PartitionStatement]:
    """Of a planned switch: both sites ended there, nothing is missing."""
    return [
        PartitionStatement(topic=topic, partition=index, end=end, former_end=end, records=0)
        for (topic, index), end in ends.items()
    ]
