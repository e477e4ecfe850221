"""IncrementalAlterConfigs (44).

Behaviour: sets, unsets, appends to or subtracts from single keys; a resource changes as a whole or
not at all. A broker's loggers are that broker's own affair, everything else the controller's: a
request about loggers alone is never sent on.

Versions: 0-1.
"""

from __future__ import annotations

from broker.controller.decisions.configs import (
    Alteration,
    AlterOperation,
    ConfigResult,
    ResourceAlteration,
)
from broker.handlers.alter import alter
from broker.handlers.context import RequestContext
from broker.handlers.loggers import alter_levels
from broker.metadata.image import ResourceType
from broker.security.authorizer import CLUSTER_NAME, Operation, Resource
from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.generated.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


def handle(
    request: IncrementalAlterConfigsRequest, context: RequestContext
) -> IncrementalAlterConfigsResponse | None:
    """Ask the controller."""
    services = context.services
    if not services.controller.is_active and not _is_about_loggers(request):
        services.forward(ApiKey.INCREMENTAL_ALTER_CONFIGS, request, context)
        return None
    unknown = [
        config.config_operation
        for resource in request.resources
        for config in resource.configs
        if config.config_operation not in set(AlterOperation)
    ]
    if unknown:
        return IncrementalAlterConfigsResponse(
            responses=[_unknown(resource, unknown[0]) for resource in request.resources]
        )

    alterations = [_alteration(resource) for resource in request.resources]
    here = [
        _alter_loggers(one, request.validate_only, context)
        for one in alterations
        if one.resource_type == ResourceType.BROKER_LOGGER
    ]
    if len(here) == len(alterations):
        return IncrementalAlterConfigsResponse(responses=[_result(one) for one in here])

    def done(results: list[ConfigResult]) -> None:
        everything = [*here, *results]
        context.reply(IncrementalAlterConfigsResponse(responses=[_result(r) for r in everything]))

    alter(
        [one for one in alterations if one.resource_type != ResourceType.BROKER_LOGGER],
        request.validate_only,
        context,
        done,
        lambda error: context.refuse(ApiKey.INCREMENTAL_ALTER_CONFIGS, request, error),
    )
    return None


def _is_about_loggers(request: IncrementalAlterConfigsRequest) -> bool:
    kinds = {resource.resource_type for resource in request.resources}
    return kinds == {ResourceType.BROKER_LOGGER}


def _alter_loggers(
    wanted: ResourceAlteration, validate_only: bool, context: RequestContext
) -> ConfigResult:
    services = context.services
    if not context.may(Operation.ALTER_CONFIGS, Resource.CLUSTER, CLUSTER_NAME):
        error, message = ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None
    elif wanted.name != str(services.node_id):
        error, message = ErrorCode.INVALID_REQUEST, (
            f"Unexpected broker id, expected {services.node_id} but received {wanted.name}"
        )
    else:
        error, message = alter_levels(wanted.alterations, validate_only)
    return ConfigResult(wanted.resource_type, wanted.name, error, message)


def _alteration(resource: AlterConfigsResource) -> ResourceAlteration:
    return ResourceAlteration(
        resource.resource_type,
        resource.resource_name,
        tuple(_one(config) for config in resource.configs),
    )


def _one(config: AlterableConfig) -> Alteration:
    return Alteration(config.name, AlterOperation(config.config_operation), config.value)


def _unknown(resource: AlterConfigsResource, operation: int) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=ErrorCode.INVALID_REQUEST,
        error_message=f"unknown operation {operation}",
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def _result(result: ConfigResult) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=result.error,
        error_message=result.message,
        resource_type=result.resource_type,
        resource_name=result.name,
    )
