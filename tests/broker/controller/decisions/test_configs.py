"""Decisions about configurations."""

from __future__ import annotations

from broker.controller.decisions.configs import (
    Alteration,
    AlterOperation,
    ResourceAlteration,
    alter_configs,
)
from broker.metadata.delta import MetadataDelta
from broker.metadata.image import MetadataImage, ResourceType
from bus.errors import ErrorCode
from bus.protocol.generated.metadata_records import ConfigRecord, TopicRecord

TOPIC, BROKER = int(ResourceType.TOPIC), int(ResourceType.BROKER)
SET, DELETE = AlterOperation.SET, AlterOperation.DELETE
APPEND, SUBTRACT = AlterOperation.APPEND, AlterOperation.SUBTRACT


def image(**configs: str) -> MetadataImage:
    delta = MetadataDelta(MetadataImage())
    delta.replay(TopicRecord(name="t", topic_id=b"i" * 16))
    for name, value in configs.items():
        key = name.replace("_", ".")
        delta.replay(ConfigRecord(resource_type=TOPIC, resource_name="t", name=key, value=value))
    return delta.apply(1, 1).image


def alter(
    base: MetadataImage, *changes: Alteration, kind: int = TOPIC, name: str = "t",
    replace_all: bool = False,
) -> tuple[ErrorCode, dict[str, str]]:
    """The error, and the topic's configuration afterwards."""
    resource = ResourceAlteration(kind, name, changes, replace_all)
    decision = alter_configs(base, [resource], {"cleanup.policy": "delete"})
    delta = MetadataDelta(base)
    for record in decision.records:
        delta.replay(record)
    after = delta.apply(2, 1).image
    return decision.reply[0].error, dict(after.topic_config("t"))


def test_single_keys_are_set_and_unset() -> None:
    """The others stay."""
    base = image(retention_ms="5", segment_bytes="2000000")
    changes = Alteration("retention.ms", SET, "7"), Alteration("segment.bytes", DELETE, None)
    assert alter(base, *changes) == (ErrorCode.NONE, {"retention.ms": "7"})


def test_append_and_subtract_start_from_what_is_in_force() -> None:
    """Also where the topic has set nothing itself."""
    added = alter(image(), Alteration("cleanup.policy", APPEND, "compact"))
    assert added == (ErrorCode.NONE, {"cleanup.policy": "delete,compact"})
    base = image(cleanup_policy="delete,compact")
    taken = alter(base, Alteration("cleanup.policy", SUBTRACT, "delete"))
    assert taken == (ErrorCode.NONE, {"cleanup.policy": "compact"})
    assert alter(image(), Alteration("retention.ms", APPEND, "1"))[0] is ErrorCode.INVALID_CONFIG


def test_the_older_way_replaces_everything() -> None:
    """What is not named is unset."""
    base = image(retention_ms="5", segment_bytes="2000000")
    changed = alter(base, Alteration("retention.ms", SET, "9"), replace_all=True)
    assert changed == (ErrorCode.NONE, {"retention.ms": "9"})


def test_a_resource_changes_as_a_whole_or_not_at_all() -> None:
    """One bad key, and nothing is set."""
    good = Alteration("retention.ms", SET, "9")
    for bad in (
        Alteration("retention.mss", SET, "1"),
        Alteration("segment.bytes", SET, "many"),
    ):
        assert alter(image(), good, bad) == (ErrorCode.INVALID_CONFIG, {})
    assert alter(image(), good, good)[0] is ErrorCode.INVALID_REQUEST


def test_unknown_resources_and_fixed_broker_keys_are_refused() -> None:
    """With the codes of Kafka."""
    change = Alteration("retention.ms", SET, "9")
    assert alter(image(), change, name="x")[0] is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert alter(image(), change, kind=99)[0] is ErrorCode.INVALID_REQUEST
    fixed = Alteration("node.id", SET, "9")
    assert alter(image(), fixed, kind=BROKER, name="1")[0] is ErrorCode.INVALID_REQUEST
    dynamic = Alteration("log.retention.ms", SET, "9")
    assert alter(image(), dynamic, kind=BROKER, name="1")[0] is ErrorCode.NONE
