"""How long the question for one plate takes in a large store.

In: how many records. Out: seconds. Never: the same plate twice.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bus.runtime.wall_clock import now_ms
from deploy.bench.filled_store import fill_store
from deploy.errors import OperatorError
from deploy.servers.hbase import start_hbase
from ingest.store.open import open_store
from ingest.store.port import PageRequest, Query, RecordRow

RECORDS = 10_000_000
RECORDS_IN_HBASE = 1_000_000
SEEN = 10  # times that a car was seen, on average
QUESTIONS = 1_000
DAYS_MS = 30 * 86_400_000
BODY = b"{" + b" " * 600 + b"}"  # as long as what a camera writes


def in_sqlite(records: int = RECORDS) -> float:
    """p99 of `this plate, 30 days`, in milliseconds."""
    with tempfile.TemporaryDirectory(prefix="databus-bench-") as folder:
        url = f"sqlite://{Path(folder) / 'records.db'}"
        return _measured(url, records)


def in_hbase(records: int = RECORDS_IN_HBASE) -> dict[str, float]:
    """The same, with one region server; and the bytes of a record on the region server's disk."""
    with (
        tempfile.TemporaryDirectory(prefix="databus-bench-") as folder,
        start_hbase(Path(folder)) as hbase,
    ):
        took_ms = _measured(f"hbase://{hbase.address}/bench", records)
        hbase.stop()  # what is in memory goes to files, and what went there is a log no more
        data = Path(folder) / "data" / "hbase" / "data"  # of tables, without their log
        size = sum(path.stat().st_size for path in data.rglob("*") if path.is_file())
    if not size:
        raise OperatorError(f"HBase left no files in {data}")
    return {"ingest-plate-b": took_ms, "ingest-store-bytes": size / records}


def _measured(url: str, records: int) -> float:
    start_ms = now_ms() - DAYS_MS
    _fill(url, records, start_ms)
    return _asked(url, start_ms, records // SEEN)


def _fill(url: str, records: int, start_ms: int) -> None:
    rng = random.Random(1)
    fill_store(url, records, lambda first, end: _rows(first, end, records, start_ms, rng))


def _rows(
    first: int, end: int, records: int, start_ms: int, rng: random.Random
) -> Iterator[RecordRow]:
    """Spread evenly over the month, by time."""
    for number in range(first, end):
        captured_at_ms = start_ms + DAYS_MS * number // records
        plate = f"京{rng.randrange(records // SEEN):06d}"
        camera = rng.randrange(2_000)
        yield RecordRow(
            record_id=f"bench-{number}", kind="vehicle", checkpoint_id=f"c{camera % 500}",
            district_id=f"d{camera % 10}", camera_ip=f"10.0.{camera // 250}.{camera % 250}",
            recognizer_ip="", captured_at_ms=captured_at_ms, received_at_ms=captured_at_ms,
            plate_number=plate, plate_key=plate, body=BODY,
        )  # fmt: skip


def _asked(url: str, start_ms: int, plates: int) -> float:
    reader, rng, took = open_store(url), random.Random(2), []
    for plate in rng.sample(range(plates), QUESTIONS):
        began = time.monotonic()
        query = Query(kind="vehicle", plate=f"京{plate:06d}", captured_from_ms=start_ms)
        reader.query(query, PageRequest(limit=100))
        took.append(time.monotonic() - began)
    reader.close()
    return sorted(took)[QUESTIONS * 99 // 100] * 1000
