"""Why a request to a peer got no answer."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum

from bus.errors import BusError

log = logging.getLogger("broker.peer")


class PeerErrorKind(Enum):
    """What happened; whether the peer acted on the request is unknown except for REFUSED
    and NOT_LET_IN: it did not."""

    DISCONNECTED = "disconnected"
    TIMED_OUT = "timed out"
    UNSUPPORTED_VERSION = "unsupported version"
    REFUSED = "refused"
    NOT_LET_IN = "not let in"


class PeerError(Exception):
    """No answer; the text is fit for a log line."""

    def __init__(self, kind: PeerErrorKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@contextmanager
def decoding_response(peer: str) -> Iterator[None]:
    """Around code that reads an answer: an error there means a malformed answer, so a `PeerError`.

    Typed errors pass, and so does a failed check.
    """
    try:
        yield
    except (BusError, PeerError):
        raise
    except Exception as error:
        log.exception("an answer of %s makes no sense", peer)
        raise PeerError(
            PeerErrorKind.DISCONNECTED, f"{peer}: its answer makes no sense: {error!r}"
        ) from error
