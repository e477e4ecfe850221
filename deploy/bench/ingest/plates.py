"""How long the question for one plate takes in a large store.

In: how many records. Out: seconds. Never: the same plate twice.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bus.wall_clock import now_ms
from ingest.store import open_store
from ingest.store.port import PageRequest, Position, Query, RecordRow, StoreBatch

RECORDS = 10_000_000
PER_BATCH = 50_000
PLATES = 1_000_000  # cars of a city; each was seen ten times on average
QUESTIONS = 1_000
DAYS_MS = 30 * 86_400_000
BODY = b"{" + b" " * 600 + b"}"  # as long as what a camera writes


def in_sqlite(records: int = RECORDS) -> float:
    """p99 of `this plate, 30 days`, in milliseconds."""
    with tempfile.TemporaryDirectory(prefix="databus-bench-") as folder:
        url = f"sqlite://{Path(folder) / 'records.db'}"
        start_ms = now_ms() - DAYS_MS
        _fill(url, records, start_ms)
        return _asked(url, start_ms)


def _fill(url: str, records: int, start_ms: int) -> None:
    store, dice = open_store(url, "write"), random.Random(1)
    for first in range(0, records, PER_BATCH):
        end = min(first + PER_BATCH, records)
        place = Position(
            application="bench", cluster_id="bench", topic="data.vehicle", topic_id="bench",
            partition=0, start_offset=first, end_offset=end,
        )  # fmt: skip
        store.apply(StoreBatch(rows=list(_rows(first, end, records, start_ms, dice))), [place])
    store.close()


def _rows(
    first: int, end: int, records: int, start_ms: int, dice: random.Random
) -> Iterator[RecordRow]:
    """Spread evenly over the month, by time."""
    for number in range(first, end):
        captured_at_ms = start_ms + DAYS_MS * number // records
        plate = f"京{dice.randrange(PLATES):06d}"
        camera = dice.randrange(2_000)
        yield RecordRow(
            record_id=f"bench-{number}", kind="vehicle", checkpoint_id=f"c{camera % 500}",
            district_id=f"d{camera % 10}", camera_ip=f"10.0.{camera // 250}.{camera % 250}",
            recognizer_ip="", captured_at_ms=captured_at_ms, received_at_ms=captured_at_ms,
            plate_number=plate, plate_key=plate, body=BODY,
        )  # fmt: skip


def _asked(url: str, start_ms: int) -> float:
    reader, dice, took = open_store(url), random.Random(2), []
    for plate in dice.sample(range(PLATES), QUESTIONS):
        began = time.monotonic()
        query = Query(kind="vehicle", plate=f"京{plate:06d}", captured_from_ms=start_ms)
        reader.query(query, PageRequest(limit=100))
        took.append(time.monotonic() - began)
    reader.close()
    return sorted(took)[QUESTIONS * 99 // 100] * 1000
