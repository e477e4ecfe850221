"""What a batch changes in the aggregates: totals, quality cells, counters, histograms. Pure.

In: rows, cells, counters. Out: changes by the key of a cell.
Never: HBase, nor the question which attempt counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from bus.contracts.meters import CumulativeCount, LatencyCell, QualityCell
from bus.domain.times import minute_of
from ingest.store.hbase.keys import cell_key, parts_of
from ingest.store.hbase.ledger import Change
from ingest.store.port import RecordRow, RejectedRow
from ingest.store.quality_cells import counted_cell, empty_cell, stored_cells
from ingest.store.totals import DUPLICATES, REJECTED, REJECTED_DUPLICATES, STORED

# Kinds of cells: the second byte of their keys. What follows is said where each key is made.
TOTAL, CAPTURED, QUALITY = b"T", b"C", b"Q"
HISTOGRAM = b"L"
COUNTER = {"sent": b"S", "accepted": b"A"}
"""By the number of a quality cell that it adds to."""

COUNT = "count"
QUALITY_NUMBERS = ("sent", "accepted", "arrived", "valid", "partly_read", "stored")
REASON = "rejected "  # before a reason, among a quality cell's numbers


def total_key(name: str, kind: str, reason: str = "") -> bytes:
    """A total over the whole store."""
    return cell_key(TOTAL, "", name, kind, reason)


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
        self.quality(stored_cells(new))

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

    def counters(
        self, counters: Iterable[CumulativeCount], largest: Mapping[bytes, int]
    ) -> None:
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


def added(more: Mapping[str, int]) -> Change:
    """The change of a cell to which these numbers are added."""

    def change(there: dict[str, int]) -> dict[str, int]:
        for name, count in more.items():
            there[name] = there.get(name, 0) + count
        return there

    return change


def quality_cell_of(key: bytes, numbers: Mapping[str, int], attempt: int = 0) -> QualityCell:
    """The cell of a row whose key is a `quality_key`."""
    minute_ms, kind, camera_ip, recognizer_ip = parts_of(key, "nsss")
    rejected = {
        name.removeprefix(REASON): count
        for name, count in numbers.items()
        if name.startswith(REASON)
    }
    cell = empty_cell((kind, camera_ip, recognizer_ip, minute_ms))
    known = {name: numbers.get(name, 0) for name in QUALITY_NUMBERS}
    return replace(cell, rejected=rejected, attempt=attempt, **known)


def latency_cell_of(key: bytes, numbers: Mapping[str, int], attempt: int = 0) -> LatencyCell:
    """The cell of a row whose key is a `histogram_key`."""
    minute_ms, kind, district_id, camera_ip = parts_of(key, "nsss")
    return LatencyCell(
        minute_ms=minute_ms, kind=kind, district_id=district_id, camera_ip=camera_ip,
        buckets={int(bucket): count for bucket, count in numbers.items()}, attempt=attempt,
    )  # fmt: skip
