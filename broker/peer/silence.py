"""How often it is worth saying that somebody does not answer.

In: the moments at which nothing came (monotonic seconds). Out: whether to say so now. Never: a
line; what to say is the caller's.

Whoever asks again every second for an hour does not write a line every second for an hour: the
first silence is told at once, a lasting one after FIRST_S, then at doubled distances up to MOST_S.
"""

from __future__ import annotations

FIRST_S = 5.0
MOST_S = 600.0
"""An hour of silence is told a dozen times: often enough for whoever looks into the log's end."""


class Silence:
    """Invariant: `_since` is when it began, None while there is an answer."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._pause_s = FIRST_S
        self._next_s = 0.0

    def worth_saying(self, now_s: float) -> bool:
        """No answer again: whether this one is told."""
        if self._since is None:
            self._since, self._pause_s, self._next_s = now_s, FIRST_S, now_s
        if now_s < self._next_s:
            return False
        self._next_s = now_s + self._pause_s
        self._pause_s = min(2 * self._pause_s, MOST_S)
        return True

    def ended(self, now_s: float) -> float:
        """An answer has come: how long there was none, 0 if there was no silence."""
        since, self._since = self._since, None
        return 0.0 if since is None else now_s - since
