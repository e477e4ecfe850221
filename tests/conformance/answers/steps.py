"""Requests with which many rows begin or end."""

from __future__ import annotations

from typing import Any

from tests.conformance.answers.case import Ask, ask

TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = range(4)


def new_topic(name: str = "{topic}", partitions: int = 1, **configs: str) -> Ask:
    """Creates a topic; `{name}_id` is its id. Underscores in config keys become dots."""
    entry = {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": 1,
        "configs": [{"name": key.replace("_", "."), "value": configs[key]} for key in configs],
    }
    made = ask("CreateTopics", 7, topics=[entry])
    return Ask(
        made.api, made.version, made.fields, keep={f"{name.strip('{}')}_id": "topics.0.topic_id"}
    )


def seen(name: str = "{topic}") -> Ask:
    """Metadata of the topic, once it has a leader."""
    fields = {"topics": [{"name": name}], "allow_auto_topic_creation": False}
    until = {"topics.0.error_code": 0, "topics.0.partitions.0.error_code": 0}
    return Ask("Metadata", 9, fields, until=until)


def led(name: str = "{topic}") -> Ask:
    """Waits until its leader serves: Kafka's brokers show a topic a little before they lead it."""
    wanted = {"name": name, "partitions": [{"partition_index": 0, "timestamp": -1}]}
    until = {"topics.0.partitions.0.error_code": 0}
    return Ask("ListOffsets", 7, {"replica_id": -1, "topics": [wanted]}, until=until)


def alter(kind: int, name: str, *changes: tuple[str, int, str | None], **more: Any) -> Ask:
    """IncrementalAlterConfigs of one resource: (key, operation, value)."""
    configs = [
        {"name": key, "config_operation": operation, "value": value}
        for key, operation, value in changes
    ]
    resource = {"resource_type": kind, "resource_name": name, "configs": configs}
    return ask("IncrementalAlterConfigs", 1, resources=[resource], **more)


def alter_all(kind: int, name: str, configs: dict[str, str | None], **more: Any) -> Ask:
    """AlterConfigs of one resource."""
    wanted = [{"name": key, "value": value} for key, value in configs.items()]
    resource = {"resource_type": kind, "resource_name": name, "configs": wanted}
    return ask("AlterConfigs", 2, resources=[resource], **more)


def describe(kind: int, name: str, *keys: str, synonyms: bool = False) -> Ask:
    """DescribeConfigs of one resource; no keys: all."""
    resource = {
        "resource_type": kind, "resource_name": name, "configuration_keys": list(keys) or None,
    }  # fmt: skip
    return ask("DescribeConfigs", 4, resources=[resource], include_synonyms=synonyms)
