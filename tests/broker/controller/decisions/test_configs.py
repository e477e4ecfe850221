"""Decisions about configurations."""

from __future__ import annotations

from broker.controller.decisions.configs import (
    Alteration,
    AlterOperation,
    InForce,
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
IN_FORCE = InForce({"cleanup.policy": "delete"}, {"log.cleanup.policy": "delete"})


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
    """Returns the error and the topic's configuration afterwards."""
    resource = ResourceAlteration(kind, name, changes, replace_all)
    decision = alter_configs(base, [resource], IN_FORCE)
    delta = MetadataDelta(base)
    for record in decision.records:
        delta.replay(record)
    after = delta.apply(2, 1).image
    return decision.reply[0].error, dict(after.topic_config("t"))


def test_single_keys_are_set_and_unset() -> None:
    """Other keys keep their values."""
    base = image(retention_ms="5", segment_bytes="2000000")
    changes = Alteration("retention.ms", SET, "7"), Alteration("segment.bytes", DELETE, None)
    assert alter(base, *changes) == (ErrorCode.NONE, {"retention.ms": "7"})


def test_append_and_subtract_start_from_what_is_in_force() -> None:
    """They use the effective value also if the topic itself has none."""
    added = alter(image(), Alteration("cleanup.policy", APPEND, "compact"))
    assert added == (ErrorCode.NONE, {"cleanup.policy": "delete,compact"})
    base = image(cleanup_policy="delete,compact")
    taken = alter(base, Alteration("cleanup.policy", SUBTRACT, "delete"))
    assert taken == (ErrorCode.NONE, {"cleanup.policy": "compact"})
    assert alter(image(), Alteration("retention.ms", APPEND, "1"))[0] is ErrorCode.INVALID_CONFIG


def test_the_older_way_replaces_everything() -> None:
    """Keys that are not named are unset."""
    base = image(retention_ms="5", segment_bytes="2000000")
    changed = alter(base, Alteration("retention.ms", SET, "9"), replace_all=True)
    assert changed == (ErrorCode.NONE, {"retention.ms": "9"})


def test_a_resource_changes_as_a_whole_or_not_at_all() -> None:
    """One invalid key prevents all changes."""
    good = Alteration("retention.ms", SET, "9")
    for bad in (
        Alteration("retention.mss", SET, "1"),
        Alteration("segment.bytes", SET, "many"),
    ):
        assert alter(image(), good, bad) == (ErrorCode.INVALID_CONFIG, {})
    assert alter(image(), good, good)[0] is ErrorCode.INVALID_REQUEST


def test_unknown_resources_and_fixed_broker_keys_are_refused() -> None:
    """They are refused with Kafka's error codes."""
    change = Alteration("retention.ms", SET, "9")
    assert alter(image(), change, name="x")[0] is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert alter(image(), change, kind=99)[0] is ErrorCode.INVALID_REQUEST
    fixed = Alteration("node.id", SET, "9")
    assert alter(image(), fixed, kind=BROKER, name="1")[0] is ErrorCode.INVALID_REQUEST
    dynamic = Alteration("log.retention.ms", SET, "9")
    assert alter(image(), dynamic, kind=BROKER, name="1")[0] is ErrorCode.NONE


def test_what_this_broker_cannot_do_is_refused_before_it_is_written() -> None:
    """Regression, with tiered storage: the record was committed and no broker could start any
    longer."""
    for change in (
        Alteration("remote.storage.enable", SET, "true"),
        Alteration("nosuch.key", SET, "1"),
        Alteration("min.compaction.lag.ms", SET, "9"),
    ):
        base = image(max_compaction_lag_ms="5")
        code, after = alter(base, change)
        assert (code, after) == (ErrorCode.INVALID_CONFIG, {"max.compaction.lag.ms": "5"})
    assert alter(image(), Alteration("nosuch.key", DELETE, None))[0] is ErrorCode.NONE


def test_a_stored_value_that_does_not_fit_is_no_reason_to_refuse_another_key() -> None:
    """It may be from an older version; it can be unset, and other keys can be changed."""
    base = image(remote_storage_enable="true")
    changed = alter(base, Alteration("retention.ms", SET, "9"))
    assert changed == (ErrorCode.NONE, {"remote.storage.enable": "true", "retention.ms": "9"})
    unset = alter(base, Alteration("remote.storage.enable", DELETE, None))
    assert unset == (ErrorCode.NONE, {})


def broker_alter(operation: int, value: str, held: str | None = None) -> str | None:
    """Returns the new `log.cleanup.policy` of broker 1."""
    delta = MetadataDelta(image())
    key, name = "log.cleanup.policy", "1"
    if held is not None:
        delta.replay(ConfigRecord(resource_type=BROKER, resource_name=name, name=key, value=held))
    base = delta.apply(2, 1).image
    resource = ResourceAlteration(BROKER, name, (Alteration(key, operation, value),))
    [record] = alter_configs(base, [resource], IN_FORCE).records
    assert isinstance(record, ConfigRecord)
    return record.value


def test_lists_of_brokers_start_from_what_is_in_force_too() -> None:
    """Regression: APPEND compact started from an empty list and made the whole broker compact."""
    assert broker_alter(APPEND, "compact") == "delete,compact"
    assert broker_alter(SUBTRACT, "compact", "delete,compact") == "delete"
    assert broker_alter(SUBTRACT, "delete") == ""


def test_a_resource_stands_once_in_a_request() -> None:
    """Neither is altered, because the request is ambiguous."""
    resource = ResourceAlteration(TOPIC, "t", (Alteration("retention.ms", SET, "1"),))
    decision = alter_configs(image(), [resource, resource])
    assert [one.error for one in decision.reply] == [ErrorCode.INVALID_REQUEST] * 2
    assert not decision.records
