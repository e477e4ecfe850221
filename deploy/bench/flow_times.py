"""Times of records on their way through the flow: the rows they are in, and percentiles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from deploy.errors import OperatorError
from ingest.store import open_store
from ingest.store.port import PageRequest, Query, RecordRow

ROWS = 10_000  # per page of a store
ENOUGH = 100  # for a p99 that is not just the worst one


def stored_rows(url: str, query: Query) -> Iterator[RecordRow]:
    """What a store has, page by page."""
    reader, cursor = open_store(url), ""
    try:
        while True:
            rows, cursor = reader.query(query, PageRequest(limit=ROWS, cursor=cursor))
            yield from rows
            if not cursor:
                return
    finally:
        reader.close()


def percentile_s(times_ms: Sequence[int], percent: int) -> float:
    """In seconds. Raises `OperatorError` if there are too few times."""
    if len(times_ms) < ENOUGH:
        raise OperatorError(f"{len(times_ms)} records after the warm-up make no percentile")
    return sorted(times_ms)[len(times_ms) * percent // 100] / 1000
