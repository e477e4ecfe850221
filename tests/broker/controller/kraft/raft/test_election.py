"""Votes that must not be granted, and which a candidate must survive."""

from __future__ import annotations

from broker.controller.kraft.raft.messages import QuorumResponse, Vote
from broker.controller.kraft.raft.roles import RaftRole
from bus.errors import ErrorCode
from tests.broker.controller.kraft.raft.quorum_world import QuorumWorld, key


def test_a_node_of_another_cluster_gives_no_vote_and_does_no_harm() -> None:
    """It answers without a ballot. Regression: such an answer failed a check."""
    world = QuorumWorld([1, 2, 3])
    stranger, alone = 3, world.replicas[1]
    world.partition([1], [2], [3])
    world.run_for(5000)
    machine = alone.raft
    assert machine.role is RaftRole.PROSPECTIVE
    ask = Vote(key(1), machine.epoch, alone.log.end, True, key(stranger))
    answer = QuorumResponse(ErrorCode.INCONSISTENT_CLUSTER_ID, -1, -1)
    machine.on_response(stranger, ask, answer, world.tick())
    alone.run_until_idle()
    assert machine.role is RaftRole.PROSPECTIVE
    assert machine.epoch == 0
    world.partition([1, 2], [3])
    assert world.until_leader().id in (1, 2)
