"""What a busy site on one machine writes into its compacted topics, minute by minute.

In: days, the logs. Out: batches appended to them: commits of groups, each a batch as a coordinator
leaves them; commands of people and programs. Never: a time that is not the clock's; a key that the
product does not write so.

The rates of commands are assumed, and higher than those of any site that we know; the rate of
commits is the one of the figure: each position once a second, twenty of them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from crc32c import crc32c
from numpy.typing import NDArray

from broker.coordinator.group.records import CommittedOffset, OffsetRecord, encode
from broker.log.log import Log
from bus.contracts.groups import DISPATCHER, application_group
from bus.contracts.topics import (
    CONTROL_ACCOUNTS,
    CONTROL_MIRROR_CONFIRMED,
    CONTROL_REGISTER,
    DATA_FACE,
    DATA_VEHICLE,
    DATA_VIDEO,
    EVENT_CANDIDATE,
    METER_ARRIVED,
    METER_LATENCY,
    METER_QUALITY,
    METER_SENT,
    QUARANTINE_RECORDS,
    STATE_WATCHLIST,
    TOPICS,
)
from bus.records.batch import CRC_FROM, EPOCH_AT, HEADER_BYTES
from bus.records.build import build_batch
from bus.records.record import Record

Numbers = NDArray[np.int64]
Bytes = NDArray[np.uint8]

MINUTE_MS = 60_000
DAY_MINUTES = 1440
COMMITS_A_MINUTE = 60
"""Of each position."""

_GROUPS = {
    "ingest": (
        DATA_VEHICLE, DATA_FACE, DATA_VIDEO, QUARANTINE_RECORDS, METER_SENT, METER_ARRIVED,
    ),
    "watchlist": (DATA_VEHICLE, DATA_FACE),
    "latency": (METER_LATENCY,),
    "quality": (METER_QUALITY,),
    DISPATCHER: (EVENT_CANDIDATE,),
}  # fmt: skip
"""What each of the product's groups reads."""


class CommittedPosition(NamedTuple):
    """A partition of a topic, of which a group commits its offset."""

    group: str
    topic: str
    partition: int


POSITIONS = tuple(
    CommittedPosition(application_group(name), topic, partition)
    for name, topics in _GROUPS.items()
    for topic in topics
    for partition in range(TOPICS[topic].partitions)
)
"""Twenty, so that each comes to a commit a second."""


class TableTraffic(NamedTuple):
    """Records a day over keys of a topic, each a batch of about ``record_bytes``."""

    topic: str
    a_day: int
    keys: int
    record_bytes: int


TABLES = (
    TableTraffic(STATE_WATCHLIST, 1_000, 5_000, 500),
    TableTraffic(CONTROL_REGISTER, 2_000, 10_000, 400),
    TableTraffic(CONTROL_ACCOUNTS, 100, 1, 20_000),
    TableTraffic(CONTROL_MIRROR_CONFIRMED, 16 * DAY_MINUTES, 16, 250),
)


class CommitRows:
    """Commits of one position, in a matrix of bytes: a row each, all of one length, so that many
    are made at once; each is the batch that ``build_batch`` makes of it."""

    def __init__(self, position: CommittedPosition, now_ms: int) -> None:
        """``now_ms``: any time."""
        key, value = encode(OffsetRecord(*position, CommittedOffset(0, 0, "", 0)))
        batch = build_batch([Record(key, value, timestamp_ms=now_ms)])
        assert value is not None
        self.size = len(batch)
        self._row = np.frombuffer(bytes(batch), np.uint8)
        # The value, and after it the count of headers, end the batch.
        self._value_at = self.size - 1 - len(value)
        self.key = key

    def made(self, committed: Numbers, times_ms: Numbers, base_offsets: Numbers) -> Bytes:
        """A row for each; the arguments are of 64-bit integers."""
        rows = np.tile(self._row, (len(committed), 1))
        at = self._value_at
        for place, column in (
            (0, base_offsets), (27, times_ms), (35, times_ms), (at + 2, committed),
            (at + 16, times_ms),
        ):  # fmt: skip
            rows[:, place : place + 8] = _big_endian(column, 8)
        rows[:, EPOCH_AT : EPOCH_AT + 4] = 0
        view, size = memoryview(rows.tobytes()), self.size
        sums = [
            crc32c(view[at + CRC_FROM : at + size]) for at in range(0, size * len(rows), size)
        ]
        rows[:, 17:21] = _big_endian(np.array(sums, np.int64), 4)
        return rows


def _big_endian(column: Numbers, size: int) -> Bytes:
    """The low bytes of each number."""
    return column.astype(">i8").view(np.uint8).reshape(-1, 8)[:, 8 - size :]


class GroupCommits:
    """The commits of a group, all in one partition of the offsets topic."""

    def __init__(self, log: Log, positions: list[CommittedPosition]) -> None:
        self.log = log
        self._rows = [CommitRows(one, 1_000_000_000_000) for one in positions]
        self._committed = 0

    @property
    def keys(self) -> int:
        return len(self._rows)

    def write_minute(self, now_ms: int, rounds: int = COMMITS_A_MINUTE) -> int:
        """The commits of the minute that ends now; how many bytes."""
        log, count = self.log, len(self._rows)
        numbers = np.arange(rounds, dtype=np.int64)
        times_ms = now_ms - MINUTE_MS + numbers * MINUTE_MS // rounds
        parts = [
            rows.made(self._committed + numbers, times_ms, log.end_offset + numbers * count + index)
            for index, rows in enumerate(self._rows)
        ]
        self._committed += rounds
        chunk = np.concatenate(parts, axis=1).tobytes()  # a round after another
        log.append_as_follower(chunk, now_ms)
        log.advance_high_watermark(log.end_offset)
        return len(chunk)


class TableCommands:
    """The records of one compacted topic."""

    def __init__(self, log: Log, traffic: TableTraffic, randomness: random.Random) -> None:
        self.log, self.traffic = log, traffic
        self._random = randomness
        self._owed = 0.0

    def write_all(self, now_ms: int) -> None:
        """Each key once: what a site has on its first day."""
        for number in range(self.traffic.keys):
            self._write(number, now_ms)

    def write_minute(self, now_ms: int) -> int:
        """What comes in a minute; how many bytes."""
        self._owed += self.traffic.a_day / DAY_MINUTES
        written = 0
        while self._owed >= 1:
            self._owed -= 1
            written += self._write(self._random.randrange(self.traffic.keys), now_ms)
        return written

    def _write(self, number: int, now_ms: int) -> int:
        key = b"%s/%06d" % (self.traffic.topic.encode(), number)
        value = self._random.randbytes(self.traffic.record_bytes - len(key) - HEADER_BYTES - 12)
        batch = build_batch([Record(key, value, timestamp_ms=now_ms)])
        self.log.append(batch, leader_epoch=0, now_ms=now_ms)
        self.log.advance_high_watermark(self.log.end_offset)
        return len(batch)


def positions_by_group() -> Iterator[tuple[str, list[CommittedPosition]]]:
    """Each group with what it commits."""
    for group in dict.fromkeys(one.group for one in POSITIONS):
        yield group, [one for one in POSITIONS if one.group == group]
