"""A fault that opens once and closes once: hysteresis over a series of good and bad slots.

In: one level per subject and slot (`Observation`), in the order of slots. Out: `IncidentChange`s.
Never: a clock, I/O, a message per bad slot (L-3: once per incident with its end).

States and transitions (`bad` = at or above `open_level`, `good` = below `close_level`):

    quiet  --open_slots bad in a row-->  open   (Change opened)
    open   --close_slots good in a row-> quiet  (Change closed)

A level between the two bounds breaks neither state: it ends a run of bad slots when quiet and a run
of good slots when open.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Subject = TypeVar("Subject", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Hysteresis:
    """When an incident opens and closes; `open_level` >= `close_level`."""

    open_level: float
    close_level: float
    open_slots: int
    close_slots: int


@dataclass(frozen=True, slots=True)
class IncidentChange(Generic[Subject]):
    """An incident opened or closed. `opened_at_ms` is its first bad slot and names it."""

    subject: Subject
    opened: bool
    opened_at_ms: int
    at_ms: int
    level: float


@dataclass(slots=True)
class _Run:
    """Invariant: `opened_at_ms` > 0 exactly while open; `length` counts slots towards the next
    change.
    """

    opened_at_ms: int = 0
    length: int = 0
    began_at_ms: int = 0
    last_slot_ms: int = 0


@dataclass(slots=True)
class HysteresisTracker(Generic[Subject]):
    """All subjects of one kind of incident. Slots already seen are ignored, so that replays
    change nothing.
    """

    rule: Hysteresis
    runs: dict[Subject, _Run] = field(default_factory=dict)

    def observe(
        self, subject: Subject, slot_ms: int, level: float
    ) -> IncidentChange[Subject] | None:
        """Take the level of one subject in one slot; slots of a subject come in rising order."""
        run = self.runs.setdefault(subject, _Run())
        if slot_ms <= run.last_slot_ms:
            return None
        run.last_slot_ms = slot_ms
        if run.opened_at_ms:
            return self._while_open(subject, run, slot_ms, level)
        return self._while_quiet(subject, run, slot_ms, level)

    def resume(self, subject: Subject, opened_at_ms: int) -> None:
        """Resume an incident that an earlier process opened and that is still open."""
        self.runs[subject] = _Run(opened_at_ms=opened_at_ms)

    def open_subjects(self) -> list[Subject]:
        """Who has an open incident."""
        return [subject for subject, run in self.runs.items() if run.opened_at_ms]

    def forget_before(self, slot_ms: int) -> None:
        """Drop quiet subjects not heard of since; open ones stay until they close."""
        old = [s for s, r in self.runs.items() if not r.opened_at_ms and r.last_slot_ms < slot_ms]
        for subject in old:
            del self.runs[subject]

    def _while_quiet(
        self, subject: Subject, run: _Run, slot_ms: int, level: float
    ) -> IncidentChange[Subject] | None:
        if level < self.rule.open_level:
            run.length = 0
            return None
        if run.length == 0:
            run.began_at_ms = slot_ms
        run.length += 1
        if run.length < self.rule.open_slots:
            return None
        run.opened_at_ms, run.length = run.began_at_ms, 0
        return IncidentChange(subject, True, run.opened_at_ms, slot_ms, level)

    def _while_open(
        self, subject: Subject, run: _Run, slot_ms: int, level: float
    ) -> IncidentChange[Subject] | None:
        run.length = run.length + 1 if level < self.rule.close_level else 0
        if run.length < self.rule.close_slots:
            return None
        opened_at_ms = run.opened_at_ms
        run.opened_at_ms, run.length = 0, 0
        return IncidentChange(subject, False, opened_at_ms, slot_ms, level)
