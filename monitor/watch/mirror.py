"""Topics, replicas and pictures at the second site that are not what the first one has, as the
mirror's page tells. Pure.

In: what the mirror says. Out: a `Condition` for each replica of a partition, for each topic of
which both sites hold another log, one for pictures.
Never: a word while the mirror does not answer; that it is away is another condition.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from bus.contracts.mirror_status import MirrorReport, PictureStatus, ReplicaDifference
from monitor.watch.conditions import Condition

PICTURES = "pictures"
ANOTHER_LOG = {
    "recreated_at_source": "the topic was deleted and created again at the source",
    "source_truncated": "the source ends before the target",
    "target_truncated": "the target ends before what it had acknowledged",
    "diverged": "the last batch of the target is not the source's",
}
"""States of the mirror in which it copies nothing, until somebody decides which log counts."""
MAX_KNOWN = 200
MAX_RANGES = 10
"""Told of one replica by offsets; the others are counted."""


@dataclass(slots=True)
class MirrorJudge:
    """Invariant: `_known` are the subjects that differed, the latest last, `MAX_KNOWN` at most."""

    _known: dict[str, None] = field(default_factory=dict)

    def observe(self, found: MirrorReport | None) -> list[Condition]:
        """A condition for each topic and replica that differs, and for each that did; pictures are
        one."""
        if found is None:
            return []
        replicas: dict[str, list[ReplicaDifference]] = {}
        for one in found.status.proof.differences:
            subject = f"{one.topic}-{one.partition} broker {one.broker}"
            replicas.setdefault(subject, []).append(one)
        named = _topics_with_another_log(found)
        named |= {name: _detail(all_) for name, all_ in replicas.items()}
        named = dict(list(named.items())[:MAX_KNOWN])
        pictures = found.status.pictures
        if pictures.differing or pictures.other:
            named[PICTURES] = _pictures_detail(pictures)
        ended = [name for name in self._known if name not in named]
        self._known = dict.fromkeys([*ended, *named][-MAX_KNOWN:])
        return [
            *(Condition("differs", name, True, 0, detail) for name, detail in named.items()),
            *(Condition("differs", name, False, 0) for name in ended),
        ]


def _topics_with_another_log(found: MirrorReport) -> dict[str, dict[str, str]]:
    """With why, and the command that goes on."""
    status = found.status
    states = [(one.topic, one.state, one.detail) for one in status.topics]
    states += [(one.topic, one.state, one.detail) for one in status.partitions]
    named: dict[str, dict[str, str]] = {}
    for topic, state, detail in states:
        if state in ANOTHER_LOG:
            why = ": ".join(filter(None, (ANOTHER_LOG[state], detail)))
            remedy = f"databus mirror copy-anew {topic}"
            named.setdefault(topic, {"why": why, "remedy": remedy})
    return named


def _detail(found: list[ReplicaDifference]) -> dict[str, str]:
    ranges = [f"{one.first_offset}-{one.end_offset - 1}" for one in found[:MAX_RANGES]]
    more = [f"+{len(found) - MAX_RANGES}"] if len(found) > MAX_RANGES else []
    return {
        "directory": found[0].directory,
        "offsets": ", ".join([*ranges, *more]),
        "why": found[0].detail,
    }


def _pictures_detail(found: PictureStatus) -> dict[str, str]:
    names = [*found.differing, *found.other][:MAX_RANGES]
    why = "altered since they were copied" if found.differing else "another picture was there"
    return {"names": ", ".join(names), "why": why}
