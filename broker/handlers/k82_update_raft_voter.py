"""UpdateRaftVoter (82).

Behaviour: a voter reports its controller listener and supported kraft.version to the leader
(KIP-853); answered once the new set of voters is committed, or at once where the configuration
names the voters: then the leader only keeps it until kraft.version is raised. Sent by voters, not
by operators.

Versions: 0.
"""

from __future__ import annotations

from broker.controller.kraft.raft.voter_changes import VoterChangeResult
from broker.controller.kraft.raft.voters import ReplicaKey, Voter, VoterEndpoint
from broker.controller.kraft.voter_requests import update_voter
from broker.handlers.context import RequestContext
from broker.handlers.preconditions import is_node_authorized
from bus.errors import ErrorCode
from bus.protocol.generated.update_raft_voter import (
    CurrentLeader,
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
)


def handle(
    request: UpdateRaftVoterRequest, context: RequestContext
) -> UpdateRaftVoterResponse | None:
    """Update the voter."""
    if not is_node_authorized(context):
        return UpdateRaftVoterResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    node = context.services.control_plane.quorum
    if request.cluster_id is not None and request.cluster_id != node.cluster_id:
        return UpdateRaftVoterResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)

    def reply(outcome: VoterChangeResult) -> None:
        context.reply(
            UpdateRaftVoterResponse(
                error_code=outcome.error,
                current_leader=CurrentLeader(leader_id=node.leader_id, leader_epoch=node.epoch),
            )
        )

    if request.current_leader_epoch < node.epoch:
        reply(VoterChangeResult(ErrorCode.FENCED_LEADER_EPOCH))
    elif not request.listeners:
        reply(VoterChangeResult(ErrorCode.INVALID_REQUEST))
    else:
        places = tuple(VoterEndpoint(one.host, one.port, one.name) for one in request.listeners)
        key = ReplicaKey(request.voter_id, request.voter_directory_id)
        highest = request.kraft_version_feature.max_supported_version
        update_voter(node, Voter(key, places, highest), reply)
    return None
