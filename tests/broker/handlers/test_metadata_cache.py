"""The cache of encoded topics: current bytes for these topics and brokers, none of deleted
topics."""

from __future__ import annotations

import dataclasses
import uuid
from types import MappingProxyType

import pytest

from broker.handlers.metadata_cache import MAX_VERSIONS, EncodedTopicCache
from broker.metadata.image import MetadataImage, TopicImage
from bus.protocol.apis import APIS, ApiKey
from bus.protocol.frames import encode_response
from bus.protocol.generated import create_topics
from bus.protocol.generated.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from deploy.servers.databus import RunningBroker
from tests.broker.handlers.test_every_version import FrameSocket


def image(*names: str) -> MetadataImage:
    topics = {name: TopicImage(name, name.encode().ljust(16, b"-")) for name in names}
    return MetadataImage(cluster_id="cluster", topics=MappingProxyType(topics))


class TopicDescriber:
    """Describes topics and records which."""

    def __init__(self) -> None:
        self.described: list[str] = []

    def __call__(self, topic: TopicImage) -> MetadataResponseTopic:
        self.described.append(topic.name)
        partitions = [MetadataResponsePartition(leader_id=1, replica_nodes=[1, 2], isr_nodes=[1])]
        return MetadataResponseTopic(
            name=topic.name, topic_id=topic.topic_id, partitions=partitions
        )


@pytest.mark.parametrize("version", range(APIS[ApiKey.METADATA].latest + 1))
def test_an_answer_of_blocks_is_the_answer_of_topics(version: int) -> None:
    """The bytes are equal in every version, and the second time nothing is encoded."""
    now, describe, blocks = image("a", "b"), TopicDescriber(), EncodedTopicCache()
    plain = [describe(topic) for topic in now.topics.values()]
    expected = encode_response(ApiKey.METADATA, version, 7, MetadataResponse(topics=plain))
    describe.described.clear()
    for _ in range(2):
        topics = blocks.get(now, now.topics, version, describe)
        made = MetadataResponse(topics=topics)  # type: ignore[arg-type]
        assert encode_response(ApiKey.METADATA, version, 7, made) == expected
    assert describe.described == ["a", "b"]


def test_only_what_has_changed_is_told_again() -> None:
    """Only a topic with a new state is encoded again, in any new image."""
    now, describe, blocks = image("a", "b", "c"), TopicDescriber(), EncodedTopicCache()
    blocks.get(now, now.topics, 13, describe)
    changed = {**now.topics, "b": dataclasses.replace(now.topics["b"])}
    later = dataclasses.replace(now, offset=9, topics=MappingProxyType(changed))
    describe.described.clear()
    blocks.get(later, later.topics, 13, describe)
    assert describe.described == ["b"]


def test_brokers_in_another_state_end_all_blocks() -> None:
    """The response includes the offline replicas."""
    now, describe, blocks = image("a", "b"), TopicDescriber(), EncodedTopicCache()
    blocks.get(now, now.topics, 13, describe)
    later = dataclasses.replace(now, brokers=MappingProxyType(dict(now.brokers)))
    describe.described.clear()
    blocks.get(later, later.topics, 13, describe)
    assert describe.described == ["a", "b"]


def test_what_is_gone_or_asked_by_few_is_not_kept() -> None:
    """Deleted topics are dropped, and the oldest version if there are too many."""
    now, describe, blocks = image("a", "b"), TopicDescriber(), EncodedTopicCache()
    for version in range(MAX_VERSIONS + 1):
        blocks.get(now, now.topics, version, describe)
    describe.described.clear()
    blocks.get(now, ["a"], 1, describe)
    assert describe.described == []
    blocks.get(now, ["a"], 0, describe)
    assert describe.described == ["a"]
    later = dataclasses.replace(now, topics=MappingProxyType({"b": now.topics["b"]}))
    blocks.get(later, ["b"], 3, describe)
    describe.described.clear()
    blocks.get(now, ["a", "b"], 3, describe)
    assert describe.described == ["a"]


def test_a_new_topic_is_in_the_next_answer(shared_broker: RunningBroker) -> None:
    """One client asks twice, and again after a change."""
    wire, version = FrameSocket(shared_broker.bootstrap), APIS[ApiKey.METADATA].latest
    name = f"whole-{uuid.uuid4().hex[:8]}"

    def seen() -> set[str]:
        answer = wire.ask(ApiKey.METADATA, version, MetadataRequest(topics=None))
        return {topic.name for topic in answer.topics}

    try:
        assert name not in seen() | seen()
        wanted = create_topics.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
        request = create_topics.CreateTopicsRequest(topics=[wanted], timeout_ms=60_000)
        made = wire.ask(ApiKey.CREATE_TOPICS, APIS[ApiKey.CREATE_TOPICS].latest, request)
        assert not made.topics[0].error_code
        assert name in seen() & seen()
    finally:
        wire.close()
