"""RemoveRaftVoter (81).

Behaviour: a voter loses its vote (KIP-853); answered once that is committed. A leader may remove
itself: it leads until then and resigns. The last voter cannot be removed.

Versions: 0.
"""

from __future__ import annotations

from broker.controller.kraft.changes import remove_voter
from broker.controller.kraft.membership import Outcome
from broker.controller.kraft.voters import ReplicaKey
from broker.handlers.context import RequestContext
from broker.handlers.quorum import node_of
from broker.security.authorizer import CLUSTER_NAME, Operation, Resource
from bus.errors import ErrorCode
from bus.protocol.generated.remove_raft_voter import (
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)


def handle(
    request: RemoveRaftVoterRequest, context: RequestContext
) -> RemoveRaftVoterResponse | None:
    """Take a vote."""
    if not context.may(Operation.ALTER, Resource.CLUSTER, CLUSTER_NAME):
        return _response(Outcome(ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    node = node_of(context)
    if request.cluster_id is not None and request.cluster_id != node.cluster_id:
        return _response(Outcome(ErrorCode.INCONSISTENT_CLUSTER_ID))
    key = ReplicaKey(request.voter_id, request.voter_directory_id)
    remove_voter(node, key, lambda outcome: context.reply(_response(outcome)))
    return None


def _response(outcome: Outcome) -> RemoveRaftVoterResponse:
    return RemoveRaftVoterResponse(
        error_code=outcome.error, error_message=outcome.message or outcome.error.text
    )
