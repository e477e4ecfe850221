"""What is asked of a cluster under measurement, of ours and of Apache Kafka's alike.

In: bootstrap servers. Out: leaders, controllers, waits with a bound. Never: the load itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from bus.client.admin import commands, queries
from bus.client.model import PartitionDescription
from bus.client.wire.sync_client import SyncClient
from bus.errors import BusError, ErrorCode
from deploy.errors import OperatorError

CLIENT_ID = "databus-bench"
POLL_S = 0.01
PATIENCE_S = 120.0
ASK_TIMEOUT_MS = 2_000  # a question to a node that has just been killed must not count as its gap
CREATE_TIMEOUT_MS = 120_000


class ClusterProbe:
    """Questions to one cluster; reconnects where connections broke."""

    def __init__(self, bootstrap: str, *, request_timeout_ms: int = ASK_TIMEOUT_MS) -> None:
        self._nodes = SyncClient(bootstrap, CLIENT_ID, request_timeout_ms=request_timeout_ms)

    def close(self) -> None:
        """Close the connections."""
        self._nodes.close()

    def partitions(self, topic: str) -> tuple[PartitionDescription, ...]:
        """The topic as any node sees it. Raises BusError."""
        return queries.topics(self._nodes, [topic])[0].partitions

    def leader(self, topic: str) -> int:
        """Who leads partition 0; waits until there is a leader."""
        found: list[int] = []

        def known() -> bool:
            found[:] = [self.partitions(topic)[0].leader]
            return found[0] >= 0

        wait_until(known, f"{topic} has a leader")
        return found[0]

    def controller(self) -> int:
        """The active controller, of a quorum or under ZooKeeper; waits for one."""
        found: list[int] = []

        def known() -> bool:
            quorum = queries.quorum_or_none(self._nodes)
            by_brokers = queries.cluster(self._nodes).controller_id if quorum is None else -1
            found[:] = [by_brokers if quorum is None else quorum.leader_id]
            return found[0] >= 0

        wait_until(known, "there is an active controller")
        return found[0]

    def in_sync(self, topic: str) -> bool:
        """Whether every replica of the topic is in sync."""
        return all(
            each.leader >= 0 and len(each.isr) == len(each.replicas)
            for each in self.partitions(topic)
        )

    def all_led(self, topic: str, count: int) -> bool:
        """Whether so many partitions are there and each has a leader."""
        found = self.partitions(topic)
        return len(found) == count and all(each.leader >= 0 for each in found)

    def registered(self) -> set[int]:
        """Brokers that may lead."""
        return {broker.broker_id for broker in queries.cluster(self._nodes).alive}

    def create(self, topic: str, partitions: int, replicas: int) -> None:
        """Create a topic and wait until it has leaders. Raises BusError.

        A controller that changed in between may have made it and say so only when asked again.
        """
        try:
            commands.create_topic(
                self._nodes, topic, partitions=partitions, replication_factor=replicas
            )
        except BusError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
        wait_until(lambda: self.all_led(topic, partitions), f"{topic} has leaders")

    def try_create(self, topic: str) -> bool:
        """Whether the cluster takes a new topic now."""
        try:
            commands.create_topic(self._nodes, topic, partitions=1, replication_factor=1)
        except BusError:
            return False
        return True


def wait_until(condition: Callable[[], bool], what: str, *, within_s: float = PATIENCE_S) -> float:
    """Poll; seconds it took. No answer counts as a no."""
    began = time.perf_counter()
    while True:
        try:
            if condition():
                return time.perf_counter() - began
        except BusError:
            pass
        if time.perf_counter() - began > within_s:
            raise OperatorError(f"not within {within_s:g} s: {what}")
        time.sleep(POLL_S)
