"""Tasks follow slots, partitions and cores."""

from __future__ import annotations

import pytest

from spark_apps.queries.query import tasks_of


@pytest.mark.parametrize(
    ("slots", "queries", "partitions", "cores", "tasks"),
    [(8, 3, 20, 2, 2), (4, 1, 8, 2, 2), (4, 1, 8, 16, 4), (32, 2, 64, 32, 16), (32, 1, 6, 32, 6),
     (1, 3, 6, 1, 1)],
)  # fmt: skip
def test_reading_takes_its_share_of_the_slots(
    slots: int, queries: int, partitions: int, cores: int, tasks: int
) -> None:
    """It was two, whatever the machine."""
    assert tasks_of(slots, queries, partitions, cores) == tasks
