"""Into how many tasks a batch is divided. Pure.

In: the offsets of a batch, the slots there are. Out: a number of tasks. Never: Spark.
"""

from __future__ import annotations

from spark_apps.batches.message import OffsetRanges

SMALL_BATCH = 400
"""Offsets. A task costs as much as many records; up to how many one is enough was chosen, not
measured (decision 0089)."""


def tasks_for(offsets: OffsetRanges, slots: int) -> int:
    """One for a small batch, else as many as run at once."""
    count = sum(end - first for first, end in offsets.values())
    return 1 if count <= SMALL_BATCH else max(1, slots)
