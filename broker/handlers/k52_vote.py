"""Vote (52).

Behaviour: a candidate requests this node's vote or pre-vote (KIP-595, KIP-996).

Versions: 0-2. 1 has directory ids (KIP-853), 2 the pre-vote.
"""

from __future__ import annotations

from broker.handlers.context import RequestContext
from broker.handlers.preconditions import is_node_authorized
from bus.errors import ErrorCode
from bus.protocol.generated.vote import VoteRequest, VoteResponse


def handle(request: VoteRequest, context: RequestContext) -> VoteResponse | None:
    """Vote."""
    if not is_node_authorized(context):
        return VoteResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    context.services.control_plane.quorum.api.vote(request, context.reply)
    return None
