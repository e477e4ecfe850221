"""Where the replicas of new partitions go.

In: brokers that may lead, how many partitions and replicas, where to start; or the replicas that a
request names. Out: replica lists, the preferred leader first. Never: dice; the start comes in. The
rule is Kafka's rack-unaware one (controller_and_tools.md 22): leaders round robin, followers
shifted by one more each round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from broker.controller.decisions.decision import RefusedError
from bus.errors import ErrorCode


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


def checked_factor(factor: int, alive: int) -> int:
    """The factor, if so many brokers may lead. Raises `RefusedError`."""
    if factor <= 0:
        raise RefusedError(
            ErrorCode.INVALID_REPLICATION_FACTOR, "the replication factor must be larger than 0"
        )
    if factor > alive:
        raise RefusedError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"replication factor {factor} is larger than the {alive} brokers registered",
        )
    return factor


def given_assignments(
    given: Mapping[int, tuple[int, ...]], alive: Sequence[int]
) -> list[tuple[int, ...]]:
    """The replicas that a request names, in order. Raises `RefusedError`."""
    if sorted(given) != list(range(len(given))):
        raise RefusedError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions must be numbered 0, 1, 2, ..."
        )
    assignments = [tuple(given[index]) for index in range(len(given))]
    for replicas in assignments:
        check_replicas(replicas, alive, len(assignments[0]))
    return assignments


def check_replicas(replicas: Sequence[int], alive: Sequence[int], factor: int) -> None:
    """One partition's replicas. Raises `RefusedError`."""
    if not replicas or len(replicas) != factor:
        raise RefusedError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "every partition needs the same number of replicas, at least one",
        )
    if len(set(replicas)) != len(replicas) or not set(replicas) <= set(alive):
        raise RefusedError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"replicas {list(replicas)} must be distinct brokers of {list(alive)}",
        )
