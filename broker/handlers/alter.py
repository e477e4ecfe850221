"""What AlterConfigs and IncrementalAlterConfigs have in common: rights, and the controller's word.

Never: a response of an API.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from broker.config.keys import TOPIC_KEYS, ConfigType
from broker.config.views import topic_default
from broker.controller.decisions.configs import ConfigResult, ResourceAlteration, alter_configs
from broker.controller.decisions.rules import Rules
from broker.handlers.context import RequestContext
from broker.metadata.image import ResourceType
from broker.security.authorizer import CLUSTER_NAME, Operation, Resource
from bus.errors import ErrorCode


def alter(
    resources: Sequence[ResourceAlteration],
    validate_only: bool,
    context: RequestContext,
    done: Callable[[list[ConfigResult]], None],
    failed: Callable[[ErrorCode], None],
) -> None:
    """Alter what the client may alter; `done` hears of every resource, or `failed` why none could
    be altered."""
    services = context.services
    allowed = [resource for resource in resources if _may(resource, context)]
    refused = [
        ConfigResult(resource.resource_type, resource.name, _refusal(resource))
        for resource in resources
        if not _may(resource, context)
    ]
    lists = {
        key.name: key.text(topic_default(services.config, key.name)[0]) or ""
        for key in TOPIC_KEYS.values()
        if key.type is ConfigType.LIST
    }
    rules = Rules.of(services.config)
    services.controller.write(
        lambda image: alter_configs(image, allowed, lists, validate_only, rules),
        lambda results: done([*results, *refused]),
        failed,
    )


def _may(resource: ResourceAlteration, context: RequestContext) -> bool:
    if resource.resource_type == ResourceType.TOPIC:
        return context.may(Operation.ALTER_CONFIGS, Resource.TOPIC, resource.name)
    return context.may(Operation.ALTER_CONFIGS, Resource.CLUSTER, CLUSTER_NAME)


def _refusal(resource: ResourceAlteration) -> ErrorCode:
    if resource.resource_type == ResourceType.TOPIC:
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
