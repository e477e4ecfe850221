"""DescribeConfigs (32).

Behaviour: every key with its value, where that comes from, and all keys if none is named. Values
of sensitive keys are never told. The loggers of a broker are told by that broker only, with the
levels in force. Groups and client metrics have no configuration here yet.

Versions: 1-4. 3 has types and documentation.
"""

from __future__ import annotations

from collections.abc import Iterable

from broker.config.without_effect import explained
from broker.handlers.configs import Entry, broker_entries, shared_entries, topic_entries
from broker.handlers.context import RequestContext
from broker.handlers.loggers import levels
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

DYNAMIC_BROKER_LOGGER = 6
STRING = 2


def handle(request: DescribeConfigsRequest, context: RequestContext) -> DescribeConfigsResponse:
    """Describe each resource."""
    return DescribeConfigsResponse(
        results=[_describe(resource, request, context) for resource in request.resources]
    )


def _describe(
    resource: DescribeConfigsResource, request: DescribeConfigsRequest, context: RequestContext
) -> DescribeConfigsResult:
    if resource.resource_type == ResourceType.BROKER_LOGGER:
        return _loggers(resource, context)
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
        return ErrorCode.INVALID_REQUEST, _other_broker(services.node_id, name)
    if resource.resource_type in (ResourceType.GROUP, ResourceType.CLIENT_METRICS):
        return []
    return ErrorCode.INVALID_REQUEST, f"unknown resource type {resource.resource_type}"


def _other_broker(node_id: int, name: str) -> str:
    return f"Unexpected broker id, expected {node_id} or empty string, but received {name}"


def _loggers(
    resource: DescribeConfigsResource, context: RequestContext
) -> DescribeConfigsResult:
    """Of this broker only: no other knows its levels."""
    name, wanted = resource.resource_name, resource.configuration_keys
    error, message = ErrorCode.NONE, None
    if not context.may(Operation.DESCRIBE_CONFIGS, Resource.CLUSTER, CLUSTER_NAME):
        error, message = ErrorCode.CLUSTER_AUTHORIZATION_FAILED, name
    elif name != str(context.services.node_id):
        error, message = ErrorCode.INVALID_REQUEST, _other_broker(context.services.node_id, name)
    configs = [
        DescribeConfigsResourceResult(
            name=logger, value=level, config_source=DYNAMIC_BROKER_LOGGER,
            config_type=STRING, documentation=None,
        )
        for logger, level in levels().items()
        if not error and (wanted is None or logger in wanted)
    ]  # fmt: skip
    return DescribeConfigsResult(
        error_code=error,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=name,
        configs=configs,
    )


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
        documentation=(
            explained(entry.key.name, entry.key.doc) if request.include_documentation else None
        ),
    )
