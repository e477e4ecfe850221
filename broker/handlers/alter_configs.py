"""Shared by AlterConfigs and IncrementalAlterConfigs: authorization, checks of this broker, and the
controller's decision."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from broker.config.keys import BROKER_KEYS, TOPIC_KEYS, ConfigType
from broker.config.views import BrokerConfig, topic_default
from broker.controller.decisions.configs import (
    AlterOperation,
    ConfigResult,
    InForce,
    ResourceAlteration,
    alter_configs,
)
from broker.controller.decisions.partition_policy import PartitionPolicy
from broker.handlers.context import RequestContext
from broker.handlers.listener_type import ListenerType
from broker.handlers.own_configs import refused_here
from broker.metadata.image import ResourceType
from broker.security.authorizer import CLUSTER_NAME, Operation, Resource
from bus.contracts.site_confirmation import SITE_CONFIRMATION_KEY
from bus.contracts.topics import CONTROL_MIRROR_CONFIRMED
from bus.errors import ErrorCode


def alter(
    key: int,
    request: object,
    resources: Sequence[ResourceAlteration],
    validate_only: bool,
    context: RequestContext,
    response: Callable[[list[ConfigResult]], object],
    own: Callable[[ResourceAlteration], ConfigResult | None] = lambda _: None,
) -> None:
    """Alter what the client may alter, and respond. `own` returns a result for what this broker
    alone applies; a request of nothing else is never forwarded."""
    services = context.services
    in_force = _lists_in_force(services.metadata.config)
    here: list[ConfigResult] = []
    left: list[ResourceAlteration] = []
    for resource in resources:
        result = _refused(resource, context, in_force)
        if result is None:
            left.append(resource)
        else:
            here.append(result)
    may_forward = (
        context.listener_type is not ListenerType.CONTROLLER
        and not services.control_plane.controller.is_active
    )
    if may_forward and any(map(_is_the_controllers, left)):
        services.forwarding.forward(key, request, context)
        return
    asked = []
    for resource in left:
        result = own(resource)
        if result is None:
            asked.append(resource)
        else:
            here.append(result)
    if not asked:
        context.reply(response(here))
        return
    rules = PartitionPolicy.of(services.metadata.config)
    services.control_plane.controller.write(
        lambda image: alter_configs(image, asked, in_force, validate_only, rules),
        lambda results: context.reply(response([*here, *results])),
        lambda error: context.reply_error(key, request, error),
    )


def _is_the_controllers(resource: ResourceAlteration) -> bool:
    return resource.resource_type != ResourceType.BROKER_LOGGER


def _refused(
    resource: ResourceAlteration, context: RequestContext, in_force: InForce
) -> ConfigResult | None:
    if not _is_authorized(resource, context):
        return ConfigResult(resource.resource_type, resource.name, _refusal(resource))
    return refused_here(resource, context, in_force)


def _lists_in_force(config: BrokerConfig) -> InForce:
    return InForce(
        topic={
            key.name: key.text(topic_default(config, key.name)[0]) or ""
            for key in TOPIC_KEYS.values()
            if key.type is ConfigType.LIST
        },
        broker={
            key.name: config.text(key.name) or ""
            for key in BROKER_KEYS.values()
            if key.type is ConfigType.LIST
        },
    )


def _is_authorized(resource: ResourceAlteration, context: RequestContext) -> bool:
    if resource.resource_type == ResourceType.TOPIC:
        return context.is_authorized(Operation.ALTER_CONFIGS, Resource.TOPIC, resource.name)
    if resource.resource_type == ResourceType.GROUP:
        return context.is_authorized(Operation.ALTER_CONFIGS, Resource.GROUP, resource.name)
    if _only_confirms(resource) and context.is_authorized(
        Operation.ALTER, Resource.TOPIC, CONTROL_MIRROR_CONFIRMED, is_reported=False
    ):
        return True
    return context.is_authorized(Operation.ALTER_CONFIGS, Resource.CLUSTER, CLUSTER_NAME)


def _only_confirms(resource: ResourceAlteration) -> bool:
    """Whether nothing is set but the confirmation of a site epoch. An edge may do that; whoever may
    alter the cluster's configuration could open it (ADR 0115)."""
    return (
        resource.resource_type == ResourceType.BROKER
        and not resource.replace_all
        and bool(resource.alterations)
        and all(
            one.name == SITE_CONFIRMATION_KEY and one.operation == AlterOperation.SET
            for one in resource.alterations
        )
    )


def _refusal(resource: ResourceAlteration) -> ErrorCode:
    if resource.resource_type == ResourceType.TOPIC:
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if resource.resource_type == ResourceType.GROUP:
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
