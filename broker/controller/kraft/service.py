"""What other nodes and tools ask of the quorum, in Kafka's messages.

In: decoded requests. Out: responses, by callback: now, or when what they say is stored. While the
disk refuses, or too many wait for it, they say BROKER_NOT_AVAILABLE, which Kafka's controllers take
for *come again*. Core: the node's machine. Never: who may ask (the handlers know), nor a decision
of the quorum.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from broker.controller.kraft import wire
from broker.controller.kraft.context import QuorumContext
from broker.controller.kraft.driver import Driver
from broker.controller.kraft.messages import (
    BeginEpoch,
    EndEpoch,
    FetchAnswer,
    SnapshotAnswer,
    Vote,
)
from broker.controller.kraft.parked import ParkedFetches
from broker.controller.kraft.quorum_state import uuid_text
from broker.controller.kraft.states import Role
from broker.controller.kraft.voters import ReplicaKey
from broker.disk.port import DiskError
from bus.errors import ErrorCode
from bus.protocol.generated import begin_quorum_epoch as begin
from bus.protocol.generated import end_quorum_epoch as end
from bus.protocol.generated import fetch, fetch_snapshot, vote

log = logging.getLogger("broker.controller")

BUSY = ErrorCode.BROKER_NOT_AVAILABLE

MAX_NAMESAKES = 100
"""Each is told once; strangers could make up directory ids without end."""


class QuorumService:
    """Answers Vote, BeginQuorumEpoch, EndQuorumEpoch, Fetch and FetchSnapshot for one node."""

    def __init__(self, context: QuorumContext, driver: Driver, parked: ParkedFetches) -> None:
        self._context = context
        self._driver = driver
        self._parked = parked
        self._namesakes: dict[ReplicaKey, None] = {}

    def _refusal(self, request: Any, asked: object) -> ErrorCode | None:
        """What is wrong with the whole request."""
        mine = self._context.cluster_id
        if request.cluster_id is not None and request.cluster_id != mine:
            return ErrorCode.INCONSISTENT_CLUSTER_ID
        if asked is None:
            return ErrorCode.INVALID_REQUEST
        if isinstance(asked, Vote | BeginEpoch | EndEpoch):
            peer = f"quorum node {_sender(asked)}"
            if self._context.epoch_limit.refuses(peer, asked.epoch, self._context.epoch):
                return ErrorCode.INVALID_REQUEST
        return None

    def _nodes(self, leader_id: int) -> wire.Nodes:
        """Where the leader is, for those who only know its id."""
        if leader_id < 0:
            return ()
        own = self._context.endpoint
        if leader_id == self._context.me.id:
            return () if own is None else ((leader_id, own.host, own.port),)
        place = self._context.links.place_of(leader_id)
        return () if place is None else ((leader_id, place.host, place.port),)

    def vote(self, request: vote.VoteRequest, reply: Callable[[vote.VoteResponse], None]) -> None:
        """Vote (52)."""
        ask = wire.vote_asked(request)
        refused = self._refusal(request, ask)
        if refused is not None or ask is None:
            reply(vote.VoteResponse(error_code=refused or ErrorCode.INVALID_REQUEST))
            return
        self._driver.step(
            lambda now: self._context.machine.on_vote(ask, now),
            lambda answer: reply(wire.vote_response(answer, self._nodes(answer.leader_id))),
            lambda: reply(vote.VoteResponse(error_code=BUSY)),
        )

    def begin_epoch(
        self,
        request: begin.BeginQuorumEpochRequest,
        reply: Callable[[begin.BeginQuorumEpochResponse], None],
    ) -> None:
        """BeginQuorumEpoch (53)."""
        ask = wire.begin_asked(request)
        refused = self._refusal(request, ask)
        if refused is not None or ask is None:
            code = refused or ErrorCode.INVALID_REQUEST
            reply(begin.BeginQuorumEpochResponse(error_code=code))
            return
        self._learn(ask.leader_id, request.leader_endpoints)
        self._driver.step(
            lambda now: self._context.machine.on_begin_epoch(ask, now),
            lambda answer: reply(wire.begin_response(answer, self._nodes(answer.leader_id))),
            lambda: reply(begin.BeginQuorumEpochResponse(error_code=BUSY)),
        )

    def end_epoch(
        self,
        request: end.EndQuorumEpochRequest,
        reply: Callable[[end.EndQuorumEpochResponse], None],
    ) -> None:
        """EndQuorumEpoch (54)."""
        ask = wire.end_asked(request)
        refused = self._refusal(request, ask)
        if refused is not None or ask is None:
            reply(end.EndQuorumEpochResponse(error_code=refused or ErrorCode.INVALID_REQUEST))
            return
        self._driver.step(
            lambda now: self._context.machine.on_end_epoch(ask, now),
            lambda answer: reply(wire.end_response(answer, self._nodes(answer.leader_id))),
            lambda: reply(end.EndQuorumEpochResponse(error_code=BUSY)),
        )

    def _learn(self, leader_id: int, endpoints: Any) -> None:
        known = [one for one in endpoints if one.host]
        if known and leader_id != self._context.me.id:
            self._context.links.learn({leader_id: (known[0].host, known[0].port)})

    def fetch(
        self, request: fetch.FetchRequest, reply: Callable[[fetch.FetchResponse], None]
    ) -> None:
        """Fetch (1) of the metadata log; `reply` is called now or when there is something."""
        ask = wire.fetch_asked(request)
        refused = self._refusal(request, ask)
        if refused is not None or ask is None:
            reply(fetch.FetchResponse(error_code=refused or ErrorCode.INVALID_REQUEST))
            return

        replica = ask.replica

        def answered(answer: FetchAnswer) -> None:
            if answer.error is ErrorCode.DUPLICATE_VOTER:
                self._met_namesake(replica)
            reply(wire.fetch_response(answer, self._nodes(answer.leader_id)))

        context = self._context
        if ask.epoch < 0:  # a consumer that does not know the epoch asks whoever leads
            ask = replace(ask, epoch=context.epoch)
        partition = request.topics[0].partitions[0]
        max_bytes = min(request.max_bytes, partition.partition_max_bytes or request.max_bytes)
        asked = ask
        self._driver.step(
            lambda now: self._parked.fetch(asked, max_bytes, now, answered),
            refused=lambda: reply(fetch.FetchResponse(error_code=BUSY)),
        )

    def _met_namesake(self, replica: ReplicaKey) -> None:
        """Say once that two processes have one id; which of them is wrong is not known here."""
        if replica in self._namesakes or len(self._namesakes) >= MAX_NAMESAKES:
            return
        self._namesakes[replica] = None
        log.error(
            "duplicate node id: two processes with node.id=%d fetch the metadata; the one with "
            "metadata directory %s is refused; give it a node.id of its own, or stop it",
            replica.id, uuid_text(replica.directory_id),
        )  # fmt: skip

    def fetch_snapshot(
        self,
        request: fetch_snapshot.FetchSnapshotRequest,
        reply: Callable[[fetch_snapshot.FetchSnapshotResponse], None],
    ) -> None:
        """FetchSnapshot (59)."""
        ask = wire.snapshot_asked(request)
        refused = self._refusal(request, ask)
        if refused is not None or ask is None:
            code = refused or ErrorCode.INVALID_REQUEST
            reply(fetch_snapshot.FetchSnapshotResponse(error_code=code))
            return
        context = self._context
        if ask.epoch < 0:
            ask = replace(ask, epoch=context.epoch)
        asked = ask

        def answered(answer: SnapshotAnswer) -> None:
            if answer.error is ErrorCode.NONE:
                answer = self._with_piece(answer, asked.position, request.max_bytes)
            reply(wire.snapshot_response(answer, self._nodes(answer.leader_id)))

        self._driver.step(
            lambda now: context.machine.on_fetch_snapshot(asked, now),
            answered,
            lambda: reply(fetch_snapshot.FetchSnapshotResponse(error_code=BUSY)),
        )

    def _with_piece(self, answer: SnapshotAnswer, position: int, max_bytes: int) -> SnapshotAnswer:
        context = self._context
        if position < 0:
            return replace(answer, error=ErrorCode.POSITION_OUT_OF_RANGE)
        limit = min(max_bytes, context.config["controller.quorum.fetch.snapshot.max.bytes"])
        try:
            found = context.log.snapshots.read_piece(answer.snapshot, position, max(limit, 1))
        except DiskError as error:
            log.error("snapshot %s cannot be read: %s", answer.snapshot, error)
            return replace(answer, error=ErrorCode.KAFKA_STORAGE_ERROR)
        if found is None:
            return replace(answer, error=ErrorCode.SNAPSHOT_NOT_FOUND)
        data, size = found
        if not 0 <= position < size:
            return replace(answer, error=ErrorCode.POSITION_OUT_OF_RANGE)
        return replace(answer, size=size, position=position, data=data)

    @property
    def leads(self) -> bool:
        """Whether this node may speak for the quorum."""
        return self._context.machine.role is Role.LEADER


def _sender(asked: Vote | BeginEpoch | EndEpoch) -> int:
    return asked.candidate.id if isinstance(asked, Vote) else asked.leader_id
