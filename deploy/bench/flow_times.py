"""Times of records on their way through the flow: the rows they are in, percentiles, rates."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from deploy.errors import OperatorError
from ingest.store.open import open_store
from ingest.store.port import PageRequest, Query, RecordRow

ROWS = 10_000  # per page of a store
POLL_S = 0.05
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


def stored_records(url: str) -> int:
    """Distinct records in a store."""
    reader = open_store(url)
    try:
        return sum(reader.counts().stored.values())
    finally:
        reader.close()


def rate_of_commits(
    url: str,
    wanted: int,
    *,
    timeout_s: float,
    poll_s: float = POLL_S,
    goes_on: Callable[[], bool] = lambda: True,
) -> float:
    """Records per second into a store until it has so many. The records of the first commit that is
    seen are not counted: it starts the clock. `goes_on`: whether somebody still writes. Raises
    `OperatorError`."""
    deadline, at_first = time.monotonic() + timeout_s, stored_records(url)
    first_s: float | None = None
    while time.monotonic() < deadline and goes_on():
        count, now_s = stored_records(url), time.monotonic()
        if first_s is None and count > at_first:
            first_s, at_first = now_s, count
        if count >= wanted:
            if first_s is None or first_s == now_s:
                raise OperatorError("the backlog was stored in one batch: nothing to measure")
            return (count - at_first) / (now_s - first_s)
        time.sleep(poll_s)
    raise OperatorError(f"{stored_records(url)} of {wanted} records of a backlog were stored")
