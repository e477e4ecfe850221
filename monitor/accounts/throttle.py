"""The limit on failed log-ins, per account and address, and per address alone (pure; time comes
in).

In: keys and times. Out: how long the door stays shut. Never: passwords.
"""

from __future__ import annotations

from collections import OrderedDict, deque

MAX_KEYS = 10_000  # forgets the oldest; an attacker with more addresses meets scrypt's cost instead


class FailedLogins:
    """Invariant: a key's deque holds at most `limit` times, ascending."""

    def __init__(self, limit: int, window_ms: int) -> None:
        self._limit = limit
        self._window_ms = window_ms
        self._failures: OrderedDict[str, deque[int]] = OrderedDict()

    def wait_ms(self, key: str, now_ms: int) -> int:
        """0 when the key may try; else the time until it may."""
        times = self._failures.get(key)
        if times is None or len(times) < self._limit:
            return 0
        return max(0, times[0] + self._window_ms - now_ms)

    def failed(self, key: str, now_ms: int) -> None:
        """Count one failure."""
        times = self._failures.setdefault(key, deque(maxlen=self._limit))
        while times and times[0] + self._window_ms <= now_ms:
            times.popleft()
        times.append(now_ms)
        self._failures.move_to_end(key)
        while len(self._failures) > MAX_KEYS:
            self._failures.popitem(last=False)

    def succeeded(self, key: str) -> None:
        """Forget the failures of a key that has shown the password."""
        self._failures.pop(key, None)
