"""The records that only a former primary has: where they begin, and the lines that keep them. Pure.

In: batches, ends of both sides. Out: a JSON line per record, of lines the ids of rows; where a
partition is cut. Never: a byte of a record that is not in its line.

A line is what `databus replay` reads: kind, id and the value as base64, with the rest beside them.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator

import msgspec

from bus.client.model import TopicPartition
from bus.contracts import headers
from bus.contracts.diverged_ranges import MAX_ID_CHARACTERS, MAX_IDS, MAX_IDS_BYTES, DivergedRange
from bus.contracts.topics import TOPICS, Flow
from bus.domain.kinds import KIND_OF_TOPIC
from bus.domain.record_identity import identity_on_bus
from bus.protocol.wire import Buffer
from bus.records.batch import iter_batches
from bus.records.read import read_records
from bus.records.record import Record


class DivergedRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One record. `raw`: its value, `key` and values of `headers` as base64; None: there is none.
    `kind` and `id` are its headers of these meanings, for a replay; the kind else by its topic."""

    kind: str
    id: str
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: str | None
    raw: str | None
    headers: tuple[tuple[str, str | None], ...]


def diverged_lines(
    batches: Buffer, partition: TopicPartition, first_offset: int
) -> Iterator[bytes]:
    """A line per record of the batches that hold `first_offset` or lie behind it, since a log is
    cut by whole batches; markers of transactions are no records. Raises RecordsError."""
    for at, header in iter_batches(batches):
        if header.is_control or header.end_offset <= first_offset:
            continue
        for record in read_records(batches, at):
            yield msgspec.json.encode(_diverged_record(record, partition)) + b"\n"


def _diverged_record(record: Record, partition: TopicPartition) -> DivergedRecord:
    found = {name: value for name, value in record.headers if value is not None}
    return DivergedRecord(
        kind=_text(found.get(headers.KIND)) or KIND_OF_TOPIC.get(partition.topic, ""),
        id=_text(found.get(headers.RECORD_ID)),
        topic=partition.topic, partition=partition.partition, offset=record.offset,
        timestamp_ms=record.timestamp_ms, key=_base64(record.key), raw=_base64(record.value),
        headers=tuple((name, _base64(value)) for name, value in record.headers),
    )  # fmt: skip


def _base64(value: Buffer | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()


def _text(value: Buffer | None) -> str:
    return "" if value is None else bytes(value).decode("utf-8", "replace")


def has_rows(topic: str) -> bool:
    """Whether a store may have a row for each record of a topic: counters are added up there."""
    contract = TOPICS.get(topic)
    return contract is None or contract.flow is not Flow.METER


def diverged_parts(lines: Iterable[bytes], epoch: int) -> Iterator[DivergedRange]:
    """The ids of the records of one partition's lines, under which a store has their rows; one that
    is longer than any of ours is left out. Raises msgspec.MsgspecError."""
    ids: list[str] = []
    first: DivergedRecord | None = None
    size, end = 0, 0
    for record in map(_LINES.decode, lines):
        found = _stored_id(record)
        id_size = len(msgspec.json.encode(found)) + 1
        if first is not None and (len(ids) == MAX_IDS or size + id_size > MAX_IDS_BYTES):
            yield _part(first, epoch, end, ids)
            first, ids, size = None, [], 0
        first = first or record
        end = record.offset + 1
        if len(found) <= MAX_ID_CHARACTERS:
            ids.append(found)
            size += id_size
    if first is not None:
        yield _part(first, epoch, end, ids)


def _part(first: DivergedRecord, epoch: int, end_offset: int, ids: list[str]) -> DivergedRange:
    return DivergedRange(
        epoch=epoch, topic=first.topic, partition=first.partition, offset=first.offset,
        end_offset=end_offset, ids=tuple(ids),
    )  # fmt: skip


def _stored_id(record: DivergedRecord) -> str:
    """Of several headers of the name the last one counts, as where it is stored."""
    header = dict(record.headers).get(headers.RECORD_ID)
    record_id = "" if header is None else base64.b64decode(header).decode("utf-8", "replace")
    value = None if record.raw is None else base64.b64decode(record.raw)
    return identity_on_bus(record_id, record.topic, record.partition, record.offset, value)


_LINES = msgspec.json.Decoder(DivergedRecord)


def end_of_batches(batches: Buffer, position: int) -> int:
    """The offset behind the last whole batch; `position` where there is none."""
    end = position
    for _, header in iter_batches(batches):
        end = max(end, header.end_offset)
    return end


def common_end(former_end: int, new_end: int, opened_at: int | None, differs_at: int) -> int:
    """Where the logs of both sites part. `opened_at`: where the new primary ended when it was
    opened, None: not known; `differs_at`: the first batch that differs, -1: none in what both
    have."""
    ends = [former_end, new_end]
    if opened_at is not None:
        ends.append(opened_at)
    if differs_at >= 0:
        ends.append(differs_at)
    return min(ends)
