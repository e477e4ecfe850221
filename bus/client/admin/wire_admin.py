"""A cluster's topics, configurations, offsets and groups, by our own client.

librdkafka's administration waits for the broker that it has chosen: while that one is dead, it
connects to it without a pause, which takes a core, or waits for it after another has taken its
place; and it ends the process where a coordinator that moves is asked for offsets (2.16). Here a
broker that does not answer is left for the next one.
In: names. Out: frozen views. Raises BusError; SECURITY_DISABLED where our client cannot log in.
Never: topics made or deleted (`bus.client.admin.commands`). Blocking; any thread, one after the
other.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeVar

from bus.client.admin import group_offsets, queries
from bus.client.admin.config_resources import BROKER, TOPIC
from bus.client.model import (
    ClusterDescription,
    ClusterIdentity,
    ConfigEntry,
    OffsetAndMetadata,
    TopicPartition,
)
from bus.client.wire.partition_leaders import PartitionLeaders
from bus.client.wire.sync_client import SyncClient
from bus.client.wire.topic_ids import existing_topics
from bus.errors import BusError, ErrorCode
from bus.limits import CLIENT_LEADER_TIMEOUT_MS
from bus.settings import BusSettings

NODES_IN_TIME = 3
"""Nodes that may stand still, one after the other, within the time of a question."""

_CONNECTION_LOST = (ErrorCode.NETWORK_EXCEPTION, ErrorCode.BROKER_NOT_AVAILABLE)

Value = TypeVar("Value")


class WireAdmin:
    """Two clients: leaders are asked with shorter times."""

    def __init__(self, bus: BusSettings, client_id: str, timeout_s: float) -> None:
        limit = max(CLIENT_LEADER_TIMEOUT_MS, int(timeout_s * 1000) // NODES_IN_TIME)
        self._client = SyncClient.of(
            bus, client_id, connect_timeout_ms=CLIENT_LEADER_TIMEOUT_MS, request_timeout_ms=limit
        )
        self._leaders = PartitionLeaders(bus, client_id)
        self._lock = threading.Lock()
        self._is_closed = False

    def close(self) -> None:
        """Close the connections; who asks later gets a RuntimeError."""
        with self._lock:
            self._is_closed = True
            self._client.close()
            self._leaders.close()

    def existing(self, topics: Iterable[str]) -> ClusterIdentity:
        """Ids of the cluster and of those of these topics that are there, and their partitions."""
        return self._ask(lambda client: existing_topics(client, topics))

    def cluster(self) -> ClusterDescription:
        """Its id and brokers, fenced ones too where the cluster can tell."""
        return self._ask(queries.cluster)

    def topic_configs(self, names: Collection[str]) -> dict[str, list[ConfigEntry]]:
        """Every key of these topics' configurations."""
        return self._ask(lambda client: queries.many_configs(client, TOPIC, names))

    def broker_configs(self, broker_id: int) -> list[ConfigEntry]:
        """Every key of a broker's configuration, as it says itself."""
        return self._ask(lambda client: queries.configs(client, BROKER, str(broker_id)))

    def start_offsets(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Where logs begin, of the partitions whose leader answers."""
        return self._offsets(self._leaders.start_offsets, places)

    def end_offsets(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Ends (exclusive), in the same way."""
        return self._offsets(self._leaders.end_offsets, places)

    def groups(self) -> list[str]:
        """The ids of all consumer groups."""
        return self._ask(group_offsets.consumer_groups)

    def committed_offsets(self, group: str) -> dict[TopicPartition, OffsetAndMetadata]:
        """What a group has committed."""
        return self._ask(lambda client: group_offsets.committed_offsets(client, group))

    def set_committed(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Let a group without members go on from these offsets."""
        self._ask(lambda client: group_offsets.set_committed(client, group, offsets))

    def _ask(self, question: Callable[[SyncClient], Value]) -> Value:
        with self._lock:
            self._check_open()
            try:
                return question(self._client)
            except BusError as error:
                if error.code not in _CONNECTION_LOST:
                    raise
            return question(self._client)  # the broker may have closed a connection that was idle

    def _offsets(
        self,
        ask: Callable[[Collection[tuple[str, int]]], Mapping[tuple[str, int], int]],
        places: Iterable[TopicPartition],
    ) -> dict[TopicPartition, int]:
        with self._lock:
            self._check_open()
            return {TopicPartition(*place): offset for place, offset in ask([*places]).items()}

    def _check_open(self) -> None:
        if self._is_closed:
            raise RuntimeError("the admin client is closed")
