"""DescribeConfigs (32).

Behaviour: every key with its value, where that comes from, and all keys if none is named. Values
of sensitive keys are never told. Loggers and groups have no configuration here yet.

Versions: 1-4. 3 has types and documentation.
"""

from __future__ import annotations

from collections.abc import Iterable

from broker.handlers.configs import Entry, broker_entries, shared_entries, topic_entries
from broker.handlers.context import RequestContext
from broker.metadata.image import ResourceType
from broker.security.authorizer import CLUSTER_NAME, Operation, Resource
from bus.errors import ErrorCode
from bus.protocol.generated.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)


def handle(request: DescribeConfigsRequest, context: RequestContext) -> DescribeConfigsResponse:
    """Describe each resource."""
    return DescribeConfigsResponse(
        results=[_describe(resource, request, context) for resource in request.resources]
    )


def _describe(
    resource: DescribeConfigsResource, request: DescribeConfigsRequest, context: RequestContext
) -> DescribeConfigsResult:
    found = _entries(resource, context)
    if isinstance(found, tuple):
        error, message = found
        return DescribeConfigsResult(
            error_code=error,
            error_message=message,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
    wanted = resource.configuration_keys
    return DescribeConfigsResult(
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[
            _result(entry, request)
            for entry in found
            if wanted is None or entry.key.name in wanted
        ],
    )


def _entries(
    resource: DescribeConfigsResource, context: RequestContext
) -> Iterable[Entry] | tuple[ErrorCode, str]:
    services, name = context.services, resource.resource_name
    if resource.resource_type == ResourceType.TOPIC:
        if not context.may(Operation.DESCRIBE_CONFIGS, Resource.TOPIC, name):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED, name
        if name not in services.image.topics:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic '{name}' does not exist."
        return topic_entries(services.config, dict(services.image.topic_config(name)))
    if not context.may(Operation.DESCRIBE_CONFIGS, Resource.CLUSTER, CLUSTER_NAME):
        return ErrorCode.CLUSTER_AUTHORIZATION_FAILED, name
    if resource.resource_type == ResourceType.BROKER:
        if not name:
            return shared_entries(services.image.configs.get((ResourceType.BROKER, ""), {}))
        if name == str(services.node_id):
            return broker_entries(services.config)
        return ErrorCode.INVALID_REQUEST, f"this is broker {services.node_id}, not {name}"
    if resource.resource_type in (ResourceType.BROKER_LOGGER, ResourceType.GROUP,
                                  ResourceType.CLIENT_METRICS):
        return []
    return ErrorCode.INVALID_REQUEST, f"unknown resource type {resource.resource_type}"


def _result(entry: Entry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    synonyms = []
    if request.include_synonyms and not entry.key.sensitive:
        synonyms = [
            DescribeConfigsSynonym(
                name=synonym.name, value=synonym.value, source=synonym.source.value
            )
            for synonym in entry.synonyms
        ]
    return DescribeConfigsResourceResult(
        name=entry.key.name,
        value=entry.shown_value,
        read_only=entry.read_only,
        config_source=entry.source.value,
        is_sensitive=entry.key.sensitive,
        synonyms=synonyms,
        config_type=entry.key.type.value,
        documentation=entry.key.doc if request.include_documentation else None,
    )
