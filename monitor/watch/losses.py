"""One incident for what retention took from several stages at once, with each named in it. Pure.

In: of each stage, what is gone before its position, and whether that is certain. Out: `Condition`s,
one for all stages that read the same topics. Never: a loss told of a stage that reads: its driver
meets it, and tells it with the number that it alone knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from bus.client.model import TopicAndPartition
from monitor.watch.conditions import Condition
from monitor.watch.driver_pages import StageTopics

LOST_MS = 10_000
"""A driver that was started meanwhile tells what it met by itself, within seconds."""


@dataclass(frozen=True, slots=True)
class StageLoss:
    """`is_certain` None: the stage may just be reading, and tell it by itself."""

    is_certain: bool | None
    records: Mapping[TopicAndPartition, int] = field(default_factory=dict)


class LossJudge:
    """Invariant: `_subjects` has every stage, under the name of all that share topics with it."""

    def __init__(self, stages: Iterable[StageTopics]) -> None:
        groups: list[tuple[set[str], set[str]]] = []
        for one in stages:
            names, topics = {one.stage}, set(one.topics)
            for group in [each for each in groups if each[1] & topics]:
                groups.remove(group)
                names |= group[0]
                topics |= group[1]
            groups.append((names, topics))
        self._subjects = {name: "+".join(sorted(names)) for names, _ in groups for name in names}
        self._losses: dict[str, StageLoss] = {}

    def observe(self, stage: str, loss: StageLoss) -> Condition:
        """The condition of the stage and of those that read the same."""
        self._losses[stage] = loss
        subject = self._subjects.get(stage, stage)
        members = [name for name in self._subjects if self._subjects[name] == subject] or [stage]
        known = {name: self._losses[name] for name in members if name in self._losses}
        certain = {name: one for name, one in known.items() if one.is_certain}
        is_bad: bool | None = bool(certain)
        if not certain and any(one.is_certain is None for one in known.values()):
            is_bad = None
        return Condition("lost", subject, is_bad, LOST_MS, _detail(subject, certain))


def _detail(subject: str, losses: Mapping[str, StageLoss]) -> dict[str, str]:
    """How many records are gone, and how many of them each stage had not read."""
    places = {place for one in losses.values() for place in one.records}
    lost = {p: max(one.records.get(p, 0) for one in losses.values()) for p in places}
    counts = {name: sum(one.records.values()) for name, one in losses.items()}
    return {
        "stage": subject,
        "lost": str(sum(lost.values())),
        "topics": " ".join(sorted({topic for topic, _ in places})),
        "applications": ", ".join(f"{name} {count}" for name, count in sorted(counts.items())),
    }
