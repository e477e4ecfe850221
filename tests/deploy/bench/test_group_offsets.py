"""How far behind a group stands at the other site: by the commits whose acknowledgement it got."""

from __future__ import annotations

from bus.client.model import TopicPartition
from deploy.bench.mirror.group_offsets import behind_of

A, B = TopicPartition("data.vehicle", 0), TopicPartition("data.vehicle", 1)


def test_the_partition_that_stands_furthest_behind_counts():
    """From the first commit that passed what the other site has."""
    commits = [(float(n), {A: 10 * n, B: 10 * n}) for n in range(1, 9)]
    assert behind_of(commits, {A: 80, B: 80}, 9.0) == 0
    assert behind_of(commits, {A: 80, B: 75}, 9.0) == 1.0
    assert behind_of(commits, {A: 80, B: 30}, 9.0) == 5.0
    assert behind_of(commits, {A: 80}, 9.0) == 8.0, "nothing of it was copied"
