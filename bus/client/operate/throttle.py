"""The brakes of a move (pure): which configuration keys hold copying to so many bytes a second.

In: where replicas are and where they go. Out: changes of configurations as `act.alter_configs`
takes them. Never: a request. As kafka-reassign-partitions does it: the rate stands on every broker
that gives or takes, the replicas it is for stand on the topics; without the second the rate would
brake the ordinary replication too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from bus.client.operate.assignment import TopicPartition
from bus.client.operate.config_resources import BROKER, TOPIC, Change, Changes

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"
WITHIN_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"

Assignment = Mapping[TopicPartition, Sequence[int]]
Resources = dict[tuple[int, str], Changes]


def brake(before: Assignment, after: Assignment, bytes_per_second: int) -> Resources:
    """Hold every copy of the move to this rate: per giving and per taking broker."""
    moving = {
        place: [broker for broker in replicas if broker not in before.get(place, ())]
        for place, replicas in sorted(after.items())
    }
    givers = {b for place, new in moving.items() if new for b in before.get(place, ())}
    takers = {broker for new in moving.values() for broker in new}
    found: Resources = {}
    for broker in sorted(givers | takers):
        rate = str(bytes_per_second)
        found[BROKER, str(broker)] = [
            (LEADER_RATE, Change.SET, rate),
            (FOLLOWER_RATE, Change.SET, rate),
        ]
    for topic in sorted({place[0] for place, new in moving.items() if new}):
        places = [place for place, new in moving.items() if place[0] == topic and new]
        found[TOPIC, topic] = [
            (LEADER_REPLICAS, Change.SET, _listed(places, before)),
            (FOLLOWER_REPLICAS, Change.SET, _listed(places, moving)),
        ]
    return found


def brake_within(brokers: Iterable[int], bytes_per_second: int) -> Resources:
    """Hold copies between log directories of one broker to this rate."""
    rate = str(bytes_per_second)
    return {(BROKER, str(one)): [(WITHIN_RATE, Change.SET, rate)] for one in sorted(set(brokers))}


def release(topics: Iterable[str], brokers: Iterable[int]) -> Resources:
    """Take every brake off again."""
    found: Resources = {
        (BROKER, str(broker)): [
            (LEADER_RATE, Change.UNSET, None),
            (FOLLOWER_RATE, Change.UNSET, None),
            (WITHIN_RATE, Change.UNSET, None),
        ]
        for broker in sorted(set(brokers))
    }
    for topic in sorted(set(topics)):
        found[TOPIC, topic] = [
            (LEADER_REPLICAS, Change.UNSET, None),
            (FOLLOWER_REPLICAS, Change.UNSET, None),
        ]
    return found


def _listed(places: Iterable[TopicPartition], replicas: Assignment) -> str:
    return ",".join(f"{place[1]}:{broker}" for place in places for broker in replicas[place])
