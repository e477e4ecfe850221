"""The quorum's APIs: requests of other nodes and tools, in Kafka's messages.

Responses come by callback: at once, or when what they say is stored. While the disk fails, or too
many requests wait for it, the error is BROKER_NOT_AVAILABLE, which Kafka's controllers retry. The
handlers check permissions.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from broker.controller.kraft.context import QuorumContext
from broker.controller.kraft.event_loop import RaftEventLoop
from broker.controller.kraft.raft.messages import (
    BeginEpoch,
    EndEpoch,
    FetchResponse,
    FetchSnapshotResponse,
    Vote,
)
from broker.controller.kraft.raft.roles import RaftRole
from broker.controller.kraft.raft.voters import ReplicaKey
from broker.controller.kraft.storage.state_file import uuid_text
from broker.controller.kraft.transport import codec
from broker.controller.kraft.transport.fetch_purgatory import FetchPurgatory
from broker.disk.port import DiskError
from bus.errors import ErrorCode
from bus.protocol.generated import begin_quorum_epoch as begin
from bus.protocol.generated import end_quorum_epoch as end
from bus.protocol.generated import fetch, fetch_snapshot, vote

log = logging.getLogger("broker.controller")

BUSY = ErrorCode.BROKER_NOT_AVAILABLE

MAX_DUPLICATE_IDS = 100
"""Each is logged once; foreign clients could invent directory ids without end."""


class QuorumApi:
    """Answers Vote, BeginQuorumEpoch, EndQuorumEpoch, Fetch and FetchSnapshot for one node."""

    def __init__(
        self, context: QuorumContext, event_loop: RaftEventLoop, fetches: FetchPurgatory
    ) -> None:
        self._context = context
        self._event_loop = event_loop
        self._fetches = fetches
        self._duplicate_ids: dict[ReplicaKey, None] = {}

    def _check(self, request: Any, message: object) -> ErrorCode | None:
        """The error of the whole request, if any."""
        mine = self._context.cluster_id
        if request.cluster_id is not None and request.cluster_id != mine:
            return ErrorCode.INCONSISTENT_CLUSTER_ID
        if message is None:
            return ErrorCode.INVALID_REQUEST
        if isinstance(message, Vote | BeginEpoch | EndEpoch):
            peer = f"quorum node {_sender(message)}"
            if self._context.epoch_limit.rejects(peer, message.epoch, self._context.epoch):
                return ErrorCode.INVALID_REQUEST
        return None

    def _leader_node(self, leader_id: int) -> codec.NodeEndpoints:
        """The leader's address, for clients that only know its id."""
        if leader_id < 0:
            return ()
        own = self._context.endpoint
        if leader_id == self._context.me.id:
            return () if own is None else ((leader_id, own.host, own.port),)
        address = self._context.connections.address_of(leader_id)
        return () if address is None else ((leader_id, address.host, address.port),)

    def vote(self, request: vote.VoteRequest, reply: Callable[[vote.VoteResponse], None]) -> None:
        """Vote (52)."""
        message = codec.decode_vote_request(request)
        error = self._check(request, message)
        if error is not None or message is None:
            reply(vote.VoteResponse(error_code=error or ErrorCode.INVALID_REQUEST))
            return
        self._event_loop.step(
            lambda now: self._context.raft.on_vote(message, now),
            lambda response: reply(
                codec.encode_vote_response(response, self._leader_node(response.leader_id))
            ),
            lambda: reply(vote.VoteResponse(error_code=BUSY)),
        )

    def begin_epoch(
        self,
        request: begin.BeginQuorumEpochRequest,
        reply: Callable[[begin.BeginQuorumEpochResponse], None],
    ) -> None:
        """BeginQuorumEpoch (53)."""
        message = codec.decode_begin_epoch_request(request)
        error = self._check(request, message)
        if error is not None or message is None:
            code = error or ErrorCode.INVALID_REQUEST
            reply(begin.BeginQuorumEpochResponse(error_code=code))
            return
        self._update_leader_endpoint(message.leader_id, request.leader_endpoints)
        self._event_loop.step(
            lambda now: self._context.raft.on_begin_epoch(message, now),
            lambda response: reply(
                codec.encode_begin_epoch_response(response, self._leader_node(response.leader_id))
            ),
            lambda: reply(begin.BeginQuorumEpochResponse(error_code=BUSY)),
        )

    def end_epoch(
        self,
        request: end.EndQuorumEpochRequest,
        reply: Callable[[end.EndQuorumEpochResponse], None],
    ) -> None:
        """EndQuorumEpoch (54)."""
        message = codec.decode_end_epoch_request(request)
        error = self._check(request, message)
        if error is not None or message is None:
            reply(end.EndQuorumEpochResponse(error_code=error or ErrorCode.INVALID_REQUEST))
            return
        self._event_loop.step(
            lambda now: self._context.raft.on_end_epoch(message, now),
            lambda response: reply(
                codec.encode_end_epoch_response(response, self._leader_node(response.leader_id))
            ),
            lambda: reply(end.EndQuorumEpochResponse(error_code=BUSY)),
        )

    def _update_leader_endpoint(self, leader_id: int, endpoints: Any) -> None:
        known = [one for one in endpoints if one.host]
        if known and leader_id != self._context.me.id:
            self._context.connections.update_endpoints({leader_id: (known[0].host, known[0].port)})

    def fetch(
        self, request: fetch.FetchRequest, reply: Callable[[fetch.FetchResponse], None]
    ) -> None:
        """Fetch (1) of the metadata log; `reply` is called now or when there are records."""
        message = codec.decode_fetch_request(request)
        error = self._check(request, message)
        if error is not None or message is None:
            reply(fetch.FetchResponse(error_code=error or ErrorCode.INVALID_REQUEST))
            return

        replica = message.replica

        def answered(response: FetchResponse) -> None:
            if response.error is ErrorCode.DUPLICATE_VOTER:
                self._log_duplicate_id(replica)
            reply(codec.encode_fetch_response(response, self._leader_node(response.leader_id)))

        context = self._context
        if message.epoch < 0:  # a consumer does not know the epoch
            message = replace(message, epoch=context.epoch)
        partition = request.topics[0].partitions[0]
        max_bytes = min(request.max_bytes, partition.partition_max_bytes or request.max_bytes)
        final = message
        self._event_loop.step(
            lambda now: self._fetches.fetch(final, max_bytes, now, answered),
            on_refused=lambda: reply(fetch.FetchResponse(error_code=BUSY)),
        )

    def _log_duplicate_id(self, replica: ReplicaKey) -> None:
        """Logs once that two processes share an id; which of them is misconfigured is unknown
        here."""
        if replica in self._duplicate_ids or len(self._duplicate_ids) >= MAX_DUPLICATE_IDS:
            return
        self._duplicate_ids[replica] = None
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
        message = codec.decode_fetch_snapshot_request(request)
        error = self._check(request, message)
        if error is not None or message is None:
            code = error or ErrorCode.INVALID_REQUEST
            reply(fetch_snapshot.FetchSnapshotResponse(error_code=code))
            return
        context = self._context
        if message.epoch < 0:
            message = replace(message, epoch=context.epoch)
        final = message

        def answered(response: FetchSnapshotResponse) -> None:
            if response.error is ErrorCode.NONE:
                response = self._with_chunk(response, final.position, request.max_bytes)
            reply(
                codec.encode_fetch_snapshot_response(
                    response, self._leader_node(response.leader_id)
                )
            )

        self._event_loop.step(
            lambda now: context.raft.on_fetch_snapshot(final, now),
            answered,
            lambda: reply(fetch_snapshot.FetchSnapshotResponse(error_code=BUSY)),
        )

    def _with_chunk(
        self, response: FetchSnapshotResponse, position: int, max_bytes: int
    ) -> FetchSnapshotResponse:
        context = self._context
        if position < 0:
            return replace(response, error=ErrorCode.POSITION_OUT_OF_RANGE)
        limit = min(max_bytes, context.config["controller.quorum.fetch.snapshot.max.bytes"])
        try:
            found = context.log.snapshots.read_chunk(response.snapshot, position, max(limit, 1))
        except DiskError as error:
            log.error("snapshot %s cannot be read: %s", response.snapshot, error)
            return replace(response, error=ErrorCode.KAFKA_STORAGE_ERROR)
        if found is None:
            return replace(response, error=ErrorCode.SNAPSHOT_NOT_FOUND)
        data, size = found
        if not 0 <= position < size:
            return replace(response, error=ErrorCode.POSITION_OUT_OF_RANGE)
        return replace(response, size=size, position=position, data=data)

    @property
    def is_leader(self) -> bool:
        """Whether this node leads the quorum."""
        return self._context.raft.role is RaftRole.LEADER


def _sender(message: Vote | BeginEpoch | EndEpoch) -> int:
    return message.candidate.id if isinstance(message, Vote) else message.leader_id
