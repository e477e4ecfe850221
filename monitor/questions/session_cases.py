"""What a person works on: reason and case, said once and kept as long as his session is used.

In memory: who logs in again is asked again. Invariant: at most `MAX_SESSIONS`, the least lately
used goes first. One thread (the console's loop).
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

MAX_SESSIONS = 10_000


class SessionCase(NamedTuple):
    """Empty before anything was said."""

    reason: str = ""
    case: str = ""


class SessionCases:
    """By the hash of the session's id."""

    def __init__(self) -> None:
        self._cases: OrderedDict[str, SessionCase] = OrderedDict()

    def get(self, session: str) -> SessionCase:
        """Of a request without a session none."""
        found = self._cases.get(session, SessionCase())
        if session in self._cases:
            self._cases.move_to_end(session)
        return found

    def set(self, session: str, case: SessionCase) -> None:
        """From now on; both empty ends it."""
        if not session:
            return
        self._cases[session] = case
        self._cases.move_to_end(session)
        if case == SessionCase():
            del self._cases[session]
        while len(self._cases) > MAX_SESSIONS:
            self._cases.popitem(last=False)
