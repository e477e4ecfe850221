"""UpdateRaftVoter (82).

Behaviour: a voter tells the leader where its controller listener is now and which kraft.version it
can work with (KIP-853); answered once the new set of voters is committed, at once where the voters
stand in the configuration: then the leader only remembers it until kraft.version is raised. Sent by
voters themselves, not by operators.

Versions: 0.
"""

from __future__ import annotations

from broker.controller.kraft.changes import update_voter
from broker.controller.kraft.membership import Outcome
from broker.controller.kraft.voters import Endpoint, ReplicaKey, Voter
from broker.handlers.context import RequestContext
from broker.handlers.quorum import may_act, node_of
from bus.errors import ErrorCode
from bus.protocol.generated.update_raft_voter import (
    CurrentLeader,
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
)


def handle(
    request: UpdateRaftVoterRequest, context: RequestContext
) -> UpdateRaftVoterResponse | None:
    """Move a voter."""
    if not may_act(context):
        return UpdateRaftVoterResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    node = node_of(context)
    if request.cluster_id is not None and request.cluster_id != node.cluster_id:
        return UpdateRaftVoterResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)

    def reply(outcome: Outcome) -> None:
        context.reply(
            UpdateRaftVoterResponse(
                error_code=outcome.error,
                current_leader=CurrentLeader(leader_id=node.leader_id, leader_epoch=node.epoch),
            )
        )

    if request.current_leader_epoch < node.epoch:
        reply(Outcome(ErrorCode.FENCED_LEADER_EPOCH))
    elif not request.listeners:
        reply(Outcome(ErrorCode.INVALID_REQUEST))
    else:
        places = tuple(Endpoint(one.host, one.port, one.name) for one in request.listeners)
        key = ReplicaKey(request.voter_id, request.voter_directory_id)
        highest = request.kraft_version_feature.max_supported_version
        update_voter(node, Voter(key, places, highest), reply)
    return None
