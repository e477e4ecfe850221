"""FetchSnapshot (59).

Behaviour: pieces of a snapshot of the metadata log, from the leader (KIP-630). Every client that
may fetch the log may fetch its snapshots, including observers and tools.

Versions: 0-1. 1 has directory ids and the leader's endpoints (KIP-853).
"""

from __future__ import annotations

from broker.handlers.context import RequestContext
from broker.handlers.preconditions import is_node_authorized
from bus.errors import ErrorCode
from bus.protocol.generated.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse


def handle(request: FetchSnapshotRequest, context: RequestContext) -> FetchSnapshotResponse | None:
    """A piece."""
    if not is_node_authorized(context):
        return FetchSnapshotResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    context.services.control_plane.quorum.api.fetch_snapshot(request, context.reply)
    return None
