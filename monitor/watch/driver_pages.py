"""Whether the processes that do the stages' work answer where they show their metrics. Pure.

In: what each page answered, and which processes a supervisor speaks for. Out: faults by process.
One driver may do all stages, or each stage has a driver of its own: whichever answers is the one
that is there. Never: a word about a process that its supervisor speaks for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class StageTopics:
    """One stage of the pipeline: the process that does its work and the topics it reads.

    `alone`: what that process is called where it does nothing else; empty: it always does.
    """

    stage: str
    role: str
    topics: tuple[str, ...]
    alone: str = ""

    @property
    def roles(self) -> tuple[str, ...]:
        """Every name that the process may have."""
        return tuple(dict.fromkeys(filter(None, (self.role, self.alone))))


class _PageAnswer(NamedTuple):
    at_ms: int
    fault: str


@dataclass(slots=True)
class DriverPages:
    """Invariant: `_alone` has every role of the stages, with the drivers that may stand for it."""

    stale_ms: int
    _alone: dict[str, list[str]] = field(default_factory=dict)
    _answers: dict[str, _PageAnswer] = field(default_factory=dict)

    @classmethod
    def of(cls, stages: Iterable[StageTopics], stale_ms: int) -> DriverPages:
        """For the processes of these stages."""
        pages = cls(stale_ms)
        for one in stages:
            alone = pages._alone.setdefault(one.role, [])
            alone += [name for name in (one.alone,) if name and name != one.role]
        return pages

    @property
    def names(self) -> set[str]:
        """Every process whose page may be asked."""
        return {*self._alone, *(name for alone in self._alone.values() for name in alone)}

    def answered(self, name: str, fault: str, now_ms: int) -> None:
        """One page; an empty fault is well."""
        self._answers[name] = _PageAnswer(now_ms, fault)

    def faults(self, supervised: Collection[str], now_ms: int) -> dict[str, str]:
        """Of all that can be said something about now."""
        found: dict[str, str] = {}
        for role, alone in self._alone.items():
            if not {role, *alone}.intersection(supervised):
                found |= self._faults_of(role, alone, now_ms)
        return found

    def _faults_of(self, role: str, alone: list[str], now_ms: int) -> dict[str, str]:
        known = {
            name: answer.fault
            for name in (role, *alone)
            if (answer := self._answers.get(name)) and now_ms - answer.at_ms <= self.stale_ms
        }
        if known.get(role) == "":
            return dict.fromkeys((role, *alone), "")
        if "" in known.values():  # each stage has a driver of its own, and one of them lives
            return {**known, role: ""}
        return {role: known[role]} if role in known else known
