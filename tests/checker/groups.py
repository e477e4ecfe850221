"""Rule 11: committed offsets of a group do not go back, and never past what was polled.

In: an `Index`. Out: violations. Never: how a group shares its partitions.

An unanswered commit may take effect at any later time, so what the coordinator says is compared
with the commits that were acknowledged before it was asked and those attempted at all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tests.checker.history import Commit, CommittedEvent, Poll, Reset
from tests.checker.index import Index, Violation

Key = tuple[str, str, int]
NAME = "committed offsets"


def committed_offsets(index: Index) -> Iterator[Violation]:
    """Rule 11."""
    polled: dict[Key, int] = defaultdict(int)
    attempted: dict[Key, set[int]] = defaultdict(set)
    sure: dict[Key, list[tuple[int, int]]] = defaultdict(list)
    for event in index.events:
        match event:
            case Poll():
                key = event.group, event.topic, event.partition
                polled[key] = max(polled[key], event.next)
            case Reset():
                key = event.group, event.topic, event.partition
                sure[key] = [(event.at_ms, event.offset)]
                attempted[key].add(event.offset)
                polled[key] = max(polled[key], event.offset)
            case Commit():
                yield from _commit(event, polled, attempted, sure)
            case CommittedEvent():
                yield from _committed(event, attempted, sure)


def _commit(
    event: Commit,
    polled: dict[Key, int],
    attempted: dict[Key, set[int]],
    sure: dict[Key, list[tuple[int, int]]],
) -> Iterator[Violation]:
    key = event.group, event.topic, event.partition
    if event.outcome == "asked":
        attempted[key].add(event.offset)
        if event.offset > polled[key]:
            yield Violation(
                11, NAME,
                f"{event.group} commits {event.offset} of {event.topic}-{event.partition}, polled "
                f"was up to {polled[key]}",
            )  # fmt: skip
    elif event.outcome == "ok":
        sure[key].append((event.at_ms, event.offset))


def _committed(
    event: CommittedEvent,
    attempted: dict[Key, set[int]],
    sure: dict[Key, list[tuple[int, int]]],
) -> Iterator[Violation]:
    key = event.group, event.topic, event.partition
    where = f"{event.group} on {event.topic}-{event.partition}"
    before = [offset for at_ms, offset in sure[key] if at_ms < event.asked_ms]
    if before and event.offset < max(before):
        yield Violation(
            11, NAME, f"{where}: {max(before)} was committed, later {event.offset} is reported"
        )
    if event.offset >= 0 and event.offset not in attempted[key]:
        yield Violation(11, NAME, f"{where}: {event.offset} is reported, which was never committed")
