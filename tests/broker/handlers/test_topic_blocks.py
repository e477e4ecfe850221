"""Topics encoded once: the bytes of the very topic on the very brokers, and none that is gone."""

from __future__ import annotations

import dataclasses
import uuid
from types import MappingProxyType

import pytest

from broker.handlers.topic_blocks import MOST_VERSIONS, TopicBlocks
from broker.metadata.image import MetadataImage, TopicImage
from broker.server.embedded import RunningBroker
from bus.protocol.apis import APIS, ApiKey
from bus.protocol.frames import decode_response, encode_response
from bus.protocol.generated import create_topics
from bus.protocol.generated.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.broker.handlers.test_every_version import Wire


def image(*names: str) -> MetadataImage:
    topics = {name: TopicImage(name, name.encode().ljust(16, b"-")) for name in names}
    return MetadataImage(cluster_id="cluster", topics=MappingProxyType(topics))


class Teller:
    """Tells topics, and remembers which."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def __call__(self, topic: TopicImage) -> MetadataResponseTopic:
        self.told.append(topic.name)
        partitions = [MetadataResponsePartition(leader_id=1, replica_nodes=[1, 2], isr_nodes=[1])]
        return MetadataResponseTopic(
            name=topic.name, topic_id=topic.topic_id, partitions=partitions
        )


@pytest.mark.parametrize("version", range(APIS[ApiKey.METADATA].latest + 1))
def test_an_answer_of_blocks_is_the_answer_of_topics(version: int) -> None:
    """To the byte, in every version; the second time nothing is told."""
    now, tell, blocks = image("a", "b"), Teller(), TopicBlocks()
    plain = [tell(topic) for topic in now.topics.values()]
    expected = encode_response(ApiKey.METADATA, version, 7, MetadataResponse(topics=plain))
    tell.told.clear()
    for _ in range(2):
        made = MetadataResponse(topics=blocks.of(now, now.topics, version, tell))  # type: ignore[arg-type]
        assert encode_response(ApiKey.METADATA, version, 7, made) == expected
    assert tell.told == ["a", "b"]


def test_only_what_has_changed_is_told_again() -> None:
    """A topic in a new state, whatever else the new image holds."""
    now, tell, blocks = image("a", "b", "c"), Teller(), TopicBlocks()
    blocks.of(now, now.topics, 13, tell)
    changed = {**now.topics, "b": dataclasses.replace(now.topics["b"])}
    later = dataclasses.replace(now, offset=9, topics=MappingProxyType(changed))
    tell.told.clear()
    blocks.of(later, later.topics, 13, tell)
    assert tell.told == ["b"]


def test_brokers_in_another_state_end_all_blocks() -> None:
    """Which replicas are offline is part of what is told."""
    now, tell, blocks = image("a", "b"), Teller(), TopicBlocks()
    blocks.of(now, now.topics, 13, tell)
    later = dataclasses.replace(now, brokers=MappingProxyType(dict(now.brokers)))
    tell.told.clear()
    blocks.of(later, later.topics, 13, tell)
    assert tell.told == ["a", "b"]


def test_what_is_gone_or_asked_by_few_is_not_kept() -> None:
    """Deleted topics, and the version asked first of too many."""
    now, tell, blocks = image("a", "b"), Teller(), TopicBlocks()
    for version in range(MOST_VERSIONS + 1):
        blocks.of(now, now.topics, version, tell)
    tell.told.clear()
    blocks.of(now, ["a"], 1, tell)
    assert tell.told == []
    blocks.of(now, ["a"], 0, tell)
    assert tell.told == ["a"]
    later = dataclasses.replace(now, topics=MappingProxyType({"b": now.topics["b"]}))
    blocks.of(later, ["b"], 3, tell)
    tell.told.clear()
    blocks.of(now, ["a", "b"], 3, tell)
    assert tell.told == ["a"]


def test_a_new_topic_is_in_the_next_answer(shared_broker: RunningBroker) -> None:
    """Asked twice and again after a change, by one client."""
    wire, version = Wire(shared_broker.bootstrap), APIS[ApiKey.METADATA].latest
    name = f"whole-{uuid.uuid4().hex[:8]}"

    def seen() -> set[str]:
        wire.send(ApiKey.METADATA, version, MetadataRequest(topics=None))
        _, answer = decode_response(ApiKey.METADATA, version, wire.receive())
        return {topic.name for topic in answer.topics}

    try:
        assert name not in seen() | seen()
        wanted = create_topics.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
        made = APIS[ApiKey.CREATE_TOPICS].latest
        wire.send(
            ApiKey.CREATE_TOPICS,
            made,
            create_topics.CreateTopicsRequest(topics=[wanted], timeout_ms=60_000),
        )
        assert (
            not decode_response(ApiKey.CREATE_TOPICS, made, wire.receive())[1].topics[0].error_code
        )
        assert name in seen() & seen()
    finally:
        wire.close()
