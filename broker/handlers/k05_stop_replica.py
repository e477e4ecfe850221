"""StopReplica (5), from the ZooKeeper controller to this broker.

Behaviour: requests of the controller are applied one after the other; refused with
STALE_CONTROLLER_EPOCH or STALE_BROKER_EPOCH when another controller, or an earlier registration of
this broker, is meant (chapter 5, KIP-380), with BROKER_NOT_AVAILABLE while this broker has not
heard of the registration that is meant. The request changes only the image.

Versions: 0-4, those of Kafka 3.9. From 3 on partitions are grouped by
topic, each with its own delete flag.
"""

from __future__ import annotations

from broker.handlers.context import RequestContext
from broker.handlers.preconditions import is_node_authorized
from bus.errors import ErrorCode
from bus.protocol.generated.stop_replica import StopReplicaRequest, StopReplicaResponse


def handle(request: StopReplicaRequest, context: RequestContext) -> StopReplicaResponse | None:
    """Queue it; the answer follows. If this connection is reset, the controller may have died."""
    if not is_node_authorized(context):
        return StopReplicaResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    context.session.broker_id = request.controller_id
    context.services.control_plane.handle_controller_request(request, context.reply)
    return None
