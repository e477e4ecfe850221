"""Lines in the log that clients cause: told rarely, with a count of those left out.

In: what is to be said of a client, at any rate. Out: few lines. Never: silence about the first one;
whoever can send a bad frame can send a hundred thousand, and a log that he fills hides all others.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from broker.peer.silence import Silence

log = logging.getLogger("broker.network")

QUIET_S = 60.0
"""After so long without any, the next one is told at once again."""


class Complaints:
    """Each kind of line (its text without its words) has a count of its own.

    Invariant: the kinds are those of the code, never a client's words, so there are few.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._kinds: dict[str, _Kind] = {}

    def inform(self, text: str, *words: object) -> None:
        """Something that clients do."""
        self._tell(logging.INFO, text, words)

    def warn(self, text: str, *words: object) -> None:
        """Something that an operator may have to change."""
        self._tell(logging.WARNING, text, words)

    def failed(self, text: str, *words: object) -> None:
        """The error that is being handled, with its trace."""
        self._tell(logging.ERROR, text, words, trace=True)

    def _tell(
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
    """One text: when it was last to be said, and how often it was not."""

    def __init__(self) -> None:
        self._silence = Silence()
        self._left_out = 0
        self._last_s = 0.0

    def count(self, now_s: float) -> int | None:
        """How many were left out before this one, or None: this one is left out too."""
        if now_s - self._last_s > QUIET_S:
            self._silence.ended(now_s)
        self._last_s = now_s
        if not self._silence.worth_saying(now_s):
            self._left_out += 1
            return None
        left_out, self._left_out = self._left_out, 0
        return left_out
