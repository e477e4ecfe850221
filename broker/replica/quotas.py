"""Replication quotas (KIP-73): how fast replicas outside the in-sync set may be filled. Pure.

In: bytes as they are copied, rates and replicas from the configuration, the time. Out: whether a
quota is used up. Never: a delay of replicas in sync.
"""

from __future__ import annotations

from collections.abc import Iterable

from broker.clock.port import Clock, monotonic_ms
from broker.config.keys_replication import RACK_AWARE
from broker.config.views import BrokerConfig
from broker.quotas.replication_quota import ReplicationQuota
from broker.replica.partition import Partition

EVERY_REPLICA = "*"


def lists_replica(throttled: Iterable[str], index: int, broker_id: int) -> bool:
    """Whether ``…replication.throttled.replicas`` names this partition's replica on a broker."""
    wanted = f"{index}:{broker_id}"
    return any(item in (EVERY_REPLICA, wanted) for item in throttled)


LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
MOVES_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"


class ReplicationQuotas:
    """Invariant: the rates are those of the configuration given last."""

    def __init__(self, broker_id: int, config: BrokerConfig, clock: Clock) -> None:
        self._broker_id = broker_id
        self._clock = clock
        samples = config["replication.quota.window.num"]
        self._window_ms = config["replication.quota.window.size.seconds"] * 1000
        self.leader = ReplicationQuota(samples, self._window_ms)
        self.follower = ReplicationQuota(samples, self._window_ms)
        self.log_dir_moves = ReplicationQuota(
            config["alter.log.dirs.replication.quota.window.num"],
            config["alter.log.dirs.replication.quota.window.size.seconds"] * 1000,
        )
        self.serves_from_followers = False
        self.reconfigure(config)

    def reconfigure(self, config: BrokerConfig) -> None:
        """Apply the rates in force."""
        self.leader.bytes_per_second = config[LEADER_RATE]
        self.follower.bytes_per_second = config[FOLLOWER_RATE]
        self.log_dir_moves.bytes_per_second = config[MOVES_RATE]
        self.serves_from_followers = config["replica.selector.class"] in RACK_AWARE

    def is_throttled(self, partition: Partition, replica_id: int) -> bool:
        """As leader: whether a follower gets nothing of the partition for now."""
        if replica_id in partition.isr or not self._names(partition, LEADER_REPLICAS):
            return False
        return self.leader.is_exceeded(monotonic_ms(self._clock))

    def record_outbound(self, partition: Partition, replica_id: int, size_bytes: int) -> None:
        """As leader: count bytes sent to a follower."""
        if replica_id not in partition.isr and self._names(partition, LEADER_REPLICAS):
            self.leader.record(size_bytes, monotonic_ms(self._clock))

    def record_inbound(self, partition: Partition, size_bytes: int) -> int:
        """As follower: count bytes received; returns the delay in milliseconds."""
        if self._broker_id in partition.isr or not self._names(partition, FOLLOWER_REPLICAS):
            return 0
        now_ms = monotonic_ms(self._clock)
        self.follower.record(size_bytes, now_ms)
        return self._window_ms if self.follower.is_exceeded(now_ms) else 0

    def _names(self, partition: Partition, key: str) -> bool:
        throttled: tuple[str, ...] | None = partition.log.config.values.get(key)
        return throttled is not None and lists_replica(throttled, partition.index, self._broker_id)
