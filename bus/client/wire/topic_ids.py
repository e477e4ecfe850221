"""Which of some topics there are, and under which ids; the first node that answers says it.

librdkafka asks the controller. While that one is dead, its client connects to it thousands of times
a second, or waits for it after another has taken its place; and such a question is asked twice a
second by every process. Any node knows the answer.
In: names of topics. Out: their ids and partitions. Never: a second question to a node that has not
answered, as long as there is another. Blocking, for one thread at a time.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable

from bus.client.model import ClusterIdentity
from bus.client.wire.sync_client import SyncClient
from bus.errors import BusError, ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.generated.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponseTopic,
)
from bus.settings import BusSettings


class TopicIds:
    """One client, which connects by itself and again."""

    def __init__(self, bus: BusSettings, client_id: str) -> None:
        self._nodes = SyncClient.with_short_timeouts(bus, client_id)

    def existing(self, topics: Iterable[str]) -> ClusterIdentity:
        """Of those of `topics` that there are. Raises BusError; SECURITY_DISABLED where our own
        client cannot log in."""
        return existing_topics(self._nodes, topics)

    def close(self) -> None:
        """Ask no more."""
        self._nodes.close()


def existing_topics(nodes: SyncClient, topics: Iterable[str]) -> ClusterIdentity:
    """As `TopicIds.existing`, by a client that is there."""
    wanted = [MetadataRequestTopic(name=name) for name in sorted(topics)]
    request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
    answer = nodes.request(ApiKey.METADATA, request)
    found = {topic.name or "": topic for topic in answer.topics if _is_there(topic)}
    return ClusterIdentity(
        cluster_id=answer.cluster_id or "",
        topic_ids={name: id_text(topic.topic_id) for name, topic in found.items()},
        partitions=tuple(
            (name, number)
            for name, topic in sorted(found.items())
            for number in sorted(one.partition_index for one in topic.partitions)
        ),
    )


def id_text(topic_id: bytes) -> str:
    """As librdkafka writes it, and as it stands in stored positions: base64 with `+` and `/`."""
    return base64.b64encode(topic_id).decode().rstrip("=")


def _is_there(topic: MetadataResponseTopic) -> bool:
    """Raises BusError where the node cannot say it."""
    error = ErrorCode.of(topic.error_code)
    if error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return False
    if error is not ErrorCode.NONE:
        raise BusError(error, topic.name or "")
    return True
