"""librdkafka's static members (KIP-345) restart and no other member notices."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, TopicPartition

POLL_S = 0.1
POLLS = 300
"""An assignment takes a few polls; after more than 30 s there will be none."""


class StaticMember:
    """A consumer with an instance id that counts its rebalances."""

    def __init__(self, bootstrap: str, group_id: str, topic: str, name: str, strategy: str) -> None:
        self.assigned: list[TopicPartition] = []
        self.assignments = self.revocations = 0
        self.consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group_id,
                "group.instance.id": name,
                "partition.assignment.strategy": strategy,
                "session.timeout.ms": 30_000,
                "heartbeat.interval.ms": 500,
            }
        )
        self.consumer.subscribe([topic], on_assign=self._on_assign, on_revoke=self._on_revoke)

    def _on_assign(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.assignments += 1
        self.assigned = partitions

    def _on_revoke(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.revocations += 1

    def places(self) -> set[int]:
        return {place.partition for place in self.consumer.assignment()}


def until(met: Callable[[], bool], *members: StaticMember) -> None:
    """Polls all members until it holds."""
    for _ in range(POLLS):
        for member in members:
            member.consumer.poll(POLL_S / len(members))
        if met():
            return
    pytest.fail("the group did not come to rest")


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_static_member_that_restarts_disturbs_nobody(
    bootstrap: str, new_topic: Callable[..., str], group_id: str, strategy: str
) -> None:
    """Each of two members restarts in turn, so also the leader: the other one keeps its
    partitions."""
    topic = new_topic(4)
    members = {name: StaticMember(bootstrap, group_id, topic, name, strategy) for name in ("one", "two")}
    until(lambda: all(len(member.places()) == 2 for member in members.values()), *members.values())
    for name, other in (("one", "two"), ("two", "one")):
        before = members[name].places()
        kept, revoked = members[other].places(), members[other].revocations
        members[name].consumer.close()
        members[name] = StaticMember(bootstrap, group_id, topic, name, strategy)
        until(lambda: members[name].assignments > 0, *members.values())  # noqa: B023
        assert members[name].places() == before
        assert members[other].places() == kept
        assert members[other].revocations == revoked
    for member in members.values():
        member.consumer.close()
