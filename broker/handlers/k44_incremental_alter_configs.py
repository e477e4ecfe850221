"""IncrementalAlterConfigs (44).

Behaviour: sets, unsets, appends to or subtracts from single keys; a resource changes as a whole or
not at all. A broker's loggers are changed by that broker, everything else by the controller: a
request about loggers alone is never forwarded.

Versions: 0-1.
"""

from __future__ import annotations

from broker.controller.decisions.configs import (
    Alteration,
    ConfigResult,
    ResourceAlteration,
)
from broker.handlers.alter_configs import alter
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


def handle(request: IncrementalAlterConfigsRequest, context: RequestContext) -> None:
    """Ask the controller, or forward the request to it."""

    def own(resource: ResourceAlteration) -> ConfigResult | None:
        if resource.resource_type != ResourceType.BROKER_LOGGER:
            return None
        return _alter_loggers(resource, request.validate_only, context)

    alter(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        request,
        [_alteration(resource) for resource in request.resources],
        request.validate_only,
        context,
        lambda results: IncrementalAlterConfigsResponse(responses=[_result(r) for r in results]),
        own,
    )


def _alter_loggers(
    wanted: ResourceAlteration, validate_only: bool, context: RequestContext
) -> ConfigResult:
    services = context.services
    if not context.is_authorized(Operation.ALTER_CONFIGS, Resource.CLUSTER, CLUSTER_NAME):
        error, message = ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None
    elif wanted.name != str(services.node_id):
        error = ErrorCode.INVALID_REQUEST
        if wanted.name.removeprefix("-").isdecimal():
            message = f"Unexpected node id. Expected {services.node_id}, but received {wanted.name}"
        else:
            message = f"Node id must be an integer, but it is: {wanted.name}"
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
    return Alteration(config.name, config.config_operation, config.value)


def _result(result: ConfigResult) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=result.error,
        error_message=result.message,
        resource_type=result.resource_type,
        resource_name=result.name,
    )
