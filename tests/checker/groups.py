"""Rule 11: committed offsets of a group do not go back, and never past what was polled.

In: an `Index`. Out: violations. Never: how a group shares its partitions.

An unanswered commit may take effect at any later time, so what the coordinator says is compared
with the commits that were acknowledged before it was asked and those attempted at all.

A group goes back where somebody sets its offset (`Reset`), or by a commit of its own after a member
was out of range (`OutOfRange`): not below where the log began then, and once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.checker.history import Commit, CommittedEvent, OutOfRange, Poll, Reset
from tests.checker.index import Index, Violation

Key = tuple[str, str, int]
NAME = "committed offsets"


@dataclass(slots=True)
class GroupPosition:
    """A group in one partition. `sure`: acknowledged commits, as (time, offset); nothing below the
    largest is reported later. `may_begin_at`: where a member went on that was out of range, until
    the group has gone back, or is beyond what it had. `going_back`: commits that do, by `op`, and
    the offsets that they put an end to."""

    polled: int = 0
    attempted: set[int] = field(default_factory=set)
    answered: set[int] = field(default_factory=set)
    sure: list[tuple[int, int]] = field(default_factory=list)
    may_begin_at: int | None = None
    going_back: dict[int, set[int]] = field(default_factory=dict)

    def on_reset(self, event: Reset) -> None:
        """Set by hand: whatever was before does not count."""
        self.sure = [(event.at_ms, event.offset)]
        self.attempted.add(event.offset)
        self.polled = max(self.polled, event.offset)

    def on_out_of_range(self, event: OutOfRange) -> None:
        """A member goes on where the log begins."""
        self.polled = max(self.polled, event.start)
        if any(offset > event.start for offset in self.attempted):
            self.may_begin_at = event.start

    def on_asked(self, event: Commit) -> None:
        """A commit may take effect from now on."""
        newest = max((offset for _, offset in self.sure), default=-1)
        begins = self.may_begin_at
        if begins is not None and begins <= event.offset < newest:
            self.going_back[event.op] = self.answered - {event.offset}
            self.sure = [(at_ms, min(offset, event.offset)) for at_ms, offset in self.sure]
        self.attempted.add(event.offset)

    def on_answered(self, event: Commit) -> None:
        """It has taken effect, or was refused."""
        self.answered.add(event.offset)
        ended = self.going_back.pop(event.op, None)
        if event.outcome != "ok":
            return
        newest = max((offset for _, offset in self.sure), default=-1)
        if ended is not None:
            self.attempted -= ended
            self.answered -= ended
        if ended is not None or event.offset > newest:
            self.may_begin_at = None
        self.sure.append((event.at_ms, event.offset))


def committed_offsets(index: Index) -> Iterator[Violation]:
    """Rule 11."""
    groups: dict[Key, GroupPosition] = defaultdict(GroupPosition)
    for event in index.events:
        match event:
            case Poll():
                group = groups[event.group, event.topic, event.partition]
                group.polled = max(group.polled, event.next)
            case Reset():
                groups[event.group, event.topic, event.partition].on_reset(event)
            case OutOfRange():
                groups[event.group, event.topic, event.partition].on_out_of_range(event)
            case Commit():
                yield from _commit(event, groups[event.group, event.topic, event.partition])
            case CommittedEvent():
                yield from _committed(event, groups[event.group, event.topic, event.partition])


def _commit(event: Commit, group: GroupPosition) -> Iterator[Violation]:
    if event.outcome != "asked":
        group.on_answered(event)
        return
    group.on_asked(event)
    if event.offset > group.polled:
        yield Violation(
            11, NAME,
            f"{event.group} commits {event.offset} of {event.topic}-{event.partition}, polled "
            f"was up to {group.polled}",
        )  # fmt: skip


def _committed(event: CommittedEvent, group: GroupPosition) -> Iterator[Violation]:
    where = f"{event.group} on {event.topic}-{event.partition}"
    before = [offset for at_ms, offset in group.sure if at_ms < event.asked_ms]
    if before and event.offset < max(before):
        yield Violation(
            11, NAME, f"{where}: {max(before)} was committed, later {event.offset} is reported"
        )
    if event.offset >= 0 and event.offset not in group.attempted:
        yield Violation(11, NAME, f"{where}: {event.offset} is reported, which was never committed")
