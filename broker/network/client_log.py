"""Rate-limited logging of what clients cause, with a count of the suppressed lines.

The first line of a kind always appears. A client that can send one bad frame can send a hundred
thousand, and a log filled by it would hide all other lines.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from broker.peer.log_limiter import LogRateLimiter

log = logging.getLogger("broker.network")

QUIET_S = 60.0
"""After this time without a line, the next one is logged at once again."""


class ClientLog:
    """Each kind of line (its format string) has its own count.

    Invariant: the format strings are those of the code, never a client's text, so there are few.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._kinds: dict[str, _Kind] = {}

    def info(self, text: str, *words: object) -> None:
        """Log what a client does."""
        self._log(logging.INFO, text, words)

    def warning(self, text: str, *words: object) -> None:
        """Log what an operator may have to change."""
        self._log(logging.WARNING, text, words)

    def exception(self, text: str, *words: object) -> None:
        """Log the current exception, with its trace."""
        self._log(logging.ERROR, text, words, trace=True)

    def _log(
        self, level: int, text: str, words: tuple[object, ...], *, trace: bool = False
    ) -> None:
        kind = self._kinds.setdefault(text, _Kind())
        left_out = kind.count(self._monotonic())
        if left_out is None:
            return
        if left_out:
            log.log(level, text + " (and %d more since the last such line)", *words, left_out,
                    exc_info=trace)  # fmt: skip
        else:
            log.log(level, text, *words, exc_info=trace)


class _Kind:
    """One format string: when it last came, and how many lines were suppressed."""

    def __init__(self) -> None:
        self._limiter = LogRateLimiter()
        self._suppressed = 0
        self._last_s = 0.0

    def count(self, now_s: float) -> int | None:
        """How many lines were suppressed before this one, or None: this one is suppressed too."""
        if now_s - self._last_s > QUIET_S:
            self._limiter.ended(now_s)
        self._last_s = now_s
        if not self._limiter.should_log(now_s):
            self._suppressed += 1
            return None
        left_out, self._suppressed = self._suppressed, 0
        return left_out
