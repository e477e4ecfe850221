"""A controller that sees to it that the voters' record says the truth about it (KIP-853).

In: the node. Out: UpdateRaftVoter where its listener has moved, AddRaftVoter where it has no vote
and `controller.quorum.auto.join.enable` is set. Never: anything where the voters stand in the
configuration.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from broker.controller.kraft.states import Role
from broker.controller.kraft.voters import Endpoint
from broker.peer.errors import PeerError
from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.generated import add_raft_voter, update_raft_voter

if TYPE_CHECKING:
    from broker.controller.kraft.node import RaftNode

log = logging.getLogger("broker.controller")

LOOK_S = 1.0
"""How often it looks while something is wrong; a quorum without this voter works meanwhile."""

REST_S = 10.0
"""How often it looks while all is well."""


class Presence:
    """Runs beside the node; `run` ends when its task is cancelled."""

    def __init__(self, node: RaftNode) -> None:
        self._node = node
        self._said = ErrorCode.NONE

    async def run(self) -> None:
        """Look, and do what is missing."""
        node = self._node
        while True:
            await node.clock.sleep(REST_S if self._is_well() else LOOK_S)
            if self._is_well() or node.leader_id < 0:
                continue
            try:
                await self._mend()
            except PeerError as error:
                log.info("the quorum's leader does not answer: %s", error)

    def _is_well(self) -> bool:
        """Whether nothing is to be done."""
        node = self._node
        voters = node.machine.core.voters
        if node.endpoint is None or voters.static:
            return True
        found = voters.latest.find(node.me.id)
        if found is None or not found.key.matches(node.me):
            return not (
                node.machine.role is Role.OBSERVER
                and node.machine.core.settings.can_vote
                and node.config["controller.quorum.auto.join.enable"]
            )
        return found.endpoints == (node.endpoint,)

    async def _mend(self) -> None:
        node = self._node
        if node.endpoint is None:
            return
        if node.machine.role is Role.LEADER:
            node.tell_own_place()
        elif node.machine.role is Role.FOLLOWER:
            await self._ask(ApiKey.UPDATE_RAFT_VOTER, self._update(node.endpoint))
        elif node.machine.role is Role.OBSERVER:
            await self._ask(ApiKey.ADD_RAFT_VOTER, self._add(node.endpoint))

    def _update(self, place: Endpoint) -> update_raft_voter.UpdateRaftVoterRequest:
        node = self._node
        return update_raft_voter.UpdateRaftVoterRequest(
            cluster_id=node.cluster_id,
            current_leader_epoch=node.epoch,
            voter_id=node.me.id,
            voter_directory_id=node.me.directory_id,
            listeners=[update_raft_voter.Listener(place.listener, place.host, place.port)],
            kraft_version_feature=update_raft_voter.KRaftVersionFeature(0, 1),
        )

    def _add(self, place: Endpoint) -> add_raft_voter.AddRaftVoterRequest:
        node = self._node
        return add_raft_voter.AddRaftVoterRequest(
            cluster_id=node.cluster_id,
            timeout_ms=node.config["controller.quorum.request.timeout.ms"],
            voter_id=node.me.id,
            voter_directory_id=node.me.directory_id,
            listeners=[add_raft_voter.Listener(place.listener, place.host, place.port)],
            ack_when_committed=False,
        )

    async def _ask(self, key: ApiKey, body: object) -> None:
        node = self._node
        timeout_ms = node.config["controller.quorum.request.timeout.ms"] * 2
        channel = node.links.channel(node.leader_id, "presence")
        response = await channel.request(key, body, timeout_ms=timeout_ms)
        error = ErrorCode.of(response.error_code)
        if error is not ErrorCode.NONE and error is not self._said:
            log.info("the quorum's leader answers %s: %s", key.name, error.name)
        self._said = error
