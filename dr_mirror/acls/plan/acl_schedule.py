"""When ACLs are compared: once a minute, and soon after another topic begins to be copied. Pure.

In: the topics that are copied, the time, every `POLL_S`. Out: whether to compare now. Never: two
comparisons within one look, however many topics come.
"""

from __future__ import annotations

from collections.abc import Collection, Set

POLL_S = 2.0
"""So late at most a topic's ACLs are compared after it begins to be copied."""
EVERY_S = 60.0
"""An ACL that is made later is found within this time."""


class AclSchedule:
    """Invariant: `_covered` are the topics of the last comparison, which began at `_at_s`."""

    def __init__(self) -> None:
        self._covered: Set[str] = frozenset()
        self._at_s: float | None = None

    def is_due(self, copied: Collection[str], now_s: float) -> bool:
        """Whether the last comparison is old, or one of these topics was not in it."""
        if self._at_s is None or now_s - self._at_s >= EVERY_S:
            return True
        return not self._covered >= frozenset(copied)

    def begin(self, copied: Collection[str], now_s: float) -> None:
        """A comparison of these topics begins. One that fails counts: the next minute tries it."""
        self._covered, self._at_s = frozenset(copied), now_s
