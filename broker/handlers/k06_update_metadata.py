"""UpdateMetadata (6), from the ZooKeeper controller to this broker.

Behaviour: requests of the controller are applied one after the other; refused with
STALE_CONTROLLER_EPOCH or STALE_BROKER_EPOCH when another controller, or an earlier registration of
this broker, is meant (chapter 5, KIP-380), with BROKER_NOT_AVAILABLE while this broker has not
heard of the registration that is meant. The request changes only the image.

Versions: 0-8, those of Kafka 3.9. From 7 on topics have ids; older requests change nothing.
"""

from __future__ import annotations

from broker.handlers.context import RequestContext
from broker.handlers.preconditions import is_node_authorized
from bus.errors import ErrorCode
from bus.protocol.generated.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse


def handle(
    request: UpdateMetadataRequest, context: RequestContext
) -> UpdateMetadataResponse | None:
    """Queue it; the answer follows. If this connection is reset, the controller may have died."""
    if not is_node_authorized(context):
        return UpdateMetadataResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    context.session.broker_id = request.controller_id
    context.services.control_plane.handle_controller_request(request, context.reply)
    return None
