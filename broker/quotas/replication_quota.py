"""One rate of a replication quota (KIP-73). Pure.

In: bytes as they are copied, the time. Out: whether the rate is exceeded. Never: what is copied.
"""

from __future__ import annotations

from collections import deque

UNLIMITED = (1 << 63) - 1


class ReplicationQuota:
    """One rate over ``samples`` windows of ``window_ms``. Invariant: samples rise in time."""

    def __init__(self, samples: int, window_ms: int) -> None:
        self.bytes_per_second = UNLIMITED
        self._window_ms = window_ms
        self._span_ms = samples * window_ms
        self._samples: deque[tuple[int, int]] = deque()
        self._total = 0

    def record(self, size_bytes: int, now_ms: int) -> None:
        """Count bytes copied under this quota."""
        start = now_ms - now_ms % self._window_ms
        self._total += size_bytes
        if self._samples and self._samples[-1][0] == start:
            size_bytes += self._samples.pop()[1]
        self._samples.append((start, size_bytes))

    def is_exceeded(self, now_ms: int) -> bool:
        """Whether the rate is exceeded."""
        if self.bytes_per_second == UNLIMITED:
            return False
        while self._samples and self._samples[0][0] <= now_ms - self._span_ms:
            self._total -= self._samples.popleft()[1]
        if not self._samples:
            return False
        # As Kafka's rate: the time since the oldest sample, at least all full windows but one.
        elapsed_ms = max(now_ms - self._samples[0][0], self._span_ms - self._window_ms)
        return self._total * 1000 > self.bytes_per_second * elapsed_ms
