"""What the disks of a lost site hold behind the ends at which the other one took over.

In: the data directory of the lost site, the statement of the forced switch. Out: a
`DivergedPartition` per partition of records, read from the log files themselves. Never: a number
that the mirror has counted, and nothing of a site whose brokers run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bus.contracts import headers
from bus.domain.kinds import KIND_OF_TOPIC
from bus.domain.record_identity import identity_on_bus
from bus.records.batch import iter_batches
from bus.records.read import read_records
from bus.records.record import Record
from deploy.demo.two_sites.balance import DivergedPartition, OwnRecord


def diverged_partitions(
    folder: Path, partitions: Iterable[Mapping[str, Any]]
) -> list[DivergedPartition]:
    """Of every partition of records that the forced switch has named, as `mirror report --json`
    says it."""
    return [
        DivergedPartition(
            topic=one["topic"], partition=one["partition"], end=one["end"],
            heard_end=one["heard_end"], heard_ms=one["heard_ms"],
            known_missing=one["known_missing"],
            records=_longest(folder, one["topic"], one["partition"], one["end"]),
        )
        for one in partitions
        if one["topic"] in KIND_OF_TOPIC and one["end"] >= 0
    ]  # fmt: skip


def _longest(folder: Path, topic: str, partition: int, end: int) -> Sequence[OwnRecord]:
    """Of the replica that goes furthest: what is acknowledged is on each that was in sync."""
    replicas = [
        list(_records(path, topic, partition, end))
        for path in folder.rglob(f"{topic}-{partition}")
        if path.is_dir()
    ]
    return max(replicas, key=len, default=[])


def _records(path: Path, topic: str, partition: int, end: int) -> Iterable[OwnRecord]:
    segments = sorted(path.glob("*.log"))
    bases = [int(each.stem) for each in segments]
    for number, segment in enumerate(segments):
        if number + 1 < len(segments) and bases[number + 1] <= end:
            continue
        data = segment.read_bytes()
        for at, header in iter_batches(data):
            if header.is_control or header.end_offset <= end:
                continue
            for record in read_records(data, at):
                if record.offset >= end:
                    yield OwnRecord(record.offset, _id(record, topic, partition))


def _id(record: Record, topic: str, partition: int) -> str:
    header = dict(record.headers).get(headers.RECORD_ID)
    text = "" if header is None else bytes(header).decode("utf-8", "replace")
    value = None if record.value is None else bytes(record.value)
    return identity_on_bus(text, topic, partition, record.offset, value)
