"""ListConfigResources (74).

Behaviour: resources that have a configuration. Version 0 lists client metrics only, of which this
broker has none.

Versions: 0-1. 1 names the types.
"""

from __future__ import annotations

from broker.handlers.context import RequestContext
from broker.metadata.image import ResourceType
from broker.security.authorizer import CLUSTER_NAME, Operation, Resource
from bus.errors import ErrorCode
from bus.protocol.generated.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

FIRST_TYPED_VERSION = 1
_SUPPORTED = (
    ResourceType.TOPIC,
    ResourceType.BROKER,
    ResourceType.BROKER_LOGGER,
    ResourceType.CLIENT_METRICS,
    ResourceType.GROUP,
)


def handle(
    request: ListConfigResourcesRequest, context: RequestContext
) -> ListConfigResourcesResponse:
    """List the resources of the requested types; no type means all."""
    if not context.is_authorized(Operation.DESCRIBE_CONFIGS, Resource.CLUSTER, CLUSTER_NAME):
        return ListConfigResourcesResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if context.api_version < FIRST_TYPED_VERSION:
        return ListConfigResourcesResponse()
    wanted = set(request.resource_types) or set(_SUPPORTED)
    if wanted - set(_SUPPORTED):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    found = [
        ConfigResource(resource_name=name, resource_type=kind)
        for kind in _SUPPORTED
        if kind in wanted
        for name in _names(kind, context)
    ]
    return ListConfigResourcesResponse(config_resources=found)


def _names(kind: ResourceType, context: RequestContext) -> list[str]:
    image = context.services.metadata.image
    if kind is ResourceType.TOPIC:
        return list(image.topics)
    if kind in (ResourceType.BROKER, ResourceType.BROKER_LOGGER):
        return [str(broker_id) for broker_id in image.brokers]
    return []
