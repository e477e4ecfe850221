"""Keeps this node's entry in the VotersRecord current (KIP-853).

Sends UpdateRaftVoter when the listener has moved or another kraft.version is supported (where the
configuration names the voters: once to each new leader, which needs it to raise kraft.version), and
AddRaftVoter when this node has no vote and `controller.quorum.auto.join.enable` is set. Each round
also checks for a second process with this node's id.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

from broker.controller.kraft import duplicate_id
from broker.controller.kraft.context import QuorumContext
from broker.controller.kraft.raft.roles import RaftRole
from broker.controller.kraft.raft.voter_changes import VoterChangeResult
from broker.controller.kraft.raft.voters import Voter, VoterEndpoint
from bus.client.wire.errors import PeerError, PeerErrorKind
from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.generated import add_raft_voter, update_raft_voter

log = logging.getLogger("broker.controller")

CHECK_S = 1.0
"""How often it checks while its entry is not current; the quorum works without this voter
meanwhile."""

IDLE_CHECK_S = 10.0
"""How often it checks while its entry is current."""


class VoterRegistrationHost(Protocol):
    """What keeping the voters' record current needs from the node."""

    def report_duplicate_id(self, does: str) -> None:
        """Another process has this node's id; `does` says where it was found."""

    def register_endpoint(self, result: Callable[[VoterChangeResult], None]) -> None:
        """Record the endpoint of this leader."""


class VoterRegistration:
    """Runs beside the node; `run` ends when its task is cancelled."""

    def __init__(self, context: QuorumContext, host: VoterRegistrationHost) -> None:
        self._context = context
        self._host = host
        self._last_error = ErrorCode.NONE
        self._registered_epoch = -1

    async def run(self) -> None:
        """Checks the entry and updates it."""
        context = self._context
        while True:
            rests = self._is_current() and not context.raft.quorum.voters.static
            await context.clock.sleep(IDLE_CHECK_S if rests else CHECK_S)
            does = await duplicate_id.find_duplicate(context)
            if does is not None:
                self._host.report_duplicate_id(does)
            if self._is_current() or context.leader_id < 0:
                continue
            try:
                await self._sync()
            except PeerError as error:
                log.info("the quorum's leader does not answer: %s", error)
                if error.kind is PeerErrorKind.UNSUPPORTED_VERSION:
                    self._registered_epoch = context.epoch  # this leader has no use for it

    def _is_current(self) -> bool:
        """Whether nothing is to be done."""
        context = self._context
        voters = context.raft.quorum.voters
        if context.endpoint is None:
            return True
        found = voters.latest.find(context.me.id)
        if found is None or not found.key.matches(context.me):
            return not (
                context.raft.role is RaftRole.OBSERVER
                and not voters.static
                and context.raft.quorum.config.can_vote
                and context.config["controller.quorum.auto.join.enable"]
            )
        if voters.static:
            return self._registered_epoch == context.epoch  # once per leader
        return found == Voter(context.me, (context.endpoint,))

    async def _sync(self) -> None:
        context = self._context
        if context.endpoint is None:
            return
        if context.raft.role is RaftRole.LEADER:
            epoch = context.epoch
            self._host.register_endpoint(
                lambda result: self._handle_response(ApiKey.UPDATE_RAFT_VOTER, result.error, epoch)
            )
        elif context.raft.role is RaftRole.FOLLOWER:
            await self._send(ApiKey.UPDATE_RAFT_VOTER, self._update_request(context.endpoint))
        elif context.raft.role is RaftRole.OBSERVER:
            await self._send(ApiKey.ADD_RAFT_VOTER, self._add_request(context.endpoint))

    def _update_request(self, endpoint: VoterEndpoint) -> update_raft_voter.UpdateRaftVoterRequest:
        context = self._context
        return update_raft_voter.UpdateRaftVoterRequest(
            cluster_id=context.cluster_id,
            current_leader_epoch=context.epoch,
            voter_id=context.me.id,
            voter_directory_id=context.me.directory_id,
            listeners=[update_raft_voter.Listener(endpoint.listener, endpoint.host, endpoint.port)],
            kraft_version_feature=update_raft_voter.KRaftVersionFeature(0, 1),
        )

    def _add_request(self, endpoint: VoterEndpoint) -> add_raft_voter.AddRaftVoterRequest:
        context = self._context
        return add_raft_voter.AddRaftVoterRequest(
            cluster_id=context.cluster_id,
            timeout_ms=context.config["controller.quorum.request.timeout.ms"],
            voter_id=context.me.id,
            voter_directory_id=context.me.directory_id,
            listeners=[add_raft_voter.Listener(endpoint.listener, endpoint.host, endpoint.port)],
            ack_when_committed=False,
        )

    async def _send(self, key: ApiKey, body: object) -> None:
        context = self._context
        timeout_ms = context.config["controller.quorum.request.timeout.ms"] * 2
        channel = context.connections.channel(context.leader_id, "registration")
        epoch = context.epoch
        response = await channel.request(key, body, timeout_ms=timeout_ms)
        self._handle_response(key, ErrorCode.of(response.error_code), epoch)

    def _handle_response(self, key: ApiKey, error: ErrorCode, epoch: int) -> None:
        if error is not ErrorCode.NONE and error is not self._last_error:
            log.info("the quorum's leader answers %s: %s", key.name, error.name)
        self._last_error = error
        if error in (ErrorCode.NONE, ErrorCode.UNSUPPORTED_VERSION):
            self._registered_epoch = epoch
