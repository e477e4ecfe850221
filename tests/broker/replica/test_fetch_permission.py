"""Who may fetch: consumers by the topic, followers as nodes of the cluster, each request anew."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from broker.metadata.image import AclImage
from broker.security.authorizer import Authorizer, Operation, Resource
from broker.security.principal import Principal
from broker.security.resource_operations import CLUSTER_ACTION, READ_TOPIC, ResourceOperation
from bus.client.wire.fetch_session import INITIAL_EPOCH
from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.generated.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ReplicaState,
)
from tests.broker.replica.story import TOPIC, call
from tests.broker.replica.test_cold_reads import ColdStory, run_story

DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


class ListedAuthorizer(Authorizer):
    """Allows what is listed."""

    def __init__(self, *allowed: ResourceOperation) -> None:
        self.allowed = set(allowed)

    def authorize(
        self, principal: Principal, host: str, operation: Operation, resource: Resource, name: str,
        *, is_reported: bool = True,
    ) -> bool:  # fmt: skip
        return (operation, resource) in self.allowed


def fetch(
    world: ColdStory, *, session: tuple[int, int] = (0, INITIAL_EPOCH), names: bool = True,
    replica_id: int = -1, offset: int = 0,
) -> FetchResponse:  # fmt: skip
    """A request that does not wait, of a partition in memory, or of nothing but what its session has."""
    got: list[FetchResponse] = []
    partitions = [FetchPartition(partition=1, fetch_offset=offset, partition_max_bytes=1000)]
    node = world[1]
    topic = FetchTopic(
        topic=TOPIC, topic_id=node.replicas.get(TOPIC, 1).topic_id, partitions=partitions
    )
    request = FetchRequest(
        max_wait_ms=0, min_bytes=0, session_id=session[0], session_epoch=session[1],
        replica_state=ReplicaState(replica_id=replica_id, replica_epoch=-1),
        topics=[topic] if names else [],
    )  # fmt: skip
    call(node, ApiKey.FETCH, request, got.append)
    return got[0]


def codes(response: FetchResponse) -> list[int]:
    return [data.error_code for topic in response.responses for data in topic.partitions]


@pytest.mark.parametrize(
    ("replica_id", "allowed", "is_denied"),
    [
        (-1, READ_TOPIC, False), (-1, CLUSTER_ACTION, True),
        (2, CLUSTER_ACTION, False), (2, READ_TOPIC, True),
    ],
)  # fmt: skip
def test_a_consumer_needs_the_topic_and_a_follower_the_cluster(
    replica_id: int, allowed: ResourceOperation, is_denied: bool
) -> None:
    """As in Kafka: who may read a topic may not say that it is a replica of it."""

    async def story(world: ColdStory) -> None:
        world[1].services.authorizer = ListedAuthorizer(allowed)
        [code] = codes(fetch(world, replica_id=replica_id))
        assert (code == DENIED) is is_denied

    run_story(story)


def test_a_session_does_not_open_what_was_denied() -> None:
    """Its next request attached a partition whose first one was denied, and asked for nothing."""

    async def story(world: ColdStory) -> None:
        services: Any = world[1].services
        services.authorizer = ListedAuthorizer()
        first = fetch(world)
        assert codes(first) == [DENIED]
        assert codes(fetch(world, session=(first.session_id, 1), names=False)) == [DENIED]
        services.authorizer = ListedAuthorizer(READ_TOPIC)
        allowed = fetch(world, session=(first.session_id, 2), names=False)
        assert codes(allowed) == [0]
        assert allowed.responses[0].partitions[0].records

    run_story(story)


@pytest.mark.parametrize("has_read_all", [True, False])
def test_a_session_closes_what_is_denied_by_now(has_read_all: bool) -> None:
    """Also a partition of which there was nothing to send: other ACLs, or another principal, and all
    that the session has is asked for again."""

    async def story(world: ColdStory) -> None:
        services: Any = world[1].services
        session_id = fetch(world, offset=3 if has_read_all else 0).session_id
        for epoch in (1, 2):
            fetch(world, session=(session_id, epoch), names=False)
        session = world[1].replicas.fetch_sessions.get(session_id)
        assert session is not None
        assert bool(session.dirty) is not has_read_all
        services.authorizer = ListedAuthorizer()
        acl = AclImage(2, TOPIC, 3, "User:ANONYMOUS", "*", 3, 2)
        services.metadata.image = replace(services.metadata.image, acls={bytes(16): acl})
        assert codes(fetch(world, session=(session_id, 3), names=False)) == [DENIED]

    run_story(story)
