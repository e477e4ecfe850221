"""The kept answer about all topics: the same bytes for the same question, never for another."""

from __future__ import annotations

import dataclasses
import uuid
from types import MappingProxyType
from typing import Any

import pytest

from broker.handlers.whole_answer import Origin, WholeAnswer
from broker.metadata.image import MetadataImage, TopicImage
from broker.server.embedded import RunningBroker
from bus.protocol.apis import APIS, ApiKey
from bus.protocol.frames import decode_response, encode_response
from bus.protocol.generated import create_topics
from bus.protocol.generated.metadata import MetadataRequest, MetadataResponse
from tests.broker.handlers.test_every_version import Wire

ORIGIN = Origin(13, ("a",), (1, 2), "cluster", 1)


def image() -> MetadataImage:
    topics = MappingProxyType({"a": TopicImage("a", bytes(16))})
    return MetadataImage(cluster_id="cluster", topics=topics)


def frame() -> bytes:
    return b"".join(encode_response(ApiKey.METADATA, 13, 7, MetadataResponse(cluster_id="cluster")))


def test_the_same_question_gets_the_same_answer_under_its_own_number() -> None:
    """Only the correlation id differs, in an image that has moved on elsewhere too."""
    kept, first = WholeAnswer(), image()
    kept.keep(first, ORIGIN, frame())
    later = dataclasses.replace(first, offset=99)
    chunks = kept.find(later, dataclasses.replace(ORIGIN), 8)
    again = b"".join(chunks)
    assert len(again) == len(frame())
    number, answer = decode_response(ApiKey.METADATA, 13, memoryview(again)[4:])
    assert (number, answer) == (8, MetadataResponse(cluster_id="cluster"))


@pytest.mark.parametrize(
    "other",
    [
        dataclasses.replace(ORIGIN, api_version=12),
        dataclasses.replace(ORIGIN, names=()),
        dataclasses.replace(ORIGIN, brokers=(1,)),
        dataclasses.replace(ORIGIN, cluster_id="another"),
        dataclasses.replace(ORIGIN, controller_id=2),
    ],
)
def test_another_version_right_or_cluster_gets_an_answer_of_its_own(other: Origin) -> None:
    """Whatever an answer is made of distinguishes it."""
    kept, now = WholeAnswer(), image()
    kept.keep(now, ORIGIN, frame())
    assert not kept.find(now, other, 8)


@pytest.mark.parametrize("changed", ["topics", "brokers"])
def test_an_answer_ends_with_the_metadata_it_was_made_of(changed: str) -> None:
    """Equal is not enough: only the very same mapping is known not to have changed."""
    kept, now = WholeAnswer(), image()
    kept.keep(now, ORIGIN, frame())
    copied: dict[str, Any] = {changed: MappingProxyType(dict(getattr(now, changed)))}
    assert not kept.find(dataclasses.replace(now, **copied), ORIGIN, 8)


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
