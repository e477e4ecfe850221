"""Decisions about configurations of topics, brokers and groups.

In: the image and what shall change. Out: ConfigRecords and a result per resource.
Never: I/O. A resource changes as a whole or not at all. Kafka: ConfigurationControlManager.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from broker.config.keys import BROKER_KEYS, TOPIC_KEYS, ConfigError, ConfigType, Dynamic, parse
from broker.controller.decisions.decision import Decision, RefusedError
from broker.controller.decisions.min_isr import check_min_isr, elr_records
from broker.controller.decisions.rules import Rules
from broker.metadata.image import MetadataImage, ResourceType
from bus.errors import ErrorCode
from bus.protocol.generated.metadata_records import ConfigRecord


class AlterOperation(IntEnum):
    """IncrementalAlterConfigs' operations (AlterConfigOp.OpType)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class Alteration:
    """One key of one resource."""

    name: str
    operation: AlterOperation
    value: str | None


@dataclass(frozen=True, slots=True)
class ResourceAlteration:
    """Everything that shall change on one resource; `replace_all` unsets what is not named."""

    resource_type: int
    name: str
    alterations: tuple[Alteration, ...]
    replace_all: bool = False


@dataclass(frozen=True, slots=True)
class ConfigResult:
    """What became of one resource."""

    resource_type: int
    name: str
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


def config_records(
    resource_type: ResourceType, name: str, values: Mapping[str, str | None]
) -> list[ConfigRecord]:
    """One record per key; None unsets."""
    return [
        ConfigRecord(resource_type=int(resource_type), resource_name=name, name=key, value=value)
        for key, value in values.items()
    ]


def check_topic_config(values: Mapping[str, str | None]) -> None:
    """Raises `ConfigError` naming the first key that is unknown or has an unusable value."""
    for key, value in values.items():
        if key not in TOPIC_KEYS:
            raise ConfigError(key, "Unknown topic config name")
        if value is None:
            raise ConfigError(key, "Null value not supported for topic configs")
        parse(key, value, TOPIC_KEYS)


def alter_configs(
    image: MetadataImage,
    resources: Sequence[ResourceAlteration],
    effective: Mapping[str, str],
    validate_only: bool = False,
    rules: Rules | None = None,
) -> Decision[tuple[ConfigResult, ...]]:
    """Alter each resource for itself.

    `effective` holds the broker's defaults of list-valued topic keys: APPEND and SUBTRACT start
    from what holds now, not from what was set.
    """
    records: list[object] = []
    results = []
    for resource in resources:
        try:
            values = _altered(image, resource, effective)
            kind = ResourceType(resource.resource_type)
            records += elr_records(image, rules or Rules(), kind, resource.name, values)
            records += config_records(kind, resource.name, values)
            results.append(ConfigResult(resource.resource_type, resource.name))
        except RefusedError as error:
            refusal = error.refusal
            results.append(
                ConfigResult(
                    resource.resource_type, resource.name, refusal.error, refusal.message
                )
            )
    return Decision(() if validate_only else tuple(records), tuple(results))


def _altered(
    image: MetadataImage, resource: ResourceAlteration, effective: Mapping[str, str]
) -> dict[str, str | None]:
    _check_resource(image, resource)
    names = [alteration.name for alteration in resource.alterations]
    if len(set(names)) != len(names):
        raise RefusedError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    current = image.configs.get((ResourceType(resource.resource_type), resource.name), {})
    changed: dict[str, str | None] = {}
    if resource.replace_all:
        changed = dict.fromkeys(current)
    for alteration in resource.alterations:
        changed[alteration.name] = _new_value(resource, alteration, current, effective)
    check_min_isr(image, ResourceType(resource.resource_type), resource.name, changed)
    return changed


def _check_resource(image: MetadataImage, resource: ResourceAlteration) -> None:
    kind = resource.resource_type
    if kind == ResourceType.TOPIC:
        if resource.name not in image.topics:
            raise RefusedError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic '{resource.name}' does not exist."
            )
    elif kind == ResourceType.BROKER:
        if resource.name and not resource.name.isdigit():
            raise RefusedError(
                ErrorCode.INVALID_REQUEST, f"'{resource.name}' is not a broker's number"
            )
    else:
        raise RefusedError(
            ErrorCode.INVALID_REQUEST, f"configurations of type {kind} cannot be altered here"
        )


def _new_value(
    resource: ResourceAlteration,
    alteration: Alteration,
    current: Mapping[str, str],
    effective: Mapping[str, str],
) -> str | None:
    keys = TOPIC_KEYS if resource.resource_type == ResourceType.TOPIC else BROKER_KEYS
    key = keys.get(alteration.name)
    if key is None:
        raise RefusedError(
            ErrorCode.INVALID_CONFIG, f"Unknown config name: {alteration.name}"
        )
    if keys is BROKER_KEYS and key.dynamic is Dynamic.READ_ONLY:
        raise RefusedError(
            ErrorCode.INVALID_REQUEST, f"Cannot update these configs dynamically: {key.name}"
        )
    if alteration.operation is AlterOperation.DELETE:
        return None
    if alteration.value is None:
        raise RefusedError(ErrorCode.INVALID_REQUEST, f"null value for {key.name}")
    value = alteration.value
    if alteration.operation in (AlterOperation.APPEND, AlterOperation.SUBTRACT):
        if key.type is not ConfigType.LIST:
            raise RefusedError(
                ErrorCode.INVALID_CONFIG,
                f"Can't {alteration.operation.name} to key {key.name} because its type is not LIST",
            )
        held = current.get(key.name, effective.get(key.name, ""))
        value = _listed(held, value, alteration.operation)
    try:
        parse(key.name, value, keys)
    except ConfigError as error:
        raise RefusedError(ErrorCode.INVALID_CONFIG, str(error)) from error
    return value


def _listed(held: str, given: str, operation: AlterOperation) -> str:
    have = [item for item in held.split(",") if item]
    items = [item for item in given.split(",") if item]
    if operation is AlterOperation.APPEND:
        return ",".join([*have, *(item for item in items if item not in have)])
    return ",".join(item for item in have if item not in items)
