"""EndQuorumEpoch (54).

Behaviour: a leader says that it leads no longer; the successors it prefers stand at once.

Versions: 0-1. 1 has directory ids and the leader's endpoints (KIP-853).
"""

from __future__ import annotations

from broker.handlers.context import RequestContext
from broker.handlers.quorum import may_act, quorum
from bus.errors import ErrorCode
from bus.protocol.generated.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse


def handle(
    request: EndQuorumEpochRequest, context: RequestContext
) -> EndQuorumEpochResponse | None:
    """Elect another, soon."""
    if not may_act(context):
        return EndQuorumEpochResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    quorum(context).end_epoch(request, context.reply)
    return None
