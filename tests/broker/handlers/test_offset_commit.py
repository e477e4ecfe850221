"""OffsetCommit on a coordinator that does not know all topics yet (ZooKeeper mode), and of topics
that a switch to the other site has closed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from broker.clock.real import RealClock
from broker.config.views import BrokerConfig
from broker.controller.zk.controller_requests import ControllerRequestHandler
from broker.handlers import k08_offset_commit
from broker.handlers.services import MetadataCache
from broker.metadata.failover_gate import FailoverGate
from broker.metadata.image import MetadataImage, ResourceType, TopicImage, frozen
from bus.contracts.site_epoch import EpochKind, SiteEpoch
from bus.errors import ErrorCode
from bus.protocol.generated.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

ID = bytes(range(16))


def services_with(image: MetadataImage, knows_topics: Callable[[], bool]) -> Any:
    config = BrokerConfig.from_mapping({})
    metadata = MetadataCache(image, config, FailoverGate(RealClock()), knows_topics)
    return SimpleNamespace(metadata=metadata)


def commit(services: Any, version: int) -> int:
    """The code for partition 0 of topic `t`."""
    ask = OffsetCommitRequestPartition(partition_index=0, committed_offset=5)
    topic = OffsetCommitRequestTopic(name="t", topic_id=ID, partitions=[ask])
    context: Any = SimpleNamespace(
        services=services, api_version=version, is_authorized=lambda *_: True, reply=lambda _: None
    )
    response = k08_offset_commit.handle(OffsetCommitRequest(group_id="g", topics=[topic]), context)
    assert response is not None
    return int(response.topics[0].partitions[0].error_code)


@pytest.mark.parametrize(
    ("version", "unknown"),
    [(9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (10, ErrorCode.UNKNOWN_TOPIC_ID)],
)
def test_a_topic_is_unknown_only_once_the_controller_has_named_them_all(
    version: int, unknown: ErrorCode
) -> None:
    """librdkafka hands UNKNOWN_TOPIC_OR_PARTITION to the application; it came for topics that
    exist, seconds after a restart."""

    async def story() -> tuple[int, int]:
        told: list[Any] = []
        session: Any = None
        follower = ControllerRequestHandler(1, session, RealClock(), told.append, lambda *_: None)
        follower.on_registered(7)
        services = services_with(follower.image, follower.informed.is_set)
        early = commit(services, version)
        follower.informed.set()
        return early, commit(services, version)

    assert asyncio.run(story()) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, unknown)


def test_so_is_a_partition_of_a_topic_of_which_only_others_were_named() -> None:
    """LeaderAndIsr names what this broker has; the rest comes with UpdateMetadata."""
    topic = TopicImage("t", ID, ())
    image = MetadataImage(topics=frozen({"t": topic}), topic_names=frozen({ID: "t"}))
    early, late = services_with(image, lambda: False), services_with(image, lambda: True)
    assert commit(early, 9) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert commit(late, 9) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize(
    ("closed_under", "in_force", "is_closed"),
    [("3", 3, True), ("3", 4, False), ("3", None, False), (None, 3, False), ("three", 3, False)],
)
def test_a_topic_is_closed_while_the_site_epoch_that_closed_it_is_in_force(
    closed_under: str | None, in_force: int | None, is_closed: bool
) -> None:
    """So a switch that was overtaken by another one leaves nothing closed."""
    configs: dict[tuple[int, str], dict[str, str]] = {}
    if closed_under is not None:
        configs[ResourceType.TOPIC, "t"] = {"mirror.refuses.commits.epoch": closed_under}
    if in_force is not None:
        epoch = SiteEpoch(in_force, EpochKind.PLANNED, "there", "here", 0, "o@h")
        configs[ResourceType.BROKER, ""] = {"mirror.site.epoch": epoch.text}
    image = MetadataImage(
        topics=frozen({"t": TopicImage("t", ID, ())}), topic_names=frozen({ID: "t"}), configs=configs
    )
    services = services_with(image, lambda: True)
    # a topic without partitions: the code of an open one says so
    is_open = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    expected = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if is_closed else is_open
    assert commit(services, 9) == expected
