"""What a batch changes in the aggregates: totals, quality cells, counters, histograms. Pure.

In: rows, cells, counters. Out: changes by the key of a cell.
Never: HBase, nor the question which attempt counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from bus.contracts.meters import CumulativeCount, LatencyCell, QualityCell
from bus.domain.times import MINUTE_MS, minute_of
from ingest.store.hbase.keys import cell_key, cell_kind, parts_of, text
from ingest.store.hbase.ledger import Cell, Change
from ingest.store.port import QualitySum, RecordRow, RejectedRow
from ingest.store.quality_cells import counted_cell, empty_cell, stored_cells
from ingest.store.rollups import (
    NUMBERS,
    ODD,
    LatencyKey,
    QualityKey,
    latency_sums,
    quality_change,
    quality_sums,
)
from ingest.store.totals import DUPLICATES, REJECTED, REJECTED_DUPLICATES, STORED

# Kinds of cells: the second byte of their keys. What follows is said where each key is made.
TOTAL, CAPTURED, QUALITY = b"T", b"C", b"Q"
HISTOGRAM = b"L"
QUALITY_SUM, DEVICE_SUM, LATENCY_SUM = b"G", b"D", b"H"
"""Sums of cells (`ingest.store.rollups`): of all devices, of one device, of histograms."""
CLOCKS = b"K"
"""One cell: by how much the captures of each device are corrected."""
COUNTER = {"sent": b"S", "accepted": b"A"}
"""By the number of a quality cell that it adds to."""

COUNT = "count"
QUALITY_NUMBERS = ("sent", "accepted", "arrived", "valid", "partly_read", "stored", "duplicates")
REASON = "rejected "  # before a reason, among a quality cell's numbers


def total_key(name: str, kind: str, reason: str = "") -> bytes:
    """A total over the whole store."""
    return cell_key(TOTAL, "", name, kind, reason)


def clocks_key() -> bytes:
    """Of all devices whose clocks are off, which are few."""
    return cell_key(CLOCKS, "")


def captured_key(row: RecordRow) -> bytes:
    """How many records of a kind were captured in a minute: answers what a day holds without
    reading its index, which has millions of entries in a city."""
    return cell_key(CAPTURED, row.kind, minute_of(row.captured_at_ms), row.kind)


def quality_key(cell: QualityCell | CumulativeCount) -> bytes:
    """The quality cell that a counter belongs to, or that it is."""
    about = (cell.minute_ms, cell.kind, cell.camera_ip, cell.recognizer_ip)
    return cell_key(QUALITY, cell.camera_ip, *about)


def counter_key(one: CumulativeCount) -> bytes:
    """The largest count that a producer or an edge has told of one cell in one epoch."""
    cell = (one.minute_ms, one.kind, one.camera_ip, one.recognizer_ip)
    return cell_key(COUNTER[one.adds_to], one.camera_ip, *cell, one.source, one.epoch)


def histogram_key(cell: LatencyCell) -> bytes:
    """The latencies of one class and device in one minute of storing."""
    about = (cell.minute_ms, cell.kind, cell.district_id, cell.camera_ip)
    return cell_key(HISTOGRAM, cell.camera_ip, *about)


def part_of(key: bytes) -> bytes:
    """What must be added up by one task: cells of one camera, from which the sums of that camera
    are made; every other key by itself."""
    kind = cell_kind(key)
    if kind == QUALITY:
        return bytes(text(parts_of(key, "nsss")[2]))
    if kind == HISTOGRAM:
        return bytes(text(parts_of(key, "nsss")[3]))
    return key


def quality_sum_key(key: QualityKey) -> bytes:
    """A sum of quality cells."""
    about = (key.step_ms, key.start_ms, key.kind)
    if not key.is_device:
        return cell_key(QUALITY_SUM, "", *about)
    return cell_key(DEVICE_SUM, key.camera_ip, *about, key.camera_ip, key.recognizer_ip)


def latency_sum_key(key: LatencyKey) -> bytes:
    """A sum of histograms. Those of all and of districts, which are few, lie together."""
    return cell_key(LATENCY_SUM, key.camera_ip, *key)


class AggregateUpdates:
    """Everything one batch, or one part of it, adds to cells. Sums, so that parts add up."""

    def __init__(self) -> None:
        self.numbers: dict[bytes, dict[str, int]] = {}

    def add(self, key: bytes, numbers: Mapping[str, int]) -> None:
        """Numbers are added to what is there."""
        there = self.numbers.setdefault(key, {})
        for name, count in numbers.items():
            if count:
                there[name] = there.get(name, 0) + count

    def total(self, name: str, kinds: Mapping[str, int]) -> None:
        """So many more of each kind."""
        for kind, count in kinds.items():
            self.add(total_key(name, kind), {COUNT: count})

    def records(self, rows: Sequence[RecordRow], new: Sequence[RecordRow]) -> None:
        """Records that came, and which of them are new."""
        kinds = Counter(row.kind for row in new)
        self.total(STORED, kinds)
        self.total(DUPLICATES, Counter(row.kind for row in rows) - kinds)
        for key, count in Counter(captured_key(row) for row in new).items():
            self.add(key, {COUNT: count})
        self.quality(stored_cells(rows, new))

    def rejected(self, rows: Sequence[RejectedRow], new: Sequence[RejectedRow]) -> None:
        """The same for rejected ones, by reason."""
        for (kind, reason), count in Counter((row.kind, row.reason) for row in new).items():
            self.add(total_key(REJECTED, kind, reason), {COUNT: count})
        again = Counter(row.kind for row in rows) - Counter(row.kind for row in new)
        self.total(REJECTED_DUPLICATES, again)

    def quality(self, cells: Iterable[QualityCell]) -> None:
        """Increments of quality cells."""
        for cell in cells:
            numbers = {name: getattr(cell, name) for name in QUALITY_NUMBERS}
            numbers |= {REASON + reason: count for reason, count in cell.rejected.items()}
            self.add(quality_key(cell), numbers)

    def counters(self, counters: Iterable[CumulativeCount], largest: Mapping[bytes, int]) -> None:
        """Cumulative counters: what exceeds the largest so far (by key) is added to the quality
        cell; a repeated or overtaken one adds nothing, a lost one heals with the next."""
        seen = dict(largest)
        for one in counters:
            key = counter_key(one)
            more = one.count - seen.get(key, 0)
            if more > 0:
                seen[key] = one.count
                self.add(key, {COUNT: more})
                self.quality([counted_cell(one, more)])

    def histograms(self, cells: Iterable[LatencyCell]) -> None:
        """Latencies of records that are new."""
        for cell in cells:
            buckets = {str(bucket): count for bucket, count in cell.buckets.items()}
            self.add(histogram_key(cell), buckets)


class Sums(NamedTuple):
    """What cells add to sums: those of their own camera, and those that other parts add to, too."""

    of_cameras: AggregateUpdates
    of_all: AggregateUpdates


def sums_of(cells: Mapping[bytes, Cell], more: Mapping[bytes, Mapping[str, int]]) -> Sums:
    """Of cells after a change, and what each has grown by."""
    quality, latency = [], []
    for key, cell in cells.items():
        if cell_kind(key) == QUALITY:
            after = quality_cell_of(key, cell.now)
            quality.append(quality_change(after, quality_cell_of(key, more[key])))
        elif cell_kind(key) == HISTOGRAM:
            latency.append(latency_cell_of(key, more[key]))
    found = Sums(AggregateUpdates(), AggregateUpdates())
    numbers, rejected = quality_sums(quality)
    for place, values in numbers.items():
        into = found.of_cameras if place.is_device else found.of_all
        into.add(quality_sum_key(place), dict(zip(NUMBERS, values, strict=True)))
    for (place, reason), count in rejected.items():
        into = found.of_cameras if place.is_device else found.of_all
        into.add(quality_sum_key(place), {REASON + reason: count})
    for whose, buckets in latency_sums(latency).items():
        into = found.of_cameras if whose.scope == ODD else found.of_all
        into.add(latency_sum_key(whose), {str(bucket): n for bucket, n in buckets.items()})
    return found


def quality_sum_of(key: bytes, numbers: Mapping[str, int]) -> QualitySum:
    """The sum of a row whose key is a `quality_sum_key`."""
    is_device = cell_kind(key) == DEVICE_SUM
    _, start_ms, kind, *device = parts_of(key, "nnsss" if is_device else "nns")
    camera_ip, recognizer_ip = device or ("", "")
    known = {name: numbers.get(name, 0) for name in NUMBERS}
    return QualitySum(
        start_ms=start_ms, kind=kind, camera_ip=camera_ip, recognizer_ip=recognizer_ip,
        rejected=_rejected(numbers), **known,
    )  # fmt: skip


def minute_sums(numbers: Mapping[bytes, Mapping[str, int]]) -> list[QualitySum]:
    """Of what is added to sums: those of the quality of all devices, each record in one of them."""
    return [
        quality_sum_of(key, more)
        for key, more in numbers.items()
        if cell_kind(key) == QUALITY_SUM and parts_of(key, "nns")[0] == MINUTE_MS
    ]


def latency_sum_of(key: bytes, numbers: Mapping[str, int]) -> LatencyCell:
    """The sum of a row whose key is a `latency_sum_key`."""
    _, _, start_ms, kind, district_id, camera_ip = parts_of(key, "snnsss")
    return LatencyCell(
        minute_ms=start_ms, kind=kind, district_id=district_id, camera_ip=camera_ip,
        buckets={int(bucket): count for bucket, count in numbers.items()},
    )  # fmt: skip


def added(more: Mapping[str, int]) -> Change:
    """The change of a cell to which these numbers are added."""

    def change(there: dict[str, int]) -> dict[str, int]:
        for name, count in more.items():
            there[name] = there.get(name, 0) + count
        return there

    return change


def replaced(numbers: Mapping[str, int]) -> Change:
    """The change of a cell that has these numbers afterwards."""
    return lambda _: dict(numbers)


def quality_cell_of(key: bytes, numbers: Mapping[str, int], attempt: int = 0) -> QualityCell:
    """The cell of a row whose key is a `quality_key`."""
    minute_ms, kind, camera_ip, recognizer_ip = parts_of(key, "nsss")
    cell = empty_cell((kind, camera_ip, recognizer_ip, minute_ms))
    known = {name: numbers.get(name, 0) for name in QUALITY_NUMBERS}
    return replace(cell, rejected=_rejected(numbers), attempt=attempt, **known)


def _rejected(numbers: Mapping[str, int]) -> dict[str, int]:
    return {
        name.removeprefix(REASON): count
        for name, count in numbers.items()
        if name.startswith(REASON)
    }


def latency_cell_of(key: bytes, numbers: Mapping[str, int], attempt: int = 0) -> LatencyCell:
    """The cell of a row whose key is a `histogram_key`."""
    minute_ms, kind, district_id, camera_ip = parts_of(key, "nsss")
    return LatencyCell(
        minute_ms=minute_ms, kind=kind, district_id=district_id, camera_ip=camera_ip,
        buckets={int(bucket): count for bucket, count in numbers.items()}, attempt=attempt,
    )  # fmt: skip
