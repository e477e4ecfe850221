"""A controller that sees to it that the voters' record says the truth about it (KIP-853).

In: the context. Out: UpdateRaftVoter where its listener has moved or another kraft.version is
supported (where the voters stand in the configuration: to each new leader once, which needs it to
raise kraft.version), AddRaftVoter where it has no vote and `controller.quorum.auto.join.enable` is
set. Never: a second process with this node's id unnoticed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

from broker.controller.kraft import namesake
from broker.controller.kraft.context import QuorumContext
from broker.controller.kraft.membership import Outcome
from broker.controller.kraft.states import Role
from broker.controller.kraft.voters import Endpoint, Voter
from broker.peer.errors import PeerError, PeerErrorKind
from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.generated import add_raft_voter, update_raft_voter

log = logging.getLogger("broker.controller")

LOOK_S = 1.0
"""How often it looks while something is wrong; a quorum without this voter works meanwhile."""

REST_S = 10.0
"""How often it looks while all is well."""


class PresenceHost(Protocol):
    """What keeping the voters' record true needs of the node."""

    def tell_namesake(self, does: str) -> None:
        """Another process has this node's id; `does` says where it was met."""

    def tell_own_place(self, told: Callable[[Outcome], None]) -> None:
        """Record where this leader listens."""


class Presence:
    """Runs beside the node; `run` ends when its task is cancelled."""

    def __init__(self, context: QuorumContext, host: PresenceHost) -> None:
        self._context = context
        self._host = host
        self._said = ErrorCode.NONE
        self._told_epoch = -1

    async def run(self) -> None:
        """Look, and do what is missing."""
        context = self._context
        while True:
            rests = self._is_well() and not context.machine.core.voters.static
            await context.clock.sleep(REST_S if rests else LOOK_S)
            does = await namesake.met(context)
            if does is not None:
                self._host.tell_namesake(does)
            if self._is_well() or context.leader_id < 0:
                continue
            try:
                await self._mend()
            except PeerError as error:
                log.info("the quorum's leader does not answer: %s", error)
                if error.kind is PeerErrorKind.UNSUPPORTED_VERSION:
                    self._told_epoch = context.epoch  # this leader has no use for it

    def _is_well(self) -> bool:
        """Whether nothing is to be done."""
        context = self._context
        voters = context.machine.core.voters
        if context.endpoint is None:
            return True
        found = voters.latest.find(context.me.id)
        if found is None or not found.key.matches(context.me):
            return not (
                context.machine.role is Role.OBSERVER
                and not voters.static
                and context.machine.core.settings.can_vote
                and context.config["controller.quorum.auto.join.enable"]
            )
        if voters.static:
            return self._told_epoch == context.epoch  # each leader hears it once
        return found == Voter(context.me, (context.endpoint,))

    async def _mend(self) -> None:
        context = self._context
        if context.endpoint is None:
            return
        if context.machine.role is Role.LEADER:
            epoch = context.epoch
            self._host.tell_own_place(
                lambda told: self._heed(ApiKey.UPDATE_RAFT_VOTER, told.error, epoch)
            )
        elif context.machine.role is Role.FOLLOWER:
            await self._ask(ApiKey.UPDATE_RAFT_VOTER, self._update(context.endpoint))
        elif context.machine.role is Role.OBSERVER:
            await self._ask(ApiKey.ADD_RAFT_VOTER, self._add(context.endpoint))

    def _update(self, place: Endpoint) -> update_raft_voter.UpdateRaftVoterRequest:
        context = self._context
        return update_raft_voter.UpdateRaftVoterRequest(
            cluster_id=context.cluster_id,
            current_leader_epoch=context.epoch,
            voter_id=context.me.id,
            voter_directory_id=context.me.directory_id,
            listeners=[update_raft_voter.Listener(place.listener, place.host, place.port)],
            kraft_version_feature=update_raft_voter.KRaftVersionFeature(0, 1),
        )

    def _add(self, place: Endpoint) -> add_raft_voter.AddRaftVoterRequest:
        context = self._context
        return add_raft_voter.AddRaftVoterRequest(
            cluster_id=context.cluster_id,
            timeout_ms=context.config["controller.quorum.request.timeout.ms"],
            voter_id=context.me.id,
            voter_directory_id=context.me.directory_id,
            listeners=[add_raft_voter.Listener(place.listener, place.host, place.port)],
            ack_when_committed=False,
        )

    async def _ask(self, key: ApiKey, body: object) -> None:
        context = self._context
        timeout_ms = context.config["controller.quorum.request.timeout.ms"] * 2
        channel = context.links.channel(context.leader_id, "presence")
        epoch = context.epoch
        response = await channel.request(key, body, timeout_ms=timeout_ms)
        self._heed(key, ErrorCode.of(response.error_code), epoch)

    def _heed(self, key: ApiKey, error: ErrorCode, epoch: int) -> None:
        if error is not ErrorCode.NONE and error is not self._said:
            log.info("the quorum's leader answers %s: %s", key.name, error.name)
        self._said = error
        if error in (ErrorCode.NONE, ErrorCode.UNSUPPORTED_VERSION):
            self._told_epoch = epoch
