"""A store of the bench's own, filled as ingest fills it: batch after batch, each with its position.

In: an address, how many records, what makes some of them. Out: nothing; they are stored. Never: a
store that the product uses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing

from ingest.store.open import open_store
from ingest.store.port import Position, RecordRow, StoreBatch

PER_BATCH = 50_000


def fill_store(
    url: str, records: int, rows: Callable[[int, int], Iterable[RecordRow]]
) -> None:
    """`rows` makes those from one number up to another."""
    with closing(open_store(url, "write")) as store:
        for first in range(0, records, PER_BATCH):
            end = min(first + PER_BATCH, records)
            place = Position(
                application="bench", cluster_id="bench", topic="data.vehicle", topic_id="bench",
                partition=0, start_offset=first, end_offset=end,
            )  # fmt: skip
            store.apply(StoreBatch(rows=list(rows(first, end))), [place])
