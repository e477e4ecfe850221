"""What a batch changes in the aggregates: totals, quality cells, counters, histograms, summaries.
Pure.

In: rows, cells, counters, summaries. Out: changes by the key of a cell.
Never: HBase, nor the question which attempt counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from bus.contracts.meters import LatencyCell, QualityCell, Sent
from bus.domain.times import minute_of
from ingest.store.hbase.keys import cell_key
from ingest.store.hbase.ledger import Change
from ingest.store.port import LatencySummary, RecordRow, RejectedRow
from ingest.store.totals import DUPLICATES, REJECTED, REJECTED_DUPLICATES, STORED

# Kinds of cells: the first byte of their keys. What follows is said where each key is made.
TOTAL, CAPTURED, QUALITY, SENT = b"T", b"C", b"Q", b"S"
HISTOGRAM, SUMMARY, SUMMARY_BY_TIME = b"L", b"M", b"N"

COUNT = "count"
QUALITY_NUMBERS = ("sent", "arrived", "valid", "partly_read")
REASON = "rejected "  # before a reason, among a quality cell's numbers
SUMMARY_NUMBERS = (COUNT, "p50_ms", "p95_ms", "p99_ms", "max_ms")


def total_key(name: str, kind: str, reason: str = "") -> bytes:
    """A total over the whole store."""
    return cell_key(TOTAL, name, kind, reason)


def captured_key(row: RecordRow) -> bytes:
    """How many records of a kind were captured in a minute: answers what a day holds without
    reading its index, which has millions of entries in a city."""
    return cell_key(CAPTURED, minute_of(row.captured_at_ms), row.kind)


def quality_key(cell: QualityCell | Sent) -> bytes:
    """The quality cell that a counter belongs to, or that it is."""
    return cell_key(QUALITY, cell.minute_ms, cell.kind, cell.camera_ip, cell.recognizer_ip)


def counter_key(sent: Sent) -> bytes:
    """The largest count that a producer has sent for one cell in one epoch."""
    cell = (sent.minute_ms, sent.kind, sent.camera_ip, sent.recognizer_ip)
    return cell_key(SENT, *cell, sent.producer, sent.epoch)


def histogram_key(cell: LatencyCell) -> bytes:
    """The latencies of one class and device in one minute of storing."""
    return cell_key(HISTOGRAM, cell.minute_ms, cell.kind, cell.district_id, cell.camera_ip)


def summary_keys(summary: LatencySummary) -> tuple[bytes, bytes]:
    """A summary lies twice: under what it is about, and under its minute beside the others'."""
    s = summary
    return (
        cell_key(SUMMARY, s.scope, s.scope_id, s.minute_ms, s.kind),
        cell_key(SUMMARY_BY_TIME, s.scope, s.minute_ms, s.scope_id, s.kind),
    )


def buckets_of(numbers: Mapping[str, int]) -> dict[int, int]:
    """A histogram's numbers as `LatencyCell` has them."""
    return {int(bucket): count for bucket, count in numbers.items()}


class AggregateUpdates:
    """Everything one batch does to cells; each may be changed several times; changes apply in the
    order of the calls."""

    def __init__(self) -> None:
        self._of: dict[bytes, list[Change]] = {}

    def add(self, key: bytes, numbers: Mapping[str, int]) -> None:
        """Numbers are added to what is there."""

        def change(there: dict[str, int]) -> dict[str, int]:
            for name, count in numbers.items():
                if count:
                    there[name] = there.get(name, 0) + count
            return there

        self._of.setdefault(key, []).append(change)

    def put(self, key: bytes, numbers: dict[str, int]) -> None:
        """Numbers take the place of what is there."""
        self._of.setdefault(key, []).append(lambda _: numbers)

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

    def counters(self, counters: Iterable[Sent], largest: Mapping[bytes, int]) -> None:
        """Cumulative counters: what exceeds the largest so far (by key) is added to the quality
        cell's `sent`; a repeated or overtaken one adds nothing, a lost one heals with the next."""
        seen = dict(largest)
        for sent in counters:
            key = counter_key(sent)
            more = sent.sent - seen.get(key, 0)
            if more > 0:
                seen[key] = sent.sent
                self.add(key, {COUNT: more})
                self.add(quality_key(sent), {"sent": more})

    def histograms(self, cells: Iterable[LatencyCell]) -> None:
        """Latencies of records that are new."""
        for cell in cells:
            buckets = {str(bucket): count for bucket, count in cell.buckets.items()}
            self.add(histogram_key(cell), buckets)

    def summaries(self, summaries: Iterable[LatencySummary]) -> None:
        """A minute that is summed up again keeps the newest figures only."""
        for summary in summaries:
            numbers = {name: getattr(summary, name) for name in SUMMARY_NUMBERS}
            for key in summary_keys(summary):
                self.put(key, numbers)

    @property
    def keys(self) -> list[bytes]:
        """The cells that change."""
        return list(self._of)

    def applied(self, key: bytes) -> Change:
        """All changes of one cell, in the order of the calls."""

        def change(numbers: dict[str, int]) -> dict[str, int]:
            for one in self._of[key]:
                numbers = one(numbers)
            return numbers

        return change
