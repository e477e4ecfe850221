"""The port for work in a process beside the broker's.

In: nothing. Out: ``CleanerProcess``, the only way a package of the broker has work done elsewhere,
and the typed errors of that. Never: what the lines say; a process started in any other place.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from enum import StrEnum
from typing import Protocol


class FailureKind(StrEnum):
    """Why a request ended without its last report."""

    DISK_FULL = "disk full"
    DISK = "disk"
    REFUSED = "refused"
    """The request cannot be read, or is too long."""
    BROKEN = "broken"
    """A bug of ours, or memory that ran out; the text has the trace."""
    DIED = "died"
    """The process is dead, or was so often that it rests before it is started again."""


class RequestFailed(Exception):
    """A request ended early. What was reported before counts."""

    def __init__(self, kind: FailureKind, text: str) -> None:
        super().__init__(text)
        self.kind = kind


class CleanerProcess(Protocol):
    """The process, started when there is work."""

    def run(self, request: bytes) -> AsyncGenerator[bytes, None]:
        """The reports of a request, in their order; RequestFailed. Whoever closes the generator
        before its end cancels the request; once that is closed, the request does nothing more."""

    def limit_rate(self, bytes_per_second: float) -> None:
        """All requests together read and write no more than that, from now on."""

    async def stop(self) -> None:
        """End it; requests under way fail."""
