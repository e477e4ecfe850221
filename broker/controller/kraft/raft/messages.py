"""The messages and effects of the Raft core.

In: nothing. Out: frozen values: requests, responses, effects, and the tick at which an event
happens. Never: bytes of the wire (`transport/codec.py` converts to and from Kafka's messages).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from broker.controller.kraft.raft.voters import ReplicaKey, VoterSet
from bus.errors import ErrorCode

NO_LEADER = -1
UNKNOWN_HIGH_WATERMARK = (1 << 63) - 1
"""Fetch before version 18 does not carry the follower's high watermark."""


class Tick(NamedTuple):
    """The time of an event, and one random number for any jitter the event needs.

    `now_ms` never goes back (it comes from the monotonic clock); `random` is in [0, 1).
    """

    now_ms: int
    random: float = 0.0


class OffsetAndEpoch(NamedTuple):
    """A position in the log: `offset` is exclusive, `epoch` is that of the record before it."""

    offset: int
    epoch: int

    def is_at_least(self, other: OffsetAndEpoch) -> bool:
        """Raft's *up to date* comparison: the later epoch wins, then the longer log."""
        return (self.epoch, self.offset) >= (other.epoch, other.offset)


UNKNOWN_OFFSET_AND_EPOCH = OffsetAndEpoch(-1, -1)


# -- requests ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Vote:
    """Asks for a vote or, with `pre_vote`, whether a vote would be granted (KIP-996)."""

    candidate: ReplicaKey
    epoch: int
    end: OffsetAndEpoch
    pre_vote: bool
    voter: ReplicaKey | None = None


@dataclass(frozen=True, slots=True)
class BeginEpoch:
    """Announces the leader of `epoch` to a voter that does not fetch from it yet."""

    leader_id: int
    epoch: int
    voter: ReplicaKey | None = None


@dataclass(frozen=True, slots=True)
class EndEpoch:
    """Announces that the leader of `epoch` resigned; `successors` may start an election in this
    order."""

    leader_id: int
    epoch: int
    successors: tuple[ReplicaKey, ...]


@dataclass(frozen=True, slots=True)
class Fetch:
    """Asks for the records from `offset` on; the record before it has `last_epoch`."""

    replica: ReplicaKey
    epoch: int
    offset: int
    last_epoch: int
    max_wait_ms: int
    high_watermark: int = UNKNOWN_HIGH_WATERMARK


@dataclass(frozen=True, slots=True)
class FetchSnapshot:
    """Asks for bytes of a snapshot from `position` on."""

    replica: ReplicaKey
    epoch: int
    snapshot: OffsetAndEpoch
    position: int


RaftRequest = Vote | BeginEpoch | EndEpoch | Fetch | FetchSnapshot

# -- responses --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class QuorumResponse:
    """The fields that all responses share: an error, and the leader and epoch the sender knows."""

    error: ErrorCode
    leader_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class VoteResponse(QuorumResponse):
    """Whether the vote was granted."""

    granted: bool = False


@dataclass(frozen=True, slots=True)
class FetchResponse(QuorumResponse):
    """Records, or the offset to truncate to, or the snapshot to fetch.

    `read_from` is set by the leader's Raft core; the shell fills in `records` from there.
    """

    high_watermark: int = -1
    log_start: int = 0
    diverging: OffsetAndEpoch | None = None
    snapshot: OffsetAndEpoch | None = None
    records: bytes | memoryview = b""
    read_from: int | None = None


@dataclass(frozen=True, slots=True)
class FetchSnapshotResponse(QuorumResponse):
    """A chunk of a snapshot of `size` bytes."""

    snapshot: OffsetAndEpoch = UNKNOWN_OFFSET_AND_EPOCH
    size: int = 0
    position: int = 0
    data: bytes | memoryview = b""


# -- effects ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ElectionState:
    """The state that must survive a restart so that no epoch has two leaders."""

    epoch: int = 0
    leader_id: int = NO_LEADER
    voted: ReplicaKey | None = None


@dataclass(frozen=True, slots=True)
class PersistElectionState:
    """Store the election state durably before any later effect or response."""

    state: ElectionState


@dataclass(frozen=True, slots=True)
class SendRequest:
    """Send a request to a node. Its response goes to `on_response`, its failure to
    `on_request_failed`."""

    to: int
    request: RaftRequest


@dataclass(frozen=True, slots=True)
class FlushLog:
    """Flush what this replica appended as a leader before any later effect: a fetch implies that
    everything before its offset is stored."""


@dataclass(frozen=True, slots=True)
class Truncate:
    """Truncate the log to `offset`, exclusive."""

    offset: int


@dataclass(frozen=True, slots=True)
class AppendRecords:
    """Append whole batches as the leader stores them, and flush."""

    records: bytes | memoryview


@dataclass(frozen=True, slots=True)
class SnapshotChunk:
    """Write a chunk of the snapshot that is being fetched."""

    snapshot: OffsetAndEpoch
    position: int
    data: bytes | memoryview


@dataclass(frozen=True, slots=True)
class SnapshotComplete:
    """All chunks have arrived: verify the snapshot, load it, and restart the log after it."""

    snapshot: OffsetAndEpoch


@dataclass(frozen=True, slots=True)
class BecameLeader:
    """Append the LeaderChange record of `epoch` and flush it."""

    epoch: int
    granting: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AppendVoters:
    """Append this voter set as a control record and flush it. With `raises_version` a kraft.version
    1 record precedes it in the same batch: from here on the log names the voters."""

    voters: VoterSet
    raises_version: bool = False


@dataclass(frozen=True, slots=True)
class LeaderChanged:
    """The leader changed; `leader_id` is -1 while none is known."""

    leader_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class HighWatermarkAdvanced:
    """Everything below `offset` is stored by a majority."""

    offset: int


Effect = (
    PersistElectionState | SendRequest | FlushLog | Truncate | AppendRecords | SnapshotChunk
    | SnapshotComplete | BecameLeader | AppendVoters | LeaderChanged | HighWatermarkAdvanced
)  # fmt: skip
