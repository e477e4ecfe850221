"""RemoveRaftVoter (81).

Behaviour: removes a voter (KIP-853); answered once that is committed. A leader may remove itself:
it leads until then and resigns. The last voter cannot be removed.

Versions: 0.
"""

from __future__ import annotations

from broker.controller.kraft.raft.voter_changes import VoterChangeResult
from broker.controller.kraft.raft.voters import ReplicaKey
from broker.controller.kraft.voter_requests import remove_voter
from broker.handlers.context import RequestContext
from broker.security.authorizer import CLUSTER_NAME, Operation, Resource
from bus.errors import ErrorCode
from bus.protocol.generated.remove_raft_voter import (
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)


def handle(
    request: RemoveRaftVoterRequest, context: RequestContext
) -> RemoveRaftVoterResponse | None:
    """Remove the voter."""
    if not context.is_authorized(Operation.ALTER, Resource.CLUSTER, CLUSTER_NAME):
        return _response(VoterChangeResult(ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    node = context.services.control_plane.quorum
    if request.cluster_id is not None and request.cluster_id != node.cluster_id:
        return _response(VoterChangeResult(ErrorCode.INCONSISTENT_CLUSTER_ID))
    key = ReplicaKey(request.voter_id, request.voter_directory_id)
    remove_voter(node, key, lambda outcome: context.reply(_response(outcome)))
    return None


def _response(outcome: VoterChangeResult) -> RemoveRaftVoterResponse:
    return RemoveRaftVoterResponse(
        error_code=outcome.error, error_message=outcome.message or outcome.error.text
    )
