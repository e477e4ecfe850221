"""Every error code of the Kafka 4.4 protocol: number, name, worth a retry or not, and a sentence.

In: nothing. Out: `ErrorCode` (with `.retriable` and `.text`) and `BusError`, the one exception that
carries a code across packages.
Never: I/O, and never the place to decide which error applies. Programmer errors are not here:
they are `check(condition, "sentence")`.

Source: codes, names and retriability as of Kafka 4.4 (checked against its client by a test);
the sentences are ours.
"""

from __future__ import annotations

from enum import IntEnum


class ErrorCode(IntEnum):
    """A wire error code. `UNKNOWN_SERVER_ERROR` is what a bug looks like from outside."""

    retriable: bool
    text: str

    def __new__(cls, code: int, retriable: bool, text: str) -> ErrorCode:
        """One member: its int value is the code on the wire."""
        member = int.__new__(cls, code)
        member._value_ = code
        member.retriable = retriable
        member.text = text
        return member

    UNKNOWN_SERVER_ERROR = (
        -1,
        False,
        "The server met something it did not expect; its log says more.",
    )
    NONE = 0, False, "Success."
    OFFSET_OUT_OF_RANGE = 1, False, "The offset lies outside what this replica holds."
    CORRUPT_MESSAGE = (
        2,
        True,
        "The batch is damaged: wrong checksum, wrong size or a malformed header.",
    )
    UNKNOWN_TOPIC_OR_PARTITION = 3, True, "This server does not host this topic-partition."
    INVALID_FETCH_SIZE = 4, False, "The requested fetch size is not usable."
    LEADER_NOT_AVAILABLE = (
        5,
        True,
        "The partition has no leader at the moment; an election is under way.",
    )
    NOT_LEADER_OR_FOLLOWER = (
        6,
        True,
        "This broker is not the leader (or not a replica) that the request needs.",
    )
    REQUEST_TIMED_OUT = 7, True, "The request was not finished within its time-out."
    BROKER_NOT_AVAILABLE = 8, False, "The broker cannot be reached."
    REPLICA_NOT_AVAILABLE = 9, True, "The replica cannot serve this partition now."
    MESSAGE_TOO_LARGE = 10, False, "A batch is larger than max.message.bytes allows."
    STALE_CONTROLLER_EPOCH = 11, False, "A newer controller has taken over."
    OFFSET_METADATA_TOO_LARGE = 12, False, "The metadata string of a committed offset is too long."
    NETWORK_EXCEPTION = 13, True, "The connection broke before the answer came."
    COORDINATOR_LOAD_IN_PROGRESS = 14, True, "The coordinator is still reading its log."
    COORDINATOR_NOT_AVAILABLE = 15, True, "No coordinator is available yet."
    NOT_COORDINATOR = 16, True, "Another broker coordinates this group or transactional id."
    INVALID_TOPIC_EXCEPTION = (
        17,
        False,
        "The topic's name is not allowed, or the operation is not allowed on this topic.",
    )
    RECORD_LIST_TOO_LARGE = 18, False, "The batch does not fit into one log segment."
    NOT_ENOUGH_REPLICAS = (
        19,
        True,
        "Fewer replicas are in sync than min.insync.replicas asks; nothing was written.",
    )
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = (
        20,
        True,
        "The batch was written, but on fewer in-sync replicas than demanded.",
    )
    INVALID_REQUIRED_ACKS = 21, False, "acks must be 0, 1 or -1 (all)."
    ILLEGAL_GENERATION = 22, False, "The group has moved on to another generation."
    INCONSISTENT_GROUP_PROTOCOL = (
        23,
        False,
        "The member shares no protocol with the rest of the group.",
    )
    INVALID_GROUP_ID = 24, False, "The group id is missing or malformed."
    UNKNOWN_MEMBER_ID = 25, False, "The coordinator does not know this member."
    INVALID_SESSION_TIMEOUT = 26, False, "The session time-out lies outside the broker's bounds."
    REBALANCE_IN_PROGRESS = 27, False, "The group is rebalancing; join it again."
    INVALID_COMMIT_OFFSET_SIZE = 28, False, "The offset commit is too large to be stored."
    TOPIC_AUTHORIZATION_FAILED = 29, False, "The principal may not do this with the topic."
    GROUP_AUTHORIZATION_FAILED = 30, False, "The principal may not do this with the group."
    CLUSTER_AUTHORIZATION_FAILED = 31, False, "The principal may not do this with the cluster."
    INVALID_TIMESTAMP = 32, False, "The timestamp lies outside the allowed range."
    UNSUPPORTED_SASL_MECHANISM = 33, False, "This SASL mechanism is not offered here."
    ILLEGAL_SASL_STATE = 34, False, "The request does not fit the state of the SASL exchange."
    UNSUPPORTED_VERSION = 35, False, "This version of the API is not served."
    TOPIC_ALREADY_EXISTS = 36, False, "A topic of this name exists."
    INVALID_PARTITIONS = 37, False, "The number of partitions is not valid for this operation."
    INVALID_REPLICATION_FACTOR = (
        38,
        False,
        "The replication factor is below 1 or above the number of brokers.",
    )
    INVALID_REPLICA_ASSIGNMENT = 39, False, "The replica assignment is not valid."
    INVALID_CONFIG = 40, False, "A configuration key or value is not valid."
    NOT_CONTROLLER = 41, True, "This node is not the active controller."
    INVALID_REQUEST = (
        42,
        False,
        "This most likely occurs because of a request being malformed by the client library or the "
        "message was sent to an incompatible broker. See the broker logs for more details.",
    )
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, False, "The log's record format cannot serve this request."
    POLICY_VIOLATION = 44, False, "A policy of this cluster forbids the request."
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, False, "A batch of this producer is missing before this one."
    DUPLICATE_SEQUENCE_NUMBER = 46, False, "This batch was already written."
    INVALID_PRODUCER_EPOCH = 47, False, "A newer epoch of this producer id exists."
    INVALID_TXN_STATE = 48, False, "The transaction is not in a state that allows this."
    INVALID_PRODUCER_ID_MAPPING = (
        49,
        False,
        "The producer id does not belong to this transactional id.",
    )
    INVALID_TRANSACTION_TIMEOUT = (
        50,
        False,
        "The transaction time-out is above transaction.max.timeout.ms.",
    )
    CONCURRENT_TRANSACTIONS = 51, True, "Another operation on this transaction has not ended yet."
    TRANSACTION_COORDINATOR_FENCED = (
        52,
        False,
        "The marker came from a coordinator that has been replaced.",
    )
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = (
        53,
        False,
        "The principal may not use this transactional id.",
    )
    SECURITY_DISABLED = 54, False, "Security features are switched off."
    OPERATION_NOT_ATTEMPTED = 55, False, "Not tried, because another part of the request failed."
    KAFKA_STORAGE_ERROR = 56, True, "The disk under this log failed."
    LOG_DIR_NOT_FOUND = 57, False, "No such log directory."
    SASL_AUTHENTICATION_FAILED = 58, False, "Authentication failed."
    UNKNOWN_PRODUCER_ID = 59, False, "The producer id is not known to this partition."
    REASSIGNMENT_IN_PROGRESS = 60, False, "A reassignment of this partition is under way."
    DELEGATION_TOKEN_AUTH_DISABLED = 61, False, "Delegation tokens are switched off."
    DELEGATION_TOKEN_NOT_FOUND = 62, False, "No such delegation token."
    DELEGATION_TOKEN_OWNER_MISMATCH = (
        63,
        False,
        "The principal is neither owner nor renewer of the token.",
    )
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = (
        64,
        False,
        "Tokens may not be asked for over this connection.",
    )
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = (
        65,
        False,
        "The principal may not do this with the token.",
    )
    DELEGATION_TOKEN_EXPIRED = 66, False, "The token has expired."
    INVALID_PRINCIPAL_TYPE = 67, False, "This kind of principal is not supported."
    NON_EMPTY_GROUP = 68, False, "The group still has members."
    GROUP_ID_NOT_FOUND = 69, False, "No such group."
    FETCH_SESSION_ID_NOT_FOUND = 70, True, "The fetch session is gone; open a new one."
    INVALID_FETCH_SESSION_EPOCH = (
        71,
        True,
        "The fetch session's epoch does not follow the last one.",
    )
    LISTENER_NOT_FOUND = 72, True, "The leader has no listener of the name the request came in on."
    TOPIC_DELETION_DISABLED = 73, False, "Deleting topics is switched off."
    FENCED_LEADER_EPOCH = 74, True, "The leader epoch in the request is older than the broker's."
    UNKNOWN_LEADER_EPOCH = 75, True, "The leader epoch in the request is newer than the broker's."
    UNSUPPORTED_COMPRESSION_TYPE = (
        76,
        False,
        "The client cannot read the compression of this partition.",
    )
    STALE_BROKER_EPOCH = 77, False, "The broker registered again; its old epoch is void."
    OFFSET_NOT_AVAILABLE = 78, True, "A new leader's high watermark is not certain yet."
    MEMBER_ID_REQUIRED = 79, False, "Join again with the member id in this answer."
    PREFERRED_LEADER_NOT_AVAILABLE = 80, True, "The preferred leader is not available."
    GROUP_MAX_SIZE_REACHED = 81, False, "The group is full."
    FENCED_INSTANCE_ID = 82, False, "Another member with the same group.instance.id took over."
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, True, "No replica that may become leader is available."
    ELECTION_NOT_NEEDED = 84, True, "Leader election not needed for topic partition."
    NO_REASSIGNMENT_IN_PROGRESS = 85, False, "No reassignment of this partition is under way."
    GROUP_SUBSCRIBED_TO_TOPIC = 86, False, "The group is subscribed to the topic."
    INVALID_RECORD = 87, False, "A record breaks a rule of its topic and was refused."
    UNSTABLE_OFFSET_COMMIT = 88, True, "Offsets of an open transaction must be settled first."
    THROTTLING_QUOTA_EXCEEDED = 89, True, "A quota is used up."
    PRODUCER_FENCED = 90, False, "A newer producer uses the same transactional id."
    RESOURCE_NOT_FOUND = 91, False, "The thing named in the request does not exist."
    DUPLICATE_RESOURCE = 92, False, "The same thing is named twice."
    UNACCEPTABLE_CREDENTIAL = 93, False, "The credential does not meet the rules."
    INCONSISTENT_VOTER_SET = 94, False, "The voters named do not match this quorum."
    INVALID_UPDATE_VERSION = 95, False, "The feature level may not be changed in this way."
    FEATURE_UPDATE_FAILED = 96, False, "The feature levels could not be changed."
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, False, "The forwarded principal cannot be read."
    SNAPSHOT_NOT_FOUND = 98, False, "No such snapshot."
    POSITION_OUT_OF_RANGE = 99, False, "The position lies outside the snapshot."
    UNKNOWN_TOPIC_ID = 100, True, "No topic has this id here."
    DUPLICATE_BROKER_REGISTRATION = 101, False, "Another live broker uses this broker id."
    BROKER_ID_NOT_REGISTERED = 102, False, "No broker is registered under this id."
    INCONSISTENT_TOPIC_ID = 103, True, "The log belongs to another topic id than the request says."
    INCONSISTENT_CLUSTER_ID = 104, False, "The request was meant for another cluster."
    TRANSACTIONAL_ID_NOT_FOUND = 105, False, "No such transactional id."
    FETCH_SESSION_TOPIC_ID_ERROR = 106, True, "The fetch session mixes topic ids and names."
    INELIGIBLE_REPLICA = 107, False, "The new in-sync set names a replica that may not be in it."
    NEW_LEADER_ELECTED = 108, False, "The change was made, and the leader is another one now."
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, False, "The offset is in tiered storage only."
    FENCED_MEMBER_EPOCH = (
        110,
        False,
        "The member's epoch is void; give up all partitions and join again.",
    )
    UNRELEASED_INSTANCE_ID = (
        111,
        False,
        "The instance id is still in use by a member that has not left.",
    )
    UNSUPPORTED_ASSIGNOR = 112, False, "The group cannot use this assignor."
    STALE_MEMBER_EPOCH = (
        113,
        False,
        "The member's epoch is old; wait for the next heartbeat's answer.",
    )
    MISMATCHED_ENDPOINT_TYPE = 114, False, "The request went to the wrong kind of endpoint."
    UNSUPPORTED_ENDPOINT_TYPE = 115, False, "This kind of endpoint is not supported."
    UNKNOWN_CONTROLLER_ID = 116, False, "No such controller id."
    UNKNOWN_SUBSCRIPTION_ID = 117, False, "The telemetry subscription is unknown or outdated."
    TELEMETRY_TOO_LARGE = 118, False, "The telemetry push is too large."
    INVALID_REGISTRATION = 119, False, "The controller refuses this registration."
    TRANSACTION_ABORTABLE = (
        120,
        False,
        "The transaction must be aborted; then the producer can go on.",
    )
    INVALID_RECORD_STATE = (
        121,
        False,
        "The record is not in a state that allows this acknowledgement.",
    )
    SHARE_SESSION_NOT_FOUND = 122, True, "The share session is gone; open a new one."
    INVALID_SHARE_SESSION_EPOCH = (
        123,
        True,
        "The share session's epoch does not follow the last one.",
    )
    FENCED_STATE_EPOCH = 124, False, "The state epoch of the share group does not match."
    INVALID_VOTER_KEY = 125, False, "The voter key is not this replica's."
    DUPLICATE_VOTER = 126, False, "The voter is already in the set."
    VOTER_NOT_FOUND = 127, False, "The voter is not in the set."
    INVALID_REGULAR_EXPRESSION = 128, False, "The regular expression is not valid."
    REBOOTSTRAP_REQUIRED = (
        129,
        False,
        "The client's metadata is too old; start again from the bootstrap servers.",
    )
    STREAMS_INVALID_TOPOLOGY = 130, False, "The topology is not valid."
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, False, "The topology epoch is not valid."
    STREAMS_TOPOLOGY_FENCED = 132, False, "The topology epoch has been overtaken."
    SHARE_SESSION_LIMIT_REACHED = 133, True, "No further share sessions are allowed here."
    GROUP_DELETION_FAILED = 134, False, "The group could not be deleted; its message says why."
    STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED = (
        135,
        False,
        "The description of the topology could not be processed; the message says why.",
    )
    CONTROLLER_ID_NOT_REGISTERED = 136, False, "No controller of this id is registered."

    @classmethod
    def of(cls, code: int) -> ErrorCode:
        """The member of a code from the wire; one of a later Kafka is UNKNOWN_SERVER_ERROR."""
        try:
            return cls(code)  # type: ignore[call-arg]  # the look-up by value
        except ValueError:
            return cls.UNKNOWN_SERVER_ERROR


class BusError(Exception):
    """A peer or operating error with its code: expected and typed."""

    def __init__(self, code: ErrorCode, detail: str = "") -> None:
        super().__init__(f"{code.name}: {detail or code.text}")
        self.code = code
        self.detail = detail

    @property
    def retriable(self) -> bool:
        """Whether the same request may succeed later without being changed."""
        return self.code.retriable


class CloseConnection(Exception):
    """The peer can only be answered by closing its connection; the text is the log line."""


class CheckFailed(BaseException):
    """A programmer error: the process must stop, because it no longer knows what is true.

    Not an `Exception`, so that no `except Exception` on the way lets the process go on.
    """


def check(condition: object, sentence: str) -> None:
    """Stop on a broken invariant; unlike `assert` it also runs under `python -O`."""
    if not condition:
        raise CheckFailed(sentence)
