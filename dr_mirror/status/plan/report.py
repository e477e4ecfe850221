"""The mirror as its page `/status` shows it to consoles: status, remedies, the last hour. Pure.

In: statuses, one a second. Out: `MirrorReport`. Never: a text that only one language has; a console
needs nothing of this package to show it.
"""

from __future__ import annotations

from collections import deque

from bus.contracts.mirror_status import LagPoint, MirrorReport, MirrorStatus, StateRemedy
from dr_mirror.topics.states import MirrorState, state_named

POINT_MS = 10_000
POINTS = 360
"""An hour."""


class LagCurve:
    """Invariant: at most `POINTS` points, the newest hour, `POINT_MS` apart or more."""

    def __init__(self) -> None:
        self._points: deque[LagPoint] = deque(maxlen=POINTS)

    def add(self, status: MirrorStatus) -> None:
        """The newest status; one that comes too soon is left out."""
        if self._points and status.at_ms - self._points[-1].at_ms < POINT_MS:
            return
        lags = [one.lag_records for one in status.partitions]
        self._points.append(
            LagPoint(
                status.at_ms,
                -1 if any(lag < 0 for lag in lags) else sum(lags),
                sum(one.lag_bytes for one in status.partitions),
                status.rpo_s,
            )
        )

    def report(self, status: MirrorStatus) -> MirrorReport:
        """The status with its remedies and the hour before it."""
        remedies = [_remedy(state) for state in states_of(status) if state.text.remedy_en]
        return MirrorReport(status=status, states=tuple(remedies), curve=tuple(self._points))


def states_of(status: MirrorStatus) -> list[MirrorState]:
    """Every state that a topic, a partition or the proof is in, by its word."""
    words = {one.state for one in status.topics} | {one.state for one in status.partitions}
    if status.proof.differences:
        words.add(MirrorState.DIFFERS.value)
    return [state_named(word) for word in sorted(words)]


def _remedy(state: MirrorState) -> StateRemedy:
    text = state.text
    return StateRemedy(
        state=state.value,
        meaning_en=text.meaning_en,
        meaning_zh=text.meaning_zh,
        remedy_en=text.remedy_en,
        remedy_zh=text.remedy_zh,
    )
