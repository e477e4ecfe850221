"""Places the replicas of new partitions.

In: the brokers with their racks, how many partitions and replicas, where to start; or the replicas
that a request names. Out: replica lists, the preferred leader first. Never: randomness; the start
is a parameter. Kafka: StripedReplicaPlacer; the older rule of controller_and_tools.md 22 for one
rack.

Leaders rotate over the brokers in service, racks in turn, so that each leads equally often.
Followers come from the other racks first, shifted by one more each round, so that the load of a
dead broker is spread over all. Fenced brokers get replicas only where there are too few others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from broker.controller.decisions.decision import RefusedError
from broker.metadata.image import BrokerImage, MetadataImage
from bus.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class UsableBroker:
    """A broker that may get replicas."""

    broker_id: int
    rack: str | None = None
    fenced: bool = False


def usable_brokers(image: MetadataImage) -> list[UsableBroker]:
    """Every broker that may get replicas, in the order of their ids."""
    return [
        UsableBroker(broker.broker_id, broker.rack, not broker.is_active)
        for _, broker in sorted(image.brokers.items())
        if not _is_cordoned(broker)
    ]


def _is_cordoned(broker: BrokerImage) -> bool:
    """All its directories take no new replicas (KIP-1066)."""
    return bool(broker.log_dirs) and set(broker.log_dirs) <= set(broker.cordoned_log_dirs)


def assign_replicas(
    brokers: Sequence[UsableBroker], partitions: int, replication_factor: int, start: int
) -> list[tuple[int, ...]]:
    """Replica lists of `partitions` partitions; at least one broker must be in service, and
    `replication_factor` at most the number of brokers."""
    usable = _rack_by_rack([one for one in brokers if not one.fenced])
    fenced = _rack_by_rack([one for one in brokers if one.fenced])
    return [
        _replicas(usable, fenced, replication_factor, start + index) for index in range(partitions)
    ]


def _rack_by_rack(brokers: Sequence[UsableBroker]) -> list[UsableBroker]:
    """One of each rack in turn, until all are listed."""
    racks: dict[str | None, list[UsableBroker]] = {}
    for broker in brokers:
        racks.setdefault(broker.rack, []).append(broker)
    ordered = [racks[name] for name in sorted(racks, key=lambda name: (name is None, name or ""))]
    longest = max((len(rack) for rack in ordered), default=0)
    return [rack[turn] for turn in range(longest) for rack in ordered if turn < len(rack)]


def _replicas(
    usable: Sequence[UsableBroker], fenced: Sequence[UsableBroker], factor: int, position: int
) -> tuple[int, ...]:
    candidates = _preference(usable, position) + _preference(fenced, position)
    chosen: list[UsableBroker] = []
    # A rack is used twice only when every rack with a broker in service was used as often.
    while len(chosen) < factor:
        counts: dict[str | None, int] = {}
        for one in chosen:
            counts[one.rack] = counts.get(one.rack, 0) + 1
        left = [one for one in candidates if one not in chosen]
        chosen.append(min(left, key=lambda one: (one.fenced, counts.get(one.rack, 0))))
    return tuple(one.broker_id for one in chosen)


def _preference(brokers: Sequence[UsableBroker], position: int) -> list[UsableBroker]:
    """All brokers in one partition's order of preference."""
    count = len(brokers)
    if count < 2:
        return list(brokers)
    first, rounds, others = position % count, position // count, count - 1
    shift = rounds % others
    order = [first, *((first + 1 + (shift + step) % others) % count for step in range(others))]
    return [brokers[at] for at in order]


def checked_factor(factor: int, brokers: Sequence[UsableBroker]) -> int:
    """The factor, if there are enough brokers and one of them can lead. Raises `RefusedError`."""
    if factor <= 0:
        raise RefusedError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if all(one.fenced for one in brokers):
        raise RefusedError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {factor} time(s): All brokers are currently "
            "fenced, or have all their log directories cordoned.",
        )
    if factor > len(brokers):
        raise RefusedError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {factor} time(s): The target replication factor "
            f"of {factor} cannot be reached because only {len(brokers)} broker(s) are registered "
            f"or some brokers have all their log directories cordoned.",
        )
    return factor


def given_assignments(
    image: MetadataImage, given: Mapping[int, tuple[int, ...]]
) -> list[tuple[int, ...]]:
    """The replicas that a request names, by partition. Raises `RefusedError`."""
    factor: int | None = None
    for index, replicas in given.items():
        check_replicas(image, index, replicas, factor)
        factor = len(replicas)
    if sorted(given) != list(range(len(given))):
        raise _unusable("partitions should be a consecutive 0-based integer sequence")
    return [tuple(given[index]) for index in range(len(given))]


def check_replicas(
    image: MetadataImage, index: int, replicas: Sequence[int], factor: int | None
) -> None:
    """One partition's replicas: registered brokers, one of them in service, as many as the other
    partitions have. Raises `RefusedError`."""
    check_brokers(image, replicas)
    if factor is not None and len(replicas) != factor:
        raise _unusable(
            f"The manual partition assignment includes a partition with {len(replicas)} "
            f"replica(s), but this is not consistent with previous partitions, which have "
            f"{factor} replica(s)."
        )
    if not any(image.is_active(one) for one in replicas):
        raise _unusable(
            f"All brokers specified in the manual partition assignment for partition {index} are "
            f"fenced or in controlled shutdown."
        )


def check_brokers(image: MetadataImage, replicas: Sequence[int]) -> None:
    """Registered brokers, each once, at least one. Raises `RefusedError`."""
    if not replicas:
        raise _unusable("The manual partition assignment includes an empty replica list.")
    before = None
    for broker in sorted(replicas):
        if broker not in image.brokers:
            raise _unusable(
                f"The manual partition assignment includes broker {broker}, but no such broker "
                f"is registered."
            )
        if broker == before:
            raise _unusable(
                f"The manual partition assignment includes the broker {broker} more than once."
            )
        before = broker


def _unusable(message: str) -> RefusedError:
    return RefusedError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
