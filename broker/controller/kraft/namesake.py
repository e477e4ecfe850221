"""Another process with this node's id: two of them would vote, and count, as one.

In: the context. Out: where the other was met. Never: a change of this node or of the other one.

A voter of a static quorum has no directory id in the configuration, so the others cannot tell two
processes of one id apart by their votes. But its place is known: if another process than this one
answers there, and says that it has the same id, one of the two is misconfigured, and it is the one
that is not at its place. Kafka's own means is used: a vote is asked of a voter by id and directory,
and refused with INVALID_VOTER_KEY by everybody else (KIP-853). A pre-vote changes nothing there.
"""

from __future__ import annotations

from broker.controller.kraft.context import QuorumContext
from broker.controller.kraft.messages import OffsetAndEpoch, Vote
from broker.controller.kraft.voters import ReplicaKey
from broker.controller.kraft.wire import answer_of, request_of
from broker.peer.errors import PeerError, making_sense_of
from bus.errors import ErrorCode

TIMEOUT_MS = 1_000
"""An answer at one's own place comes at once or not at all; a start must not wait long for it."""

ATTEMPTS = 3
"""The first answer names the epoch in which the question must be asked."""


async def met(context: QuorumContext) -> str | None:
    """What a namesake does, None as far as there is none: nobody answers, or this node itself."""
    me, own = context.me, context.endpoint
    voter = context.voters.find(me.id)
    if voter is None or own is None or not voter.endpoints:
        return None
    place = voter.endpoints[0]
    if (place.host, place.port) == (own.host, own.port):
        return None  # this process has bound it
    try:
        if await _refuses(context, me) and not await _refuses(context, ReplicaKey(me.id)):
            return f"answers at {place.host}:{place.port}, the place of voter {me.id}"
    except PeerError:
        pass
    return None


async def _refuses(context: QuorumContext, voter: ReplicaKey) -> bool:
    """Whether the process at this node's place says that it is not `voter`."""
    channel = context.links.channel(context.me.id, "namesake")
    epoch = 0
    for _ in range(ATTEMPTS):
        ask = Vote(context.me, epoch, OffsetAndEpoch(0, 0), pre_vote=True, voter=voter)
        key, body = request_of(ask, context.cluster_id, 0, ())
        response = await channel.request(key, body, timeout_ms=TIMEOUT_MS)
        with making_sense_of("whoever has this node's place"):
            answer = answer_of(ask, response)
        if answer.error is not ErrorCode.FENCED_LEADER_EPOCH or answer.epoch <= epoch:
            return answer.error is ErrorCode.INVALID_VOTER_KEY
        epoch = answer.epoch
    return False
