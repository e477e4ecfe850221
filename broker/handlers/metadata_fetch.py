"""Fetch (1) of the metadata log, on the controllers' listener.

Behaviour: replicas of the quorum get everything, flushed or not, and learn the leader; consumers
(replica id -1) get what is committed. Waits like any fetch. There are no fetch sessions.
"""

from __future__ import annotations

from broker.controller.kraft.transport.codec import TOPIC, TOPIC_ID
from broker.handlers.context import RequestContext
from broker.handlers.preconditions import is_node_authorized
from bus.errors import ErrorCode
from bus.protocol.generated.fetch import FetchRequest, FetchResponse


def is_metadata_fetch(request: FetchRequest, context: RequestContext) -> bool:
    """Whether the request is for the metadata log of a quorum this node is part of."""
    topics = request.topics
    if len(topics) != 1 or not (topics[0].topic_id == TOPIC_ID or topics[0].topic == TOPIC):
        return False
    return context.services.control_plane.has_quorum


def handle_metadata_fetch(request: FetchRequest, context: RequestContext) -> FetchResponse | None:
    """Respond now or later."""
    if not is_node_authorized(context):
        return FetchResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    context.services.control_plane.quorum.api.fetch(request, context.reply)
    return None
