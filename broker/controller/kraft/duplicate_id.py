"""Finds another process with this node's id: two of them would vote, and count, as one.

The configuration of a static quorum contains no directory ids, so the other voters cannot tell two
processes with one id apart by their votes. But the id's address is known: if another process than
this one answers there and says that it has the same id, one of the two is misconfigured, namely the
one that is not at its address. Kafka's own means is used: a vote is requested from a voter by id
and directory, and every other replica rejects it with INVALID_VOTER_KEY (KIP-853). A pre-vote
changes nothing there.
"""

from __future__ import annotations

from broker.controller.kraft.context import QuorumContext
from broker.controller.kraft.raft.messages import OffsetAndEpoch, Vote
from broker.controller.kraft.raft.voters import ReplicaKey
from broker.controller.kraft.transport.codec import decode_response, encode_request
from bus.client.wire.errors import PeerError, decoding_response
from bus.errors import ErrorCode

TIMEOUT_MS = 1_000
"""A process at the node's own address answers at once or not at all; a start must not be
delayed."""

ATTEMPTS = 3
"""The first response names the epoch in which the vote must be requested."""


async def find_duplicate(context: QuorumContext) -> str | None:
    """What the duplicate does, None if there is none: nothing answers, or this node itself."""
    me, own = context.me, context.endpoint
    voter = context.voters.find(me.id)
    if voter is None or own is None or not voter.endpoints:
        return None
    address = voter.endpoints[0]
    if (address.host, address.port) == (own.host, own.port):
        return None  # this process listens there
    try:
        if await _rejects_voter_key(context, me) and not await _rejects_voter_key(
            context, ReplicaKey(me.id)
        ):
            return f"answers at {address.host}:{address.port}, the place of voter {me.id}"
    except PeerError:
        pass
    return None


async def _rejects_voter_key(context: QuorumContext, voter: ReplicaKey) -> bool:
    """Whether the process at this node's address says that it is not `voter`."""
    channel = context.connections.channel(context.me.id, "duplicate id")
    epoch = 0
    for _ in range(ATTEMPTS):
        request = Vote(context.me, epoch, OffsetAndEpoch(0, 0), pre_vote=True, voter=voter)
        key, body = encode_request(request, context.cluster_id, 0, ())
        response = await channel.request(key, body, timeout_ms=TIMEOUT_MS)
        with decoding_response("the process at this node's address"):
            decoded = decode_response(request, response)
        if decoded.error is not ErrorCode.FENCED_LEADER_EPOCH or decoded.epoch <= epoch:
            return decoded.error is ErrorCode.INVALID_VOTER_KEY
        epoch = decoded.epoch
    return False
