"""BeginQuorumEpoch (53).

Behaviour: a leader announces its election; voters fetch from it from now on.

Versions: 0-1. 1 has directory ids and the leader's endpoints (KIP-853).
"""

from __future__ import annotations

from broker.handlers.context import RequestContext
from broker.handlers.preconditions import is_node_authorized
from bus.errors import ErrorCode
from bus.protocol.generated.begin_quorum_epoch import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
)


def handle(
    request: BeginQuorumEpochRequest, context: RequestContext
) -> BeginQuorumEpochResponse | None:
    """Follow."""
    if not is_node_authorized(context):
        return BeginQuorumEpochResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    context.services.control_plane.quorum.api.begin_epoch(request, context.reply)
    return None
