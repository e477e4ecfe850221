"""Record headers that we add, and the reasons for which a record is rejected.

In/out: plain values. Never: clients. Row Q-0 of docs/from_the_seeds.md.
"""

from __future__ import annotations

from enum import Enum

RECORD_ID = "record-id"
SCHEMA = "schema"
RECEIVED_AT = "received-at"  # epoch milliseconds, decimal text
SOURCE = "source"  # the peer's address as seen, never as claimed
SITE = "site"
REPLAY = "replay"  # "1": sent again from a file; left out of the latency statistic
REASON = "reason"  # a Reason value, on quarantine.records only
FIELD = "field"  # the wire key at fault, UTF-8, on quarantine.records only
TRUNCATED = "truncated"  # the original size in bytes, where only the beginning could be kept
KIND = "kind"  # what the sender meant to send: vehicle, face or video


class RecordKind(str, Enum):
    """What a data record describes; also the `kind` column of the store."""

    VEHICLE = "vehicle"
    FACE = "face"
    PERSON = "person"
    MOVER = "mover"


class Reason(str, Enum):
    """Why a record is not valid (Q-0); the values are stable, they are counted and shown."""

    NOT_UTF8 = "not-utf8"
    NOT_JSON = "not-json"
    NOT_AN_OBJECT = "not-an-object"
    TOO_LARGE = "too-large"
    NO_CHECKPOINT = "no-checkpoint"
    NO_TIME = "no-time"
    BAD_TIME = "bad-time"
    BAD_VALUE = "bad-value"  # a known key whose value has a wrong type or range
    ALL_UNREADABLE = "all-unreadable"  # all ten recognition fields read 识别异常
    NO_PICTURE_OR_FEATURE = "no-picture-or-feature"  # face records
    REFUSED = "refused"  # the beginning of a request that was refused; no record has arrived
