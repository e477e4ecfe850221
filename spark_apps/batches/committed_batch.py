"""The numbers of a batch that is committed, over all devices. Pure.

In: what was judged and what the store has made of it, here or in executors. Out: `CommittedBatch`,
which `spark_apps.progress.metrics` shows. Never: one number computed from another; that they
disagree is what they are for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from bus.contracts.meters import LatencyCell
from ingest.store.hbase import aggregates
from ingest.store.hbase.keys import cell_kind
from ingest.store.port import Applied, QualitySum, RecordRow, StoreBatch
from ingest.store.totals import DUPLICATES, REJECTED, REJECTED_DUPLICATES, STORED, Total
from monitor.models.histogram import upper_ms

Numbers = Mapping[str, int]


class CommittedBatch(NamedTuple):
    """`totals` are the store's: stored, duplicates, rejected by reason. `arrived`, by kind, is what
    edges have told since the batch before, `valid` what the judge found on the bus; `latencies` are
    the histograms of what is new. `unarrived`, by kind, are records whose producer gave them a time
    that is no arrival."""

    totals: list[Total]
    arrived: Numbers
    valid: Numbers
    latencies: list[LatencyCell]
    unarrived: Numbers

    def elapsed(self) -> Iterable[tuple[str, int, int]]:
        """Of each kind and bucket: milliseconds from the capture to the store, how many records."""
        for cell in self.latencies:
            for bucket, records in cell.buckets.items():
                yield cell.kind, upper_ms(bucket), records


def of_store_batch(
    batch: StoreBatch, applied: Applied, latencies: Iterable[LatencyCell]
) -> CommittedBatch:
    """Of a batch that this process has handed to its store, which notes in each row that is new
    when it was stored."""
    valid: Counter[str] = Counter()
    for cell in batch.quality:
        valid[cell.kind] += cell.valid
    return CommittedBatch(
        _totals_of(batch), applied.accepted, valid, list(latencies), unarrived_of(batch.rows)
    )


def unarrived_of(rows: Iterable[RecordRow]) -> dict[str, int]:
    """By kind, how many came with a time that is no arrival."""
    return dict(Counter(row.kind for row in rows if row.has_untrue_arrival))


def of_sums(
    totals: list[Total],
    sums: Iterable[QualitySum],
    latencies: list[LatencyCell],
    unarrived: Numbers,
) -> CommittedBatch:
    """Of a batch that executors have written: what it adds to the sums of each minute."""
    arrived: Counter[str] = Counter()
    valid: Counter[str] = Counter()
    for one in sums:
        arrived[one.kind] += one.accepted
        valid[one.kind] += one.valid
    return CommittedBatch(totals, arrived, valid, latencies, unarrived)


def merged_histograms(changes: Mapping[bytes, Numbers]) -> dict[bytes, dict[str, int]]:
    """Of what is added to cells, the histograms: one for each kind, under the key of no device."""
    merged = aggregates.AggregateUpdates()
    for key, numbers in changes.items():
        if cell_kind(key) == aggregates.HISTOGRAM:
            kind = aggregates.latency_cell_of(key, {}).kind
            whole = LatencyCell(kind=kind, district_id="", camera_ip="", minute_ms=0, buckets={})
            merged.add(aggregates.histogram_key(whole), numbers)
    return merged.numbers


def _totals_of(batch: StoreBatch) -> list[Total]:
    counts: Counter[tuple[str, str, str]] = Counter()
    for row in batch.rows:
        counts[STORED if row.stored_at_ms else DUPLICATES, row.kind, ""] += 1
    for one in batch.rejected:
        if one.stored_at_ms:
            counts[REJECTED, one.kind, one.reason] += 1
        else:
            counts[REJECTED_DUPLICATES, one.kind, ""] += 1
    return [(*key, count) for key, count in counts.items()]
