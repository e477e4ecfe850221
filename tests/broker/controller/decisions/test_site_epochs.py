"""The site epoch in the cluster's metadata, and what a request that sets it carries with it."""

from __future__ import annotations

import itertools

import pytest

from broker.controller.decisions.config_values import Alteration, AlterOperation
from broker.controller.decisions.configs import ConfigResult, ResourceAlteration, alter_configs
from broker.controller.decisions.topics import Defaults, NewTopic, create_topics
from broker.metadata.delta import MetadataDelta
from broker.metadata.image import MetadataImage, ResourceType
from bus.contracts.site_epoch import SITE_EPOCH_KEY, EpochKind, SiteEpoch
from bus.errors import ErrorCode
from bus.protocol.generated.metadata_records import ConfigRecord, TopicRecord
from tests.broker.controller.decisions.world import ControlWorld

TOPIC, BROKER = int(ResourceType.TOPIC), int(ResourceType.BROKER)
SET, DELETE = AlterOperation.SET, AlterOperation.DELETE
SOURCE = "mirror.source.cluster.id"
FIRST = SiteEpoch(1, EpochKind.PLANNED, "B", "A", 1000, "anna@desk")
OTHER = SiteEpoch(1, EpochKind.FORCED, "B", "A", 1001, "bert@desk")
SECOND = SiteEpoch(2, EpochKind.PLANNED, "A", "B", 2000, "bert@desk")


class World:
    """An image that decisions' records are replayed into."""

    def __init__(self) -> None:
        delta = MetadataDelta(MetadataImage())
        for name in ("t", "u"):
            delta.replay(TopicRecord(name=name, topic_id=name.encode() * 16))
        record = ConfigRecord(resource_type=TOPIC, resource_name="t", name=SOURCE, value="A")
        delta.replay(record)
        self.image = delta.apply(1, 1).image

    def alter(self, *resources: ResourceAlteration) -> list[ErrorCode]:
        decision = alter_configs(self.image, resources)
        delta = MetadataDelta(self.image)
        for record in decision.records:
            delta.replay(record)
        self.image = delta.apply(2, 1).image
        self.results: tuple[ConfigResult, ...] = decision.reply
        return [one.error for one in decision.reply]

    @property
    def brokers(self) -> dict[str, str]:
        return dict(self.image.configs.get((ResourceType.BROKER, ""), {}))

    def source(self, topic: str) -> str | None:
        return self.image.topic_config(topic).get(SOURCE)


def epoch(
    value: SiteEpoch | str | None, *, name: str = "", replace: bool = False
) -> ResourceAlteration:
    text = value.text if isinstance(value, SiteEpoch) else value
    operation = DELETE if text is None else SET
    return ResourceAlteration(BROKER, name, (Alteration(SITE_EPOCH_KEY, operation, text),), replace)


def bound(topic: str, cluster: str | None) -> ResourceAlteration:
    operation = DELETE if cluster is None else SET
    return ResourceAlteration(TOPIC, topic, (Alteration(SOURCE, operation, cluster),))


def test_of_two_switches_at_once_the_first_wins_and_the_loser_is_told_by_whom() -> None:
    """The winner may say it again; a later one has a larger number."""
    world = World()
    assert world.alter(epoch(FIRST)) == [ErrorCode.NONE]
    assert world.alter(epoch(OTHER)) == [ErrorCode.INVALID_UPDATE_VERSION]
    assert "anna@desk" in (world.results[0].message or "")
    assert world.alter(epoch(FIRST)) == [ErrorCode.NONE]
    assert world.alter(epoch(SECOND)) == [ErrorCode.NONE]
    assert world.alter(epoch(FIRST)) == [ErrorCode.INVALID_UPDATE_VERSION]
    assert world.brokers == {SITE_EPOCH_KEY: SECOND.text}


@pytest.mark.parametrize(
    "change", [epoch(None), epoch(""), epoch("number=3"), epoch(SECOND, name="1")]
)
def test_an_epoch_is_never_unset_nor_set_to_anything_else_nor_on_one_broker(
    change: ResourceAlteration,
) -> None:
    """The present one stays."""
    world = World()
    world.alter(epoch(FIRST))
    assert world.alter(change) == [ErrorCode.INVALID_CONFIG]
    assert world.brokers == {SITE_EPOCH_KEY: FIRST.text}


def test_an_old_tool_that_replaces_all_configurations_keeps_the_epoch() -> None:
    """AlterConfigs unsets what it does not name."""
    world = World()
    world.alter(epoch(FIRST))
    changes = (Alteration("log.retention.ms", SET, "5"),)
    assert world.alter(ResourceAlteration(BROKER, "", changes, True)) == [ErrorCode.NONE]
    assert world.brokers == {SITE_EPOCH_KEY: FIRST.text, "log.retention.ms": "5"}


def test_a_request_whose_epoch_is_refused_opens_no_topic() -> None:
    """In whatever order its resources stand: the epoch is the condition of them all."""
    for order in itertools.permutations((epoch(OTHER), bound("t", None), bound("u", "C"))):
        world = World()
        world.alter(epoch(FIRST))
        assert set(world.alter(*order)) == {ErrorCode.INVALID_UPDATE_VERSION}
        assert (world.source("t"), world.source("u")) == ("A", None)
    assert world.alter(epoch(FIRST), bound("t", None)) == [ErrorCode.NONE] * 2
    assert world.source("t") is None


def test_no_topic_is_bound_to_the_secondary_from_the_epoch_s_own_request_on() -> None:
    """Neither changed nor created: the mirror of a former primary finds nothing to write to."""
    for order in itertools.permutations((epoch(FIRST), bound("u", "A"))):
        world = World()
        errors = world.alter(*order)
        assert sorted(errors) == [ErrorCode.NONE, ErrorCode.INVALID_CONFIG]
        assert world.source("u") is None
    assert world.alter(bound("u", "C")) == [ErrorCode.NONE]


def test_no_topic_is_created_as_a_mirror_of_the_secondary() -> None:
    """A mirror that has not heard of the epoch yet makes no new ones either."""
    world = ControlWorld()
    world.start(1)
    assert world.set_config("", SITE_EPOCH_KEY, FIRST.text) is ErrorCode.NONE
    for source, error in (("A", ErrorCode.INVALID_CONFIG), ("C", ErrorCode.NONE)):
        asked = NewTopic("new", 1, 1, configs={SOURCE: source})
        made = create_topics(world.image, [asked], Defaults(1, 1), iter([b"n" * 16]), 0)
        assert made.reply[0].error is error
