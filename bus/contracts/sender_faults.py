"""What an edge says of senders that do something wrong: the answer of `/v1/senders`.

In/out: frozen structs, JSON with English keys. Never: a judgement (that is the watch's).
"""

from __future__ import annotations

import msgspec

SENDERS_PATH = "/v1/senders"
FIRST_PEERS = 100
"""Of a group told by address; an incident names them, the others are counted."""


class RefusedGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Requests refused for one reason that look like one maker's (empty: nobody's), of the last
    hour.

    `idle_s` since the last one; `first_peers` is empty for who may not read addresses.
    """

    reason: str
    maker: str
    requests: int
    peers: int
    idle_s: float
    first_peers: list[str] = []


class RefusedPeer(msgspec.Struct, frozen=True, kw_only=True):
    """What one peer was refused for, and the last request's line."""

    reason: str
    maker: str
    peer: str
    requests: int
    first_ms: int
    last_ms: int
    request: str


class WarnedDevice(msgspec.Struct, frozen=True, kw_only=True):
    """Accepted records of one device of which something is lost, by fault: `field` is the key."""

    camera_ip: str
    field: str
    records: int
    last_ms: int
    message: str
    message_zh: str


class SenderFaults(msgspec.Struct, frozen=True, kw_only=True):
    """The newest first; `since_ms` is the edge's start."""

    since_ms: int
    groups: list[RefusedGroup] = []
    refused: list[RefusedPeer] = []
    warned: list[WarnedDevice] = []
