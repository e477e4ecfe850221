"""What an error of a mirrored append means for the partition. Pure.

In: the code and words of the target. Out: a named state; all of them begin with a new claim.
"""

from __future__ import annotations

from bus.errors import ErrorCode
from dr_mirror.topics.states import MirrorState

_STATES = {
    ErrorCode.FENCED_MEMBER_EPOCH: MirrorState.FENCED,
    ErrorCode.INCONSISTENT_CLUSTER_ID: MirrorState.NOT_A_MIRROR,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: MirrorState.NOT_ALLOWED,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: MirrorState.NOT_ALLOWED,
    ErrorCode.UNSUPPORTED_VERSION: MirrorState.NOT_ALLOWED,
    ErrorCode.CORRUPT_MESSAGE: MirrorState.CORRUPT_SOURCE,
    ErrorCode.INVALID_RECORD: MirrorState.CORRUPT_SOURCE,
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT: MirrorState.CORRUPT_SOURCE,
    # The end is not where it was believed, or another broker leads: a claim tells.
    ErrorCode.OFFSET_OUT_OF_RANGE: MirrorState.STARTING,
    ErrorCode.STALE_MEMBER_EPOCH: MirrorState.STARTING,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: MirrorState.TARGET_UNAVAILABLE,
    ErrorCode.LEADER_NOT_AVAILABLE: MirrorState.TARGET_UNAVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: MirrorState.TARGET_UNAVAILABLE,
    ErrorCode.FENCED_LEADER_EPOCH: MirrorState.TARGET_UNAVAILABLE,
    ErrorCode.UNKNOWN_LEADER_EPOCH: MirrorState.TARGET_UNAVAILABLE,
}


def state_of(code: ErrorCode, message: str) -> tuple[MirrorState, str]:
    """The state and its detail."""
    state = _STATES.get(code, MirrorState.TARGET_REFUSES)
    return state, f"the target: {code.name}" + (f": {message}" if message else "")
