"""What machines of the quorum say to each other and to their shells.

In: nothing. Out: frozen values: requests, responses, effects, the moment at which something
happens. Never: bytes of the wire (`wire.py` turns these into Kafka's messages and back).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from broker.controller.kraft.voters import NO_DIRECTORY, ReplicaKey, VoterSet
from bus.errors import ErrorCode

NO_LEADER = -1
UNKNOWN_WATERMARK = (1 << 63) - 1
"""Fetch before version 18 does not say which high watermark the follower knows."""


class Moment(NamedTuple):
    """When an event happens, and one throw of the dice for whatever it may have to spread.

    `now_ms` never goes back (it is made of the monotonic clock); `dice` is in [0, 1).
    """

    now_ms: int
    dice: float = 0.0


class OffsetAndEpoch(NamedTuple):
    """A place in the log: `offset` is exclusive, `epoch` that of the last record before it."""

    offset: int
    epoch: int

    def is_at_least(self, other: OffsetAndEpoch) -> bool:
        """Raft's *up to date*: the later epoch wins, then the longer log."""
        return (self.epoch, self.offset) >= (other.epoch, other.offset)


NOWHERE = OffsetAndEpoch(-1, -1)


# -- requests ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Vote:
    """Will you vote for me (or, `pre_vote`, would you, if I asked)?"""

    candidate: ReplicaKey
    epoch: int
    end: OffsetAndEpoch
    pre_vote: bool
    voter: ReplicaKey | None = None


@dataclass(frozen=True, slots=True)
class BeginEpoch:
    """I lead `epoch`; fetch from me."""

    leader_id: int
    epoch: int
    voter: ReplicaKey | None = None


@dataclass(frozen=True, slots=True)
class EndEpoch:
    """I lead `epoch` no longer; `successors` may try in this order."""

    leader_id: int
    epoch: int
    successors: tuple[ReplicaKey, ...]


@dataclass(frozen=True, slots=True)
class Fetch:
    """Give me what follows `offset`; the record before it has `last_epoch`."""

    replica: ReplicaKey
    epoch: int
    offset: int
    last_epoch: int
    max_wait_ms: int
    high_watermark: int = UNKNOWN_WATERMARK


@dataclass(frozen=True, slots=True)
class FetchSnapshot:
    """Give me bytes of a snapshot from `position` on."""

    replica: ReplicaKey
    epoch: int
    snapshot: OffsetAndEpoch
    position: int


Request = Vote | BeginEpoch | EndEpoch | Fetch | FetchSnapshot

# -- responses --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Answer:
    """What every response says: an error, and who leads which epoch as far as is known."""

    error: ErrorCode
    leader_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class VoteAnswer(Answer):
    """The vote."""

    granted: bool = False


@dataclass(frozen=True, slots=True)
class FetchAnswer(Answer):
    """Records, or where to truncate to, or which snapshot to take.

    `read_from` is set by the machine of a leader: the shell puts `records` there.
    """

    high_watermark: int = -1
    log_start: int = 0
    diverging: OffsetAndEpoch | None = None
    snapshot: OffsetAndEpoch | None = None
    records: bytes | memoryview = b""
    read_from: int | None = None


@dataclass(frozen=True, slots=True)
class SnapshotAnswer(Answer):
    """A piece of a snapshot of `size` bytes."""

    snapshot: OffsetAndEpoch = NOWHERE
    size: int = 0
    position: int = 0
    data: bytes | memoryview = b""


# -- effects ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ElectionState:
    """What must survive a restart so that no epoch has two leaders."""

    epoch: int = 0
    leader_id: int = NO_LEADER
    voted: ReplicaKey | None = None


@dataclass(frozen=True, slots=True)
class Persist:
    """Store the election state durably before anything later is done or said."""

    state: ElectionState


@dataclass(frozen=True, slots=True)
class Send:
    """Send a request to a node. Its answer comes to `on_answer`, its failure to `on_failure`."""

    to: int
    request: Request


@dataclass(frozen=True, slots=True)
class Flush:
    """Flush what this replica had appended as a leader before anything later is said: a fetch says
    that all before it is stored."""


@dataclass(frozen=True, slots=True)
class Truncate:
    """Cut the log: everything at or after `offset` goes."""

    offset: int


@dataclass(frozen=True, slots=True)
class AppendRecords:
    """Append whole batches as the leader has them, and flush them."""

    records: bytes | memoryview


@dataclass(frozen=True, slots=True)
class SnapshotPiece:
    """Write a piece of the snapshot that is being fetched."""

    snapshot: OffsetAndEpoch
    position: int
    data: bytes | memoryview


@dataclass(frozen=True, slots=True)
class SnapshotComplete:
    """The snapshot is whole: check it, load it, and begin the log anew behind it."""

    snapshot: OffsetAndEpoch


@dataclass(frozen=True, slots=True)
class BecameLeader:
    """Append the LeaderChange record of `epoch` and flush it."""

    epoch: int
    granting: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AppendVoters:
    """Append this set of voters as a control record and flush it; in front of it, in the same
    batch, that from here on the log names the voters (kraft.version 1) if `raises_version`."""

    voters: VoterSet
    raises_version: bool = False


@dataclass(frozen=True, slots=True)
class LeaderIs:
    """Who leads now; `leader_id` is -1 while nobody is known to."""

    leader_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Committed:
    """Everything below `offset` is on a majority."""

    offset: int


Effect = (
    Persist | Send | Flush | Truncate | AppendRecords | SnapshotPiece | SnapshotComplete
    | BecameLeader | AppendVoters | LeaderIs | Committed
)  # fmt: skip

__all__ = [
    "NO_DIRECTORY", "NO_LEADER", "Answer", "AppendRecords", "AppendVoters", "BecameLeader",
    "BeginEpoch", "Committed", "Effect", "ElectionState", "EndEpoch", "Fetch", "FetchAnswer",
    "FetchSnapshot", "Flush", "LeaderIs", "Moment", "OffsetAndEpoch", "Persist", "ReplicaKey",
    "Request", "Send", "SnapshotAnswer", "SnapshotComplete", "SnapshotPiece", "Truncate", "Vote",
    "VoteAnswer", "VoterSet",
]  # fmt: skip
