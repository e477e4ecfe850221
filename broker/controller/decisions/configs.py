"""Decisions about configurations of topics, brokers and groups.

In: the image and what shall change. Out: ConfigRecords and a result per resource.
Never: I/O. A resource changes as a whole or not at all. Kafka: ConfigurationControlManager.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from broker.controller.decisions.config_values import (
    Alteration,
    AlterOperation,
    InForce,
    broker_values,
    check_alterations,
    check_topic_config,
    topic_values,
)
from broker.controller.decisions.decision import Decision, RefusedError
from broker.controller.decisions.min_isr import check_min_isr, elr_records
from broker.controller.decisions.mirrored import check_may_be_mirrored
from broker.controller.decisions.partition_policy import PartitionPolicy
from broker.controller.decisions.site_confirmations import keep_confirmation, with_members
from broker.controller.decisions.site_epochs import keep_site_epoch, next_site_epoch
from broker.controller.decisions.topic_names import name_fault
from broker.metadata.image import MetadataImage, ResourceType
from bus.contracts.site_epoch import SiteEpoch
from bus.errors import ErrorCode
from bus.protocol.generated.metadata_records import ConfigRecord

__all__ = [
    "AlterOperation",
    "Alteration",
    "ConfigResult",
    "InForce",
    "ResourceAlteration",
    "alter_configs",
    "check_topic_config",
    "config_records",
]

NOTHING_IN_FORCE = InForce({}, {})

NOT_OFFERED: Mapping[int, str] = {
    ResourceType.GROUP: "Groups have configurations with KIP-848, which is not offered here yet",
    ResourceType.CLIENT_METRICS: "Client metrics (KIP-714) are not offered here yet",
}


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


def alter_configs(
    image: MetadataImage,
    resources: Sequence[ResourceAlteration],
    in_force: InForce = NOTHING_IN_FORCE,
    validate_only: bool = False,
    policy: PartitionPolicy | None = None,
) -> Decision[tuple[ConfigResult, ...]]:
    """Alter each resource for itself, or none where the request sets a site epoch that is refused.
    `in_force`: lists as they hold where a resource has none."""
    try:
        epoch = next_site_epoch(
            image, ((one.resource_type, one.name, one.alterations) for one in resources)
        )
    except RefusedError as error:
        return Decision((), tuple(_refused(one, error) for one in resources))
    records: list[object] = []
    results = []
    counted = Counter((one.resource_type, one.name) for one in resources)
    for resource in resources:
        try:
            if counted[resource.resource_type, resource.name] > 1:
                raise RefusedError(
                    ErrorCode.INVALID_REQUEST, "Each resource must appear at most once."
                )
            values = _altered(image, resource, in_force, epoch)
            kind = ResourceType(resource.resource_type)
            records += elr_records(image, policy or PartitionPolicy(), kind, resource.name, values)
            records += config_records(kind, resource.name, values)
            results.append(ConfigResult(resource.resource_type, resource.name))
        except RefusedError as error:
            results.append(_refused(resource, error))
    return Decision(() if validate_only else tuple(records), tuple(results))


def _refused(resource: ResourceAlteration, error: RefusedError) -> ConfigResult:
    refusal = error.refusal
    return ConfigResult(resource.resource_type, resource.name, refusal.error, refusal.message)


def _altered(
    image: MetadataImage,
    resource: ResourceAlteration,
    in_force: InForce,
    epoch: SiteEpoch | None,
) -> dict[str, str | None]:
    check_alterations(resource.alterations)
    _check_resource(image, resource)
    kind = ResourceType(resource.resource_type)
    current = image.configs.get((kind, resource.name), {})
    held = {} if resource.replace_all else current
    if kind is ResourceType.TOPIC:
        changed = topic_values(held, resource.alterations, in_force.topic)
        check_may_be_mirrored(resource.name, changed, epoch)
    else:
        lists = dict(in_force.broker)
        changed = broker_values(resource.name, held, resource.alterations, lists)
        changed = with_members(image, resource.name, resource.alterations, changed, epoch)
    if resource.replace_all:
        changed = keep_confirmation(keep_site_epoch(dict.fromkeys(current) | changed))
    check_min_isr(image, kind, resource.name, changed)
    return changed


def _check_resource(image: MetadataImage, resource: ResourceAlteration) -> None:
    kind, name = resource.resource_type, resource.name
    if kind == ResourceType.TOPIC:
        if not name:
            raise RefusedError(
                ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed."
            )
        fault = name_fault(name)
        if fault is not None:
            raise RefusedError(ErrorCode.INVALID_TOPIC_EXCEPTION, fault)
        if name not in image.topics:
            raise RefusedError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist."
            )
    elif kind == ResourceType.BROKER:
        if name and not name.isdecimal():
            raise RefusedError(
                ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}"
            )
    else:
        why = NOT_OFFERED.get(kind, f"Unknown resource type {kind}")
        raise RefusedError(ErrorCode.INVALID_REQUEST, why)
