"""Votes that nobody should give and a candidate must survive."""

from __future__ import annotations

from broker.controller.kraft.messages import Answer, Vote
from broker.controller.kraft.states import Role
from bus.errors import ErrorCode
from tests.broker.controller.kraft.quorum_world import World, key


def test_a_node_of_another_cluster_gives_no_vote_and_does_no_harm() -> None:
    """It answers without a ballot; that ended the request in a failed check before."""
    world = World([1, 2, 3])
    stranger, alone = 3, world.replicas[1]
    world.partition([1], [2], [3])
    world.run_for(5000)
    machine = alone.machine
    assert machine.role is Role.PROSPECTIVE
    ask = Vote(key(1), machine.epoch, alone.log.end, True, key(stranger))
    answer = Answer(ErrorCode.INCONSISTENT_CLUSTER_ID, -1, -1)
    machine.on_answer(stranger, ask, answer, world.moment())
    alone.settle()
    assert machine.role is Role.PROSPECTIVE
    assert machine.epoch == 0
    world.partition([1, 2], [3])
    assert world.until_leader().id in (1, 2)
