"""How fast and how much at once: memory, the link, back-off, and what goes first. Pure.

In: sizes and times. Out: permissions and waits. Never: a clock; time comes in as seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

FIRST_BACKOFF_S = 0.1
"""An election at either side takes about this long."""
LONGEST_BACKOFF_S = 10.0
"""A cluster that is away for hours is asked six times a minute."""
BURST_S = 1.0
"""What an idle link may send at once above its rate: this long at its rate."""


class CopyClass(IntEnum):
    """What goes first over a link that is too narrow for all."""

    RECORDS = 0
    STATE = 1
    PICTURES = 2


def allowed_classes(waiting: Mapping[CopyClass, int], *, is_limited: bool) -> set[CopyClass]:
    """The classes that may use the link now. `waiting`: bytes or records not copied, by class.

    On a limited link a class goes only while nothing of a more urgent one waits.
    """
    allowed = set()
    for each in CopyClass:
        allowed.add(each)
        if is_limited and waiting.get(each, 0) > 0:
            break
    return allowed


class MemoryBudget:
    """Bytes of fetched records that wait for their acknowledgement.

    Invariant: `used` is what was acquired and not released. It exceeds `limit` only by what a
    response brought above its request: a batch comes whole, however large.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0

    def free(self) -> int:
        """What may be requested now; not negative."""
        return max(self.limit - self.used, 0)

    def acquire(self, size: int) -> None:
        """`size` more bytes are held."""
        self.used += size

    def release(self, size: int) -> None:
        """`size` bytes are no longer held."""
        self.used -= size


class LinkLimit:
    """Bytes per second over the link; a response that was too large is waited for afterwards.

    Invariant: over any time t since the start, no more than rate × (t + BURST_S) bytes plus one
    response have been spent.
    """

    def __init__(self, bytes_per_s: int) -> None:
        """`bytes_per_s` 0: no limit."""
        self._rate = bytes_per_s
        self._tokens = bytes_per_s * BURST_S
        self._updated_s: float | None = None

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit."""
        return self._rate > 0

    def wait_s(self, now_s: float) -> float:
        """How long to wait before the next request; 0: it may go."""
        if not self._rate:
            return 0.0
        self._refill(now_s)
        return max(-self._tokens / self._rate, 0.0)

    def spend(self, size: int, now_s: float) -> None:
        """`size` bytes came over the link."""
        if self._rate:
            self._refill(now_s)
            self._tokens -= size

    def _refill(self, now_s: float) -> None:
        if self._updated_s is not None:
            passed = max(now_s - self._updated_s, 0.0)
            self._tokens = min(self._tokens + passed * self._rate, self._rate * BURST_S)
        self._updated_s = now_s


def backoff_s(failures: int, jitter: float) -> float:
    """The wait after this many failures in a row (1 …). `jitter` is in [0, 1): ± 20 %."""
    wait = min(FIRST_BACKOFF_S * 2 ** min(max(failures - 1, 0), 16), LONGEST_BACKOFF_S)
    return float(wait * (0.8 + 0.4 * jitter))
