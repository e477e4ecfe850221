"""FindCoordinator (10).

Behaviour: the broker that leads the partition of `__consumer_offsets` a group belongs to; the
topic is created when it is first needed. Share groups have no coordinator here yet, as in a Kafka
with that feature disabled. A transactional id has none either: the error is that it is not
authorized, which librdkafka and Java's client treat as final; with any other error librdkafka
retries until its own limit.

Versions: 0-6. 1 has the key's type, 4 asks for several keys, 6 knows share groups.
"""

from __future__ import annotations

from broker.coordinator.coordinators import CoordinatorType
from broker.handlers.context import RequestContext
from broker.handlers.topics import after_creation, auto_create, endpoint_of
from broker.security.authorizer import Operation, Resource
from bus.errors import ErrorCode
from bus.protocol.generated.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

FIRST_BATCHED_VERSION = 4
NO_ERROR_TEXT = "NONE"
"""What Kafka answers below version 4 where nothing is wrong."""
NO_TRANSACTIONS = "transactions are not served here"


def handle(
    request: FindCoordinatorRequest, context: RequestContext
) -> FindCoordinatorResponse | None:
    """Respond at once, or as soon as the topic exists if this controller has just created it."""
    services = context.services
    found = _find_all(request, context)
    codes = (found.error_code, *(one.error_code for one in found.coordinators))
    coordinator = services.coordinators.by_type.get(request.key_type)
    is_creating = (
        ErrorCode.COORDINATOR_NOT_AVAILABLE in codes
        and coordinator is not None
        and coordinator.topic_name not in services.metadata.image.topics
    )
    if is_creating and services.control_plane.controller.is_active:
        after_creation(services, lambda: context.reply(_find_all(request, context)))
        return None
    return found


def _find_all(request: FindCoordinatorRequest, context: RequestContext) -> FindCoordinatorResponse:
    """Find one coordinator or several."""
    if context.api_version >= FIRST_BATCHED_VERSION:
        return FindCoordinatorResponse(
            coordinators=[_find(key, request.key_type, context) for key in request.coordinator_keys]
        )
    found = _find(request.key, request.key_type, context)
    return FindCoordinatorResponse(
        error_code=found.error_code,
        error_message=found.error_message or NO_ERROR_TEXT,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


def _find(key: str, key_type: int, context: RequestContext) -> Coordinator:
    services = context.services
    coordinator = services.coordinators.by_type.get(key_type)
    if key_type == CoordinatorType.TRANSACTION:
        return _failure(key, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, NO_TRANSACTIONS)
    if coordinator is None:
        silent = key_type == CoordinatorType.SHARE and context.api_version >= FIRST_BATCHED_VERSION
        return _failure(key, ErrorCode.INVALID_REQUEST, "" if silent else None)
    if not context.is_authorized(Operation.DESCRIBE, Resource.GROUP, key):
        return _failure(key, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if coordinator.topic_name not in services.metadata.image.topics:
        auto_create(services, coordinator.topic_name)
    topic = services.metadata.image.topics.get(coordinator.topic_name)
    if topic is None:
        return _failure(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    leader = topic.partitions[coordinator.partition_of(key)].leader
    endpoint = endpoint_of(services.metadata.image, leader, context.session.listener)
    if endpoint is None:
        return _failure(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return Coordinator(
        key=key, node_id=leader, host=endpoint.host, port=endpoint.port, error_message=""
    )


def _failure(key: str, error: ErrorCode, message: str | None = None) -> Coordinator:
    return Coordinator(
        key=key,
        node_id=-1,
        host="",
        port=-1,
        error_code=error,
        error_message=error.text if message is None else message,
    )
