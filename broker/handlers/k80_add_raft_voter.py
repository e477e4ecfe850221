"""AddRaftVoter (80).

Behaviour: makes an observer a voter (KIP-853). The leader waits until it has caught up, appends the
new set of voters and responds once that is committed, or with version 1 on request once it is
appended. One change at a time; only where the voters are kept in the log.

Versions: 0-1. 1 has ack_when_committed.
"""

from __future__ import annotations

from broker.controller.kraft.raft.voter_changes import VoterChangeResult
from broker.controller.kraft.raft.voters import ReplicaKey, Voter, VoterEndpoint
from broker.controller.kraft.voter_requests import add_voter
from broker.handlers.context import RequestContext
from broker.security.authorizer import CLUSTER_NAME, Operation, Resource
from bus.errors import ErrorCode
from bus.protocol.generated.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse


def handle(request: AddRaftVoterRequest, context: RequestContext) -> AddRaftVoterResponse | None:
    """Add the voter."""
    if not context.is_authorized(Operation.ALTER, Resource.CLUSTER, CLUSTER_NAME):
        return _response(VoterChangeResult(ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    node = context.services.control_plane.quorum
    if request.cluster_id is not None and request.cluster_id != node.cluster_id:
        return _response(VoterChangeResult(ErrorCode.INCONSISTENT_CLUSTER_ID))
    if not request.listeners or request.voter_id < 0:
        return _response(
            VoterChangeResult(ErrorCode.INVALID_REQUEST, "a voter has an id and a listener")
        )
    places = tuple(VoterEndpoint(one.host, one.port, one.name) for one in request.listeners)
    voter = Voter(ReplicaKey(request.voter_id, request.voter_directory_id), places)
    add_voter(
        node,
        voter,
        request.timeout_ms,
        request.ack_when_committed,
        lambda outcome: context.reply(_response(outcome)),
    )
    return None


def _response(outcome: VoterChangeResult) -> AddRaftVoterResponse:
    return AddRaftVoterResponse(
        error_code=outcome.error, error_message=outcome.message or outcome.error.text
    )
