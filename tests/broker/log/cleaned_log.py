"""Logs with holes, as a cleaner leaves them, and a plain list of what is in them.

Batches of several codecs and both timestamp types; of the closed segments only the newest record of
each key stays: batches lose records inside, become empty, or go, and one segment stands for many.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace

from broker.clock.real import RealClock
from broker.config.views import TopicConfig
from broker.disk.port import Disk
from broker.log.log import Log
from broker.log.replacement import replace_segments
from broker.log.replacement_files import Span, write_cleaned
from broker.log.segment import Segment
from bus.records.batch import BatchHeader, Buffer, iter_batches
from bus.records.build import build_batch
from bus.records.read import read_records
from bus.records.record import Record
from bus.records.retain import retain

NOW_MS = 1_760_000_000_000
KEYS = 5
STEP_MS = 1000

Batches = list[tuple[BatchHeader, bytes]]


def topic_config(dice: random.Random) -> TopicConfig:
    """Small segments, indexes of any density."""
    return replace(
        TopicConfig(), segment_bytes=dice.choice((600, 1500)),
        index_interval_bytes=dice.choice((0, 200, 4096)), compacted=True,
        log_append_time=dice.random() < 0.2,
    )  # fmt: skip


def fill(log: Log, dice: random.Random, batches: int, epoch: int = 1) -> int:
    """Append batches of some records under a few keys, epochs rising; the last epoch."""
    for number in range(batches):
        epoch += dice.random() < 0.1
        records = [
            Record(b"key-%d" % dice.randrange(KEYS), dice.randbytes(dice.randrange(60)),
                   timestamp_ms=NOW_MS + number * STEP_MS - dice.randrange(5 * STEP_MS))
            for _ in range(dice.randrange(1, 6))
        ]  # fmt: skip
        batch = build_batch(records, compression=dice.choice((0, 0, 1, 4)))
        log.append(batch, leader_epoch=epoch, now_ms=NOW_MS + number * STEP_MS)
    log.advance_high_watermark(log.end_offset)
    log.flush()
    return epoch


def clean(log: Log, disk: Disk, dice: random.Random) -> None:
    """Replace groups of closed segments by what a cleaner would keep of them."""
    newest = _newest(log)
    at = 0
    while at < len(log.segments.all) - 1:
        count = min(dice.randrange(1, 6), len(log.segments.all) - 1 - at)
        group = log.segments.all[at : at + count]
        if dice.random() < 0.8:
            _replace(log, disk, group, newest)
            count = 1
        at += count


def clean_all(log: Log, disk: Disk) -> int:
    """Replace all closed segments by one; how many batches went."""
    before = len(batches_of(log))
    _replace(log, disk, log.segments.all[:-1], _newest(log))
    return before - len(batches_of(log))


def _newest(log: Log) -> dict[bytes, int]:
    return {
        bytes(record.key or b""): record.offset
        for _, data in batches_of(log)
        for record in read_records(data)
    }


def _replace(log: Log, disk: Disk, group: list[Segment], newest: dict[bytes, int]) -> None:
    _write(log, disk, group, newest)
    asyncio.run(replace_segments(log, group, disk, log._files, RealClock(1)))


async def clean_in_loop(log: Log, disk: Disk) -> None:
    """As `clean_all`, where a loop runs already."""
    group = log.segments.all[:-1]
    _write(log, disk, group, _newest(log))
    await replace_segments(log, group, disk, log._files, RealClock(1))


def _write(log: Log, disk: Disk, group: list[Segment], newest: dict[bytes, int]) -> None:
    after = log.segments.all[log.segments.all.index(group[-1]) + 1]
    span = Span(group[0].base_offset, after.base_offset)
    kept: list[Buffer] = []
    for segment in group:
        data = bytes(segment.read_bytes(0, segment.size_bytes))
        for position, header in iter_batches(data):
            made = retain(
                data[position : position + header.size_bytes],
                lambda record: newest[bytes(record.key or b"")] == record.offset,
                delete_horizon_ms=NOW_MS,
                keeps_empty=header.end_offset == span.end_offset,
            )
            kept += [] if made is None else [made]
    write_cleaned(disk, log.directory, span, kept, [], log.config.index_interval_bytes)


def batches_of(log: Log) -> Batches:
    """All batches as they lie in the files, from their first byte on."""
    found: Batches = []
    for segment in log.segments.all:
        data = bytes(segment.read_bytes(0, segment.size_bytes))
        found += [
            (header, data[at : at + header.size_bytes]) for at, header in iter_batches(data)
        ]
    return found


def last_values(batches: Batches) -> dict[bytes, tuple[int, bytes]]:
    """The newest record of each key: its offset and value."""
    return {
        bytes(record.key or b""): (record.offset, bytes(record.value or b""))
        for _, data in batches
        for record in read_records(data)
    }
