"""DescribeConfigs (32).

Behaviour: every key with its value, where that comes from, and all keys if none is named. Values
of sensitive keys are never returned. The loggers of a broker are described by that broker only,
with their effective levels. Groups and client metrics have no configuration here yet.

Versions: 1-4. 3 has types and documentation.
"""

from __future__ import annotations

from collections.abc import Iterable

from broker.config.ignored_keys import explain_ignored
from broker.controller.decisions.topic_names import name_fault
from broker.handlers.configs import DescribedConfig, broker_entries, shared_entries, topic_entries
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

NAMED: dict[int, str] = {
    ResourceType.CLIENT_METRICS: "Client metrics subscription",
    ResourceType.GROUP: "Group",
}
"""Resource types without a configuration here yet, by Kafka's names."""

UNKNOWN_TYPE = (
    "This most likely occurs because of a request being malformed by the client library or the "
    "message was sent to an incompatible broker. See the broker logs for more details."
)
"""Kafka's text for INVALID_REQUEST where it has no better one."""


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
            _result(entry, request) for entry in found if not wanted or entry.key.name in wanted
        ],
    )


def _entries(
    resource: DescribeConfigsResource, context: RequestContext
) -> Iterable[DescribedConfig] | tuple[ErrorCode, str]:
    services, name = context.services, resource.resource_name
    image, config = services.metadata.image, services.metadata.config
    if resource.resource_type == ResourceType.TOPIC:
        if not context.is_authorized(Operation.DESCRIBE_CONFIGS, Resource.TOPIC, name):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED, name
        misnamed = name_fault(name)
        if misnamed is not None:
            return ErrorCode.INVALID_TOPIC_EXCEPTION, misnamed
        if name not in image.topics:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ""
        return topic_entries(config, dict(image.topic_config(name)))
    if resource.resource_type == ResourceType.GROUP:
        if not context.is_authorized(Operation.DESCRIBE_CONFIGS, Resource.GROUP, name):
            return ErrorCode.GROUP_AUTHORIZATION_FAILED, name
    elif not context.is_authorized(Operation.DESCRIBE_CONFIGS, Resource.CLUSTER, CLUSTER_NAME):
        return ErrorCode.CLUSTER_AUTHORIZATION_FAILED, name
    if resource.resource_type == ResourceType.BROKER:
        if not name:
            return shared_entries(image.configs.get((ResourceType.BROKER, ""), {}))
        fault = _not_this_broker(services.node_id, name, "expected {} or empty string, but")
        return broker_entries(config) if fault is None else fault
    what = NAMED.get(resource.resource_type)
    if what is None:
        return ErrorCode.INVALID_REQUEST, UNKNOWN_TYPE
    return [] if name else (ErrorCode.INVALID_REQUEST, f"{what} name must not be empty")


def _not_this_broker(node_id: int, name: str, expected: str) -> tuple[ErrorCode, str] | None:
    """In Kafka's words, which are not the same everywhere (`expected`)."""
    if name == str(node_id):
        return None
    if not name.removeprefix("-").isdecimal():
        return ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}"
    message = f"Unexpected broker id, {expected.format(node_id)} received {name}"
    return ErrorCode.INVALID_REQUEST, message


def _loggers(resource: DescribeConfigsResource, context: RequestContext) -> DescribeConfigsResult:
    """The loggers of this broker: no other knows their levels."""
    name, wanted = resource.resource_name, resource.configuration_keys
    error, message = ErrorCode.NONE, ""
    if not context.is_authorized(Operation.DESCRIBE_CONFIGS, Resource.CLUSTER, CLUSTER_NAME):
        error, message = ErrorCode.CLUSTER_AUTHORIZATION_FAILED, name
    elif not name:
        error, message = ErrorCode.INVALID_REQUEST, "Broker id must not be empty"
    elif fault := _not_this_broker(context.services.node_id, name, "expected {} but"):
        error, message = fault
    configs = [
        DescribeConfigsResourceResult(
            name=logger, value=level, config_source=DYNAMIC_BROKER_LOGGER,
            config_type=STRING, documentation=None,
        )
        for logger, level in levels().items()
        if not error and (not wanted or logger in wanted)
    ]  # fmt: skip
    return DescribeConfigsResult(
        error_code=error,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=name,
        configs=configs,
    )


def _result(
    entry: DescribedConfig, request: DescribeConfigsRequest
) -> DescribeConfigsResourceResult:
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
        value=entry.client_value,
        read_only=entry.read_only,
        config_source=entry.source.value,
        is_sensitive=entry.key.sensitive,
        synonyms=synonyms,
        config_type=entry.key.type.value,
        documentation=(
            explain_ignored(entry.key.name, entry.key.doc)
            if request.include_documentation
            else None
        ),
    )
