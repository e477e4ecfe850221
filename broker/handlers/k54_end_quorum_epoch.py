"""EndQuorumEpoch (54).

Behaviour: a leader announces that it resigns; its preferred successors become candidates at once.

Versions: 0-1. 1 has directory ids and the leader's endpoints (KIP-853).
"""

from __future__ import annotations

from broker.handlers.context import RequestContext
from broker.handlers.preconditions import is_node_authorized
from bus.errors import ErrorCode
from bus.protocol.generated.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse


def handle(
    request: EndQuorumEpochRequest, context: RequestContext
) -> EndQuorumEpochResponse | None:
    """Elect another, soon."""
    if not is_node_authorized(context):
        return EndQuorumEpochResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    context.services.control_plane.quorum.api.end_epoch(request, context.reply)
    return None
