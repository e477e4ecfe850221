"""What the answers of an ordinary target mean, of Produce and of its coordinator. Pure.

In: error codes. Out: a named state, or whether to ask again.
"""

from __future__ import annotations

from bus.errors import ErrorCode
from dr_mirror.topics.states import MirrorState

ASK_AGAIN = frozenset({
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.REQUEST_TIMED_OUT,
})  # fmt: skip
"""The coordinator is the right one and busy."""
FIND_AGAIN = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR})
FENCING = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})
"""Another process has the transactional id, or the coordinator gave the transaction up."""

SEND_AGAIN = frozenset({
    ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.NETWORK_EXCEPTION, ErrorCode.SASL_AUTHENTICATION_FAILED,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
})  # fmt: skip
"""An idempotent producer may send the same batch again. Out of order: one before it failed."""

_STATES = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: MirrorState.NOT_ALLOWED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: MirrorState.NOT_ALLOWED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: MirrorState.NOT_ALLOWED,
    ErrorCode.SASL_AUTHENTICATION_FAILED: MirrorState.LOGIN_REFUSED,
    ErrorCode.CORRUPT_MESSAGE: MirrorState.CORRUPT_SOURCE,
    ErrorCode.NETWORK_EXCEPTION: MirrorState.TARGET_UNAVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: MirrorState.TARGET_UNAVAILABLE,
    ErrorCode.LEADER_NOT_AVAILABLE: MirrorState.TARGET_UNAVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: MirrorState.TARGET_UNAVAILABLE,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: MirrorState.TARGET_UNAVAILABLE,
    ErrorCode.NOT_COORDINATOR: MirrorState.TARGET_UNAVAILABLE,
    # The next life of the producer begins with fresh numbers.
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: MirrorState.STARTING,
    ErrorCode.INVALID_TXN_STATE: MirrorState.STARTING,
    ErrorCode.PRODUCER_FENCED: MirrorState.STARTING,
    ErrorCode.INVALID_PRODUCER_EPOCH: MirrorState.STARTING,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: MirrorState.STARTING,
    ErrorCode.UNKNOWN_PRODUCER_ID: MirrorState.STARTING,
}


def produce_state(code: ErrorCode, message: str) -> tuple[MirrorState, str]:
    """The state of a partition whose batch was not taken, and its detail."""
    state = _STATES.get(code, MirrorState.TARGET_REFUSES)
    return state, f"the target: {code.name}" + (f": {message}" if message else "")
