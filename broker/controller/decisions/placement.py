"""Where the replicas of new partitions go.

In: the brokers with their racks, how many partitions and replicas, where to start; or the replicas
that a request names. Out: replica lists, the preferred leader first. Never: dice; the start comes
in. Kafka: StripedReplicaPlacer; the older rule of controller_and_tools.md 22 for one rack.

Leaders go round the brokers that are in service, racks in turn, so that each leads as often as
any other. Followers come from the other racks first, shifted by one more each round, so that the
load of a dead broker is spread over all. Brokers that are fenced get replicas only where there are
too few others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from broker.controller.decisions.decision import RefusedError
from broker.metadata.image import BrokerImage, MetadataImage
from bus.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class Place:
    """A broker that may get replicas."""

    broker_id: int
    rack: str | None = None
    fenced: bool = False


def places(image: MetadataImage) -> list[Place]:
    """Every broker that may get replicas, in the order of their ids."""
    return [
        Place(broker.broker_id, broker.rack, not broker.is_active)
        for _, broker in sorted(image.brokers.items())
        if not _is_cordoned(broker)
    ]


def _is_cordoned(broker: BrokerImage) -> bool:
    """All its directories take no new replicas (KIP-1066)."""
    return bool(broker.log_dirs) and set(broker.log_dirs) <= set(broker.cordoned_log_dirs)


def place(
    brokers: Sequence[Place], partitions: int, replication_factor: int, start: int
) -> list[tuple[int, ...]]:
    """Replica lists of `partitions` partitions; `replication_factor` at most the brokers, of whom
    at least one must be in service."""
    usable = _rack_by_rack([one for one in brokers if not one.fenced])
    fenced = _rack_by_rack([one for one in brokers if one.fenced])
    return [
        _replicas(usable, fenced, replication_factor, start + index)
        for index in range(partitions)
    ]


def _rack_by_rack(brokers: Sequence[Place]) -> list[Place]:
    """One of each rack in turn, until all are listed."""
    racks: dict[str | None, list[Place]] = {}
    for broker in brokers:
        racks.setdefault(broker.rack, []).append(broker)
    ordered = [racks[name] for name in sorted(racks, key=lambda name: (name is None, name or ""))]
    longest = max((len(rack) for rack in ordered), default=0)
    return [rack[turn] for turn in range(longest) for rack in ordered if turn < len(rack)]


def _replicas(
    usable: Sequence[Place], fenced: Sequence[Place], factor: int, position: int
) -> tuple[int, ...]:
    candidates = _preference(usable, position) + _preference(fenced, position)
    chosen: list[Place] = []
    # A rack is used twice only when every rack with somebody in service has been used as often.
    while len(chosen) < factor:
        counts: dict[str | None, int] = {}
        for one in chosen:
            counts[one.rack] = counts.get(one.rack, 0) + 1
        left = [one for one in candidates if one not in chosen]
        chosen.append(min(left, key=lambda one: (one.fenced, counts.get(one.rack, 0))))
    return tuple(one.broker_id for one in chosen)


def _preference(brokers: Sequence[Place], position: int) -> list[Place]:
    """All brokers in the order in which one partition prefers them."""
    count = len(brokers)
    if count < 2:
        return list(brokers)
    first, rounds, others = position % count, position // count, count - 1
    shift = rounds % others
    order = [first, *((first + 1 + (shift + step) % others) % count for step in range(others))]
    return [brokers[at] for at in order]


def checked_factor(factor: int, brokers: Sequence[Place]) -> int:
    """The factor, if there are so many brokers and one of them can lead. Raises `RefusedError`."""
    if factor <= 0:
        raise RefusedError(
            ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0."
        )
    if all(one.fenced for one in brokers):
        raise RefusedError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {factor} time(s): All brokers are currently "
            f"fenced.",
        )
    if factor > len(brokers):
        raise RefusedError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {factor} time(s): The target replication factor "
            f"of {factor} cannot be reached because only {len(brokers)} broker(s) are registered.",
        )
    return factor


def given_assignments(
    image: MetadataImage, given: Mapping[int, tuple[int, ...]]
) -> list[tuple[int, ...]]:
    """The replicas that a request names, in order. Raises `RefusedError`."""
    if sorted(given) != list(range(len(given))):
        raise RefusedError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions must be numbered 0, 1, 2, ..."
        )
    assignments = [tuple(given[index]) for index in range(len(given))]
    for replicas in assignments:
        check_replicas(image, replicas, len(assignments[0]))
    return assignments


def check_replicas(image: MetadataImage, replicas: Sequence[int], factor: int) -> None:
    """One partition's replicas: registered brokers, one of them in service. Raises
    `RefusedError`."""
    if not replicas or len(replicas) != factor:
        raise RefusedError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "every partition needs the same number of replicas, at least one",
        )
    known = sorted(image.brokers)
    if len(set(replicas)) != len(replicas) or not set(replicas) <= set(known):
        raise RefusedError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"replicas {list(replicas)} must be distinct brokers of {known}",
        )
    if not any(image.is_active(one) for one in replicas):
        raise RefusedError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"All brokers specified in the manual partition assignment {list(replicas)} are "
            f"fenced or in controlled shutdown.",
        )
