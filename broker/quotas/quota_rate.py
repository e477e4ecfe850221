"""What a client has used lately, as Kafka's `Rate` and `TokenBucket` count it. Pure.

In: amounts as they are used, the time in milliseconds that never goes back. Out: the rate, and how
long its client waits. Never: a clock, or who the client is.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from math import ceil, floor

SECOND_MS = 1000
LONGEST_WAIT_MS = (1 << 31) - 1
"""Of a field of 32 bits."""


@dataclass(frozen=True, slots=True)
class QuotaWindows:
    """`quota.window.num` samples of `quota.window.size.seconds`."""

    samples: int
    window_ms: int

    @property
    def span_ms(self) -> int:
        """After this time nothing is left of what was used."""
        return self.samples * self.window_ms

    @property
    def full_ms(self) -> int:
        """The shortest time over which a rate is taken: all windows but the one under way."""
        return (self.samples - 1) * self.window_ms


class QuotaRate:
    """Amounts per second over the last windows.

    Invariant: `_samples` are [start, last use, amount], rising in time. A sample begins with the
    first use after the one before it is complete, so none of them is aligned to a clock.
    """

    __slots__ = ("_samples", "_windows", "over_ms")

    def __init__(self, windows: QuotaWindows) -> None:
        self._windows = windows
        self._samples: deque[list[float]] = deque()
        self.over_ms = 0
        """From then on nothing that was used counts any more."""

    def record(self, amount: float, now_ms: int) -> None:
        """So much more was used; a negative amount takes back what was counted at this time."""
        samples = self._samples
        self.over_ms = now_ms + self._windows.span_ms
        if not samples or now_ms - samples[-1][0] >= self._windows.window_ms:
            samples.append([now_ms, now_ms, amount])
        else:
            newest = samples[-1]
            newest[1] = now_ms
            newest[2] += amount

    def per_second(self, now_ms: int) -> float:
        """The rate over `elapsed_ms`."""
        elapsed_ms = self.elapsed_ms(now_ms)
        return sum(sample[2] for sample in self._samples) * SECOND_MS / elapsed_ms

    def elapsed_ms(self, now_ms: int) -> int:
        """The time since the oldest sample began; the windows that are missing count as past, so
        that a client's first second is not taken for its rate. At least 1."""
        windows, samples = self._windows, self._samples
        while samples and now_ms - samples[0][1] >= windows.span_ms:
            samples.popleft()
        elapsed_ms = now_ms - int(samples[0][0]) if samples else 0
        missing = windows.samples - 1 - elapsed_ms // windows.window_ms
        return max(elapsed_ms + max(missing, 0) * windows.window_ms, 1)

    def wait_ms(self, limit: float, now_ms: int) -> int:
        """How long its client waits until the rate is the limit again; 0 within the limit."""
        rate = self.per_second(now_ms)
        if rate <= limit:
            return 0
        return rounded((rate - limit) / limit * self.elapsed_ms(now_ms))


class TokenBucket:
    """Tokens of a quota that allows bursts (KIP-599): `limit` a second come in, until there are as
    many as come in during all windows. More may be taken than there are: they are owed then."""

    __slots__ = ("_known_ms", "_tokens", "_windows", "over_ms")

    def __init__(self, windows: QuotaWindows) -> None:
        self._windows = windows
        self._tokens: float | None = None
        self._known_ms = 0
        self.over_ms = 0
        """From then on it is full again."""

    def record(self, amount: float, limit: float, now_ms: int) -> None:
        """Take so many tokens."""
        burst = self._burst(limit)
        self._tokens = min(self.tokens(limit, now_ms) - amount, burst)
        self.over_ms = now_ms + ceil((burst - self._tokens) / limit * SECOND_MS)

    def tokens(self, limit: float, now_ms: int) -> float:
        """How many there are now; negative: so many are owed."""
        burst = self._burst(limit)
        if self._tokens is None:
            self._tokens = burst
        else:
            gained = limit * (now_ms - self._known_ms) / SECOND_MS
            self._tokens = min(burst, self._tokens + gained)
        self._known_ms = now_ms
        return self._tokens

    def wait_ms(self, limit: float, now_ms: int) -> int:
        """How long until nothing is owed."""
        return max(rounded(-self.tokens(limit, now_ms) / limit * SECOND_MS), 0)

    def _burst(self, limit: float) -> float:
        return limit * self._windows.span_ms / SECOND_MS


def rounded(milliseconds: float) -> int:
    """As Java's Math.round: halves go up. No more than a response can say."""
    return min(floor(milliseconds + 0.5), LONGEST_WAIT_MS)
