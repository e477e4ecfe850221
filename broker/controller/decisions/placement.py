"""Where the replicas of new partitions go.

In: brokers that may lead, how many partitions and replicas, where to start. Out: replica lists,
the preferred leader first. Never: dice; the start comes in. The rule is Kafka's rack-unaware one
(controller_and_tools.md 22): leaders round robin, followers shifted by one more each round.
"""

from __future__ import annotations

from collections.abc import Sequence


def place(
    broker_ids: Sequence[int], partitions: int, replication_factor: int, start: int
) -> list[tuple[int, ...]]:
    """Replica lists of `partitions` partitions; `replication_factor` at most the brokers."""
    count = len(broker_ids)
    return [
        tuple(
            broker_ids[position]
            for position in _positions(start + index, (start + index) // count, count)[
                :replication_factor
            ]
        )
        for index in range(partitions)
    ]


def _positions(leader: int, rounds: int, count: int) -> list[int]:
    """All brokers in the order in which one partition prefers them."""
    first = leader % count
    if count == 1:
        return [first]
    others = count - 1
    shift = rounds % others
    return [first, *((first + 1 + (shift + step) % others) % count for step in range(others))]
