"""Configurations in the znodes: invalid ones, and ones that others wrote."""

from __future__ import annotations

import json
import logging
from itertools import count

import pytest

from broker.controller.decisions.decision import Decision
from broker.controller.decisions.topics import Defaults, NewTopic, create_topics
from broker.controller.zk import znodes
from broker.metadata.image import MetadataImage, ResourceType
from bus.protocol.generated.metadata_records import ConfigRecord
from tests.broker.controller.zk.simulated import SimulatedBroker, run_story, settled

TOPIC_ID = bytes(range(16))


async def make_topic(party: SimulatedBroker, name: str, config: bytes) -> None:
    """Creates a topic as a tool does."""
    await party.session.create(f"/config/topics/{name}", config)
    info = znodes.TopicAssignment({0: (1, 2)}, TOPIC_ID)
    await party.session.create(znodes.topic_path(name), znodes.encode_topic(info))
    await settled()


def test_a_configuration_that_makes_no_sense_hides_neither_its_topic_nor_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Regression: it kept every broker from starting and hid the topic."""

    async def story(one: SimulatedBroker, two: SimulatedBroker) -> None:
        await two.session.create("/config/brokers/2", znodes.encode_config({"a": "1"}))
        await make_topic(two, "t", b"what")
        assert one.controller.image.topics["t"].partitions[0].leader == 1
        with caplog.at_level(logging.ERROR, "broker.controller.zk"):
            await two.member.read_configs()
        assert two.image.configs == {(ResourceType.BROKER, "2"): {"a": "1"}}
        assert "/config/topics/t" in caplog.text

    run_story(story)


def test_a_change_by_a_client_keeps_what_somebody_wrote_a_moment_before() -> None:
    """Regression: the controller's older view of the node overwrote it."""

    async def story(one: SimulatedBroker, two: SimulatedBroker) -> None:
        await make_topic(two, "t", znodes.encode_config({"retention.ms": "1"}))
        by_hand = {"retention.ms": "2", "segment.bytes": "100000"}
        await two.session.set("/config/topics/t", znodes.encode_config(by_hand))

        def decide(image: MetadataImage) -> Decision[None]:
            record = ConfigRecord(
                resource_type=int(ResourceType.TOPIC), resource_name="t",
                name="min.insync.replicas", value="2",
            )  # fmt: skip
            return Decision((record,), None)

        await one.write(decide)
        data, _ = await one.session.get("/config/topics/t")
        assert json.loads(data)["config"] == by_hand | {"min.insync.replicas": "2"}

    run_story(story)


def test_a_configuration_left_behind_by_an_older_topic_is_not_the_new_ones() -> None:
    """Regression: if the node exists before the topic, each attempt to create the topic failed."""


    async def story(one: SimulatedBroker, two: SimulatedBroker) -> None:
        left = znodes.encode_config({"retention.ms": "1"})
        await two.session.create("/config/topics/t", left)
        ids = (number.to_bytes(16, "big") for number in count(1))
        await one.write(
            lambda image: create_topics(image, [NewTopic("t", 1, 1)], Defaults(1, 1), ids, 0)
        )
        await settled()
        assert (await two.session.get("/config/topics/t"))[0] == znodes.encode_config({})

    run_story(story)
