"""A controller that sees to it that the voters' record says the truth about it (KIP-853).

In: the node. Out: UpdateRaftVoter where its listener has moved or another kraft.version is
supported (where the voters stand in the configuration: to each new leader once, which needs it to
raise kraft.version), AddRaftVoter where it has no vote and `controller.quorum.auto.join.enable` is
set. Never: a second process with this node's id unnoticed.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from broker.controller.kraft import namesake
from broker.controller.kraft.states import Role
from broker.controller.kraft.voters import Endpoint, Voter
from broker.peer.errors import PeerError, PeerErrorKind
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
        self._told_epoch = -1

    async def run(self) -> None:
        """Look, and do what is missing."""
        node = self._node
        while True:
            rests = self._is_well() and not node.machine.core.voters.static
            await node.clock.sleep(REST_S if rests else LOOK_S)
            does = await namesake.met(node)
            if does is not None:
                node.tell_namesake(does)
            if self._is_well() or node.leader_id < 0:
                continue
            try:
                await self._mend()
            except PeerError as error:
                log.info("the quorum's leader does not answer: %s", error)
                if error.kind is PeerErrorKind.UNSUPPORTED_VERSION:
                    self._told_epoch = node.epoch  # this leader has no use for it

    def _is_well(self) -> bool:
        """Whether nothing is to be done."""
        node = self._node
        voters = node.machine.core.voters
        if node.endpoint is None:
            return True
        found = voters.latest.find(node.me.id)
        if found is None or not found.key.matches(node.me):
            return not (
                node.machine.role is Role.OBSERVER
                and not voters.static
                and node.machine.core.settings.can_vote
                and node.config["controller.quorum.auto.join.enable"]
            )
        if voters.static:
            return self._told_epoch == node.epoch  # each leader hears it once
        return found == Voter(node.me, (node.endpoint,))

    async def _mend(self) -> None:
        node = self._node
        if node.endpoint is None:
            return
        if node.machine.role is Role.LEADER:
            epoch = node.epoch
            node.tell_own_place(
                lambda told: self._heed(ApiKey.UPDATE_RAFT_VOTER, told.error, epoch)
            )
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
        epoch = node.epoch
        response = await channel.request(key, body, timeout_ms=timeout_ms)
        self._heed(key, ErrorCode.of(response.error_code), epoch)

    def _heed(self, key: ApiKey, error: ErrorCode, epoch: int) -> None:
        if error is not ErrorCode.NONE and error is not self._said:
            log.info("the quorum's leader answers %s: %s", key.name, error.name)
        self._said = error
        if error in (ErrorCode.NONE, ErrorCode.UNSUPPORTED_VERSION):
            self._told_epoch = epoch
