"""AddRaftVoter (80).

Behaviour: a controller that fetches as an observer gets a vote (KIP-853). The leader waits until it
has caught up, appends the new set of voters and answers once it is committed, or with version 1 on
demand once it is appended. One change at a time; only where the voters are kept in the log.

Versions: 0-1. 1 has ack_when_committed.
"""

from __future__ import annotations

from broker.controller.kraft.changes import add_voter
from broker.controller.kraft.membership import Outcome
from broker.controller.kraft.voters import Endpoint, ReplicaKey, Voter
from broker.handlers.context import RequestContext
from broker.handlers.quorum import node_of
from broker.security.authorizer import CLUSTER_NAME, Operation, Resource
from bus.errors import ErrorCode
from bus.protocol.generated.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse


def handle(request: AddRaftVoterRequest, context: RequestContext) -> AddRaftVoterResponse | None:
    """Give a vote."""
    if not context.may(Operation.ALTER, Resource.CLUSTER, CLUSTER_NAME):
        return _response(Outcome(ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    node = node_of(context)
    if request.cluster_id is not None and request.cluster_id != node.cluster_id:
        return _response(Outcome(ErrorCode.INCONSISTENT_CLUSTER_ID))
    if not request.listeners or request.voter_id < 0:
        return _response(Outcome(ErrorCode.INVALID_REQUEST, "a voter has an id and a listener"))
    places = tuple(Endpoint(one.host, one.port, one.name) for one in request.listeners)
    voter = Voter(ReplicaKey(request.voter_id, request.voter_directory_id), places)
    add_voter(
        node,
        voter,
        request.timeout_ms,
        request.ack_when_committed,
        lambda outcome: context.reply(_response(outcome)),
    )
    return None


def _response(outcome: Outcome) -> AddRaftVoterResponse:
    return AddRaftVoterResponse(
        error_code=outcome.error, error_message=outcome.message or outcome.error.text
    )
