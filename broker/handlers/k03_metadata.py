"""Metadata (3).

Behaviour: brokers and topics from the image. A null list (version 0: an empty one) means all
topics. A topic that does not exist is created if both the client and `auto.create.topics.enable`
allow it; the response waits a moment for it where this node is the active controller, and if the
topic is still missing, LEADER_NOT_AVAILABLE lets the client retry.

Topics in a response about all topics are encoded once for all clients (`metadata_cache`).

While a leading broker fails over, the response waits for the new leaders (`FailoverGate`).

Versions: 0-13. 4 lets the client forbid creation, 10 has topic ids, 12 may name topics by id alone,
13 has an error for the whole response.
"""

from __future__ import annotations

from typing import cast

from broker.controller.decisions.topic_names import name_fault
from broker.handlers.context import RequestContext
from broker.handlers.preconditions import cluster_operations, may_create
from broker.handlers.topics import (
    after_creation,
    auto_create,
    endpoint_of,
    is_internal,
    is_reserved,
    leader_for_clients,
    offline_replicas,
)
from broker.metadata.image import PartitionImage, TopicImage
from broker.security.authorizer import NOT_ASKED, Operation, Resource
from bus.errors import ErrorCode
from bus.protocol.generated.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

NO_ID = bytes(16)
FIRST_ID_VERSION = 12


def handle(request: MetadataRequest, context: RequestContext) -> MetadataResponse | None:
    """Respond at once, or when the new leaders are known."""
    services = context.services
    if services.metadata.failover_gate.delay(
        services.metadata.image, lambda: context.reply(_describe(request, context))
    ):
        return None
    found = _describe(request, context)
    is_active = services.control_plane.controller.is_active
    if request.topics and is_active and _is_creating(found, context):
        after_creation(services, lambda: context.reply(_describe(request, context)))
        return None
    return found


def _is_creating(found: MetadataResponse, context: RequestContext) -> bool:
    """Whether a topic is being created because of this request."""
    existing = context.services.metadata.image.topics
    return any(
        topic.error_code == ErrorCode.LEADER_NOT_AVAILABLE and topic.name not in existing
        for topic in found.topics
    )


def _describe(request: MetadataRequest, context: RequestContext) -> MetadataResponse:
    """Create what may be created, then describe."""
    asked = request.topics
    if asked is None or not (asked or context.api_version > 0):
        return _response(_all_topics(request, context), request, context)
    by_id = {ask.topic_id: ask for ask in asked if ask.topic_id != NO_ID}
    needs_ids = by_id or any(ask.name is None for ask in asked)
    if needs_ids and context.api_version < FIRST_ID_VERSION:
        return _refused(asked)
    if by_id:
        # With one id, all names in the request are ignored: another topic may have a name by now,
        # but never an id.
        topics = [_topic_by_id(topic_id, request, context) for topic_id in by_id]
    else:
        topics = [
            _topic_by_id(NO_ID, request, context)
            if name is None
            else _topic_by_name(name, request, context)
            for name in dict.fromkeys(ask.name for ask in asked)
        ]
    return _response(topics, request, context)


def _refused(asked: list[MetadataRequestTopic]) -> MetadataResponse:
    """Ids before the version that supports them: the fields existed without a meaning."""
    error = ErrorCode.INVALID_REQUEST
    return MetadataResponse(topics=[_failed(ask.name or "", error, ask.topic_id) for ask in asked])


def _all_topics(request: MetadataRequest, context: RequestContext) -> list[MetadataResponseTopic]:
    """All topics the client may see; encoded already where they are the same for all clients."""
    image = context.services.metadata.image
    names = (
        name
        for name in image.topics
        if context.is_authorized(Operation.DESCRIBE, Resource.TOPIC, name, is_reported=False)
    )
    if request.include_topic_authorized_operations:
        return [_topic(image.topics[name], request, context) for name in names]
    blocks = context.services.metadata.encoded_topics.get(
        image, names, context.api_version, lambda topic: _topic(topic, request, context)
    )
    return cast(list[MetadataResponseTopic], blocks)  # the encoder takes items that are encoded


def _response(
    topics: list[MetadataResponseTopic], request: MetadataRequest, context: RequestContext
) -> MetadataResponse:
    image = context.services.metadata.image
    authorized = NOT_ASKED
    if request.include_cluster_authorized_operations:
        authorized = cluster_operations(context)
    return MetadataResponse(
        brokers=brokers(context),
        cluster_id=image.cluster_id,
        controller_id=context.services.control_plane.advertised_controller_id,
        topics=topics,
        cluster_authorized_operations=authorized,
    )


def brokers(context: RequestContext) -> list[MetadataResponseBroker]:
    """Live brokers, with the endpoints of this client's listener."""
    image, session = context.services.metadata.image, context.session
    gate = context.services.metadata.failover_gate
    found = []
    for broker in gate.visible_brokers(image, session.software_name):
        endpoint = endpoint_of(image, broker.broker_id, session.listener)
        if endpoint is not None:
            found.append(
                MetadataResponseBroker(
                    node_id=broker.broker_id,
                    host=endpoint.host,
                    port=endpoint.port,
                    rack=broker.rack,
                )
            )
    return found


def _topic_by_id(
    topic_id: bytes, request: MetadataRequest, context: RequestContext
) -> MetadataResponseTopic:
    topic = context.services.metadata.image.topic_by_id(topic_id)
    if topic is None:
        return _failed(None, ErrorCode.UNKNOWN_TOPIC_ID, topic_id)
    if not context.is_authorized(Operation.DESCRIBE, Resource.TOPIC, topic.name):
        return _failed(None, ErrorCode.TOPIC_AUTHORIZATION_FAILED, topic_id)
    return _topic(topic, request, context)


def _topic_by_name(
    name: str, request: MetadataRequest, context: RequestContext
) -> MetadataResponseTopic:
    services = context.services
    if not context.is_authorized(Operation.DESCRIBE, Resource.TOPIC, name):
        return _failed(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if name not in services.metadata.image.topics:
        error = _create(name, request, context)
        if error:
            return _missing(name, error, request, context)
    topic = services.metadata.image.topics.get(name)
    if topic is None:
        return _missing(name, ErrorCode.LEADER_NOT_AVAILABLE, request, context)
    return _topic(topic, request, context)


def _missing(
    name: str, error: ErrorCode, request: MetadataRequest, context: RequestContext
) -> MetadataResponseTopic:
    """What the client may do with a topic of that name, once it is there, is said as in Kafka."""
    failed = _failed(name, error)
    failed.topic_authorized_operations = _authorized_operations(name, request, context)
    return failed


def _authorized_operations(name: str, request: MetadataRequest, context: RequestContext) -> int:
    if not request.include_topic_authorized_operations:
        return NOT_ASKED
    return context.allowed_operations(Resource.TOPIC, name)


def _create(name: str, request: MetadataRequest, context: RequestContext) -> ErrorCode:
    services = context.services
    if name_fault(name) is not None:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    config = services.metadata.config
    wanted = request.allow_auto_topic_creation and config["auto.create.topics.enable"]
    if not wanted or (is_internal(name) and name != "__consumer_offsets"):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if is_reserved(name, config["mirror.reserved.topics"]):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if not may_create(context, name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return auto_create(services, name)


def _topic(
    topic: TopicImage, request: MetadataRequest, context: RequestContext
) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=is_internal(topic.name),
        partitions=[_partition(partition, context) for partition in topic.partitions],
        topic_authorized_operations=_authorized_operations(topic.name, request, context),
    )


def _partition(partition: PartitionImage, context: RequestContext) -> MetadataResponsePartition:
    offline = offline_replicas(context.services.metadata.image, partition)
    leader_id, error_code = leader_for_clients(partition, offline)
    return MetadataResponsePartition(
        error_code=error_code,
        partition_index=partition.index,
        leader_id=leader_id,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        offline_replicas=offline,
    )


def _failed(name: str | None, error: ErrorCode, topic_id: bytes = NO_ID) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=error,
        name=name,
        topic_id=topic_id,
        is_internal=name is not None and is_internal(name),
    )
