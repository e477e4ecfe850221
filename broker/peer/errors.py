"""Why a request to a peer has no answer."""

from __future__ import annotations

from enum import Enum


class PeerErrorKind(Enum):
    """What happened; whether the peer acted on the request is unknown except for REFUSED."""

    DISCONNECTED = "disconnected"
    TIMED_OUT = "timed out"
    UNSUPPORTED_VERSION = "unsupported version"
    REFUSED = "refused"


class PeerError(Exception):
    """No answer; the text is fit for a log line."""

    def __init__(self, kind: PeerErrorKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind
