"""Rate limiter for warnings about unreachable peers.

In: the moments at which nothing came (monotonic seconds). Out: whether to say so now. Never: a
line; what to say is the caller's.

A caller that retries every second for an hour must not log every second for an hour: the first
failure is logged at once, a lasting one after FIRST_PAUSE_S, then at doubled intervals up to
MAX_PAUSE_S.
"""

from __future__ import annotations

FIRST_PAUSE_S = 5.0
MAX_PAUSE_S = 600.0
"""An hour of silence gives a dozen lines: enough for a reader of the log's end."""


class LogRateLimiter:
    """Invariant: `_since` is when the silence began, None while there is an answer."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._pause_s = FIRST_PAUSE_S
        self._next_s = 0.0

    def should_log(self, now_s: float) -> bool:
        """Called when there was no answer; whether to log this one."""
        if self._since is None:
            self._since, self._pause_s, self._next_s = now_s, FIRST_PAUSE_S, now_s
        if now_s < self._next_s:
            return False
        self._next_s = now_s + self._pause_s
        self._pause_s = min(2 * self._pause_s, MAX_PAUSE_S)
        return True

    def ended(self, now_s: float) -> float:
        """An answer has come: how long there was none, 0 if there was no silence."""
        since, self._since = self._since, None
        return 0.0 if since is None else now_s - since
