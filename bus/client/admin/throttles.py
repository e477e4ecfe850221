"""The throttles of a move (pure): the configuration keys that limit its bytes per second.

In: where replicas are and where they go. Out: changes of configurations as `act.alter_configs`
takes them. Never: a request. As kafka-reassign-partitions does it: the rate stands on every broker
that gives or takes, the replicas it is for stand on the topics; without the second the rate would
throttle the ordinary replication too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from bus.client.admin.config_resources import BROKER, TOPIC, AlterConfigOp, ConfigChanges
from bus.client.model import TopicPartition

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"
WITHIN_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"

Assignment = Mapping[TopicPartition, Sequence[int]]
Resources = dict[tuple[int, str], ConfigChanges]


def throttle_between_brokers(
    before: Assignment, after: Assignment, bytes_per_second: int
) -> Resources:
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
            (LEADER_RATE, AlterConfigOp.SET, rate),
            (FOLLOWER_RATE, AlterConfigOp.SET, rate),
        ]
    for topic in sorted({place[0] for place, new in moving.items() if new}):
        places = [place for place, new in moving.items() if place[0] == topic and new]
        found[TOPIC, topic] = [
            (LEADER_REPLICAS, AlterConfigOp.SET, _listed(places, before)),
            (FOLLOWER_REPLICAS, AlterConfigOp.SET, _listed(places, moving)),
        ]
    return found


def throttle_within_brokers(brokers: Iterable[int], bytes_per_second: int) -> Resources:
    """Hold copies between log directories of one broker to this rate."""
    rate = str(bytes_per_second)
    return {
        (BROKER, str(one)): [(WITHIN_RATE, AlterConfigOp.SET, rate)] for one in sorted(set(brokers))
    }


def remove_throttles(topics: Iterable[str], brokers: Iterable[int]) -> Resources:
    """Remove every throttle."""
    found: Resources = {
        (BROKER, str(broker)): [
            (LEADER_RATE, AlterConfigOp.DELETE, None),
            (FOLLOWER_RATE, AlterConfigOp.DELETE, None),
            (WITHIN_RATE, AlterConfigOp.DELETE, None),
        ]
        for broker in sorted(set(brokers))
    }
    for topic in sorted(set(topics)):
        found[TOPIC, topic] = [
            (LEADER_REPLICAS, AlterConfigOp.DELETE, None),
            (FOLLOWER_REPLICAS, AlterConfigOp.DELETE, None),
        ]
    return found


def _listed(places: Iterable[TopicPartition], replicas: Assignment) -> str:
    return ",".join(f"{place[1]}:{broker}" for place in places for broker in replicas[place])
