"""Rules 1-4, 7, 9 and 12: records are where they were promised, once, ordered, on all replicas.

In: an `Index`. Out: violations. Never: a rule about transactions or groups.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator

from tests.checker.history import Poll, ReplicaStateEvent, SendEvent
from tests.checker.index import Index, Violation, Where


def inconsistent_offsets(index: Index) -> Iterator[Violation]:
    """Rule 1: over all observers there is one value at an offset."""
    for (topic, partition), offsets in index.seen.items():
        for offset, values in sorted(offsets.items()):
            if len(values) > 1:
                told = ", ".join(f"{value!r} by {who}" for value, who in sorted(values.items()))
                yield Violation(
                    1, "inconsistent offsets", f"{topic}-{partition} at {offset}: {told}"
                )


def duplicates(index: Index) -> Iterator[Violation]:
    """Rule 2: a value of an idempotent producer is at one offset only."""
    places: dict[str, set[tuple[str, int, int]]] = defaultdict(set)
    for (topic, partition), offsets in index.seen.items():
        for offset, values in offsets.items():
            for value in values:
                places[value].add((topic, partition, offset))
    for value in sorted(places):
        send = index.by_value.get(value)
        if send is not None and send.idempotent and len(places[value]) > 1:
            yield Violation(2, "duplicate", f"{value!r} is at {sorted(places[value])}")


def _acknowledged(index: Index) -> Iterator[tuple[SendEvent, int]]:
    """Sends that all in-sync replicas have acknowledged, of committed or no transaction; with
    their offset, -1 where it is not known."""
    for op in sorted(index.acks):
        send = index.sends.get(op)
        if send is None or send.acks != -1:
            continue
        if send.transaction and index.outcome(send.transaction) != "committed":
            continue
        yield send, index.acks[op].offset


def lost_writes(index: Index) -> Iterator[Violation]:
    """Rule 3: what was acknowledged at or below the highest polled offset was polled by a reader
    that began at the log's beginning."""
    highest, values = _readers_from_beginning(index, after_ms=None)
    for send, offset in _acknowledged(index):
        where = send.topic, send.partition
        if offset < 0 or offset > highest.get(where, -1) or offset < index.deleted.get(where, 0):
            continue
        if send.value not in values[where]:
            yield Violation(
                3, "lost write",
                f"{send.value!r} was acknowledged at {offset} of {send.topic}-{send.partition} and "
                f"is not there, though it was read up to {highest[where]}",
            )  # fmt: skip


def unseen_writes(index: Index) -> Iterator[Violation]:
    """Rule 4: after healing all acknowledged values are seen."""
    if index.healed_ms is None:
        return
    _, values = _readers_from_beginning(index, after_ms=index.healed_ms)
    for send, offset in _acknowledged(index):
        where = send.topic, send.partition
        deleted = index.deleted.get(where, 0)
        if where not in values and deleted:
            continue
        known = send.value in values[where]
        if not known and not (deleted and offset < deleted):
            yield Violation(
                4, "unseen",
                f"{send.value!r} was acknowledged (offset {offset}) on {send.topic}-"
                f"{send.partition} and it was not seen after healing",
            )  # fmt: skip


def _readers_from_beginning(
    index: Index, after_ms: int | None
) -> tuple[dict[Where, int], dict[Where, set[str]]]:
    """Per partition the highest offset and all values such readers polled.

    An assignment counts only if its first poll was at the beginning; one that began before
    `after_ms` does not count when that is given.
    """
    first: dict[str, int] = {}
    highest: dict[Where, int] = {}
    values: dict[Where, set[str]] = defaultdict(set)
    for poll in index.polls:
        begun = first.setdefault(poll.assignment, poll.at_ms)
        if not poll.from_beginning or (after_ms is not None and begun < after_ms):
            continue
        where = poll.topic, poll.partition
        highest[where] = max(highest.get(where, -1), poll.next - 1)
        values[where].update(value for _, value in poll.records)
    return highest, values


def poll_order(index: Index) -> Iterator[Violation]:
    """Rule 7: within an assignment offsets rise, and skip nothing that is there."""
    position: dict[tuple[str, str, int], int] = {}
    for poll in index.polls:
        key = poll.assignment, poll.topic, poll.partition
        yield from _rising(poll, position.get(key))
        yield from _skipped(index, poll)
        position[key] = poll.next


def _rising(poll: Poll, expected: int | None) -> Iterator[Violation]:
    where = f"{poll.consumer} in {poll.assignment} on {poll.topic}-{poll.partition}"
    offsets = [offset for offset, _ in poll.records]
    if any(b <= a for a, b in itertools.pairwise(offsets)):
        yield Violation(7, "non-monotonic poll", f"{where} polled {offsets}")
    if offsets and (offsets[0] < poll.position or offsets[-1] >= poll.next):
        yield Violation(
            7, "non-monotonic poll",
            f"{where} asked from {poll.position} to {poll.next} and got {offsets}",
        )  # fmt: skip
    if expected is not None and poll.position != expected:
        name = "poll skip" if poll.position > expected else "non-monotonic poll"
        yield Violation(7, name, f"{where} went from {expected} to {poll.position}")


def _skipped(index: Index, poll: Poll) -> Iterator[Violation]:
    """An offset between the requested and the next position for which others have seen a value."""
    if poll.next - poll.position == len(poll.records):
        return
    seen = index.seen[poll.topic, poll.partition]
    got = {offset for offset, _ in poll.records}
    for offset in range(poll.position, poll.next):
        if offset in got or offset not in seen:
            continue
        if offset < index.deleted.get((poll.topic, poll.partition), 0):
            continue
        if poll.read_committed and not _is_committed(index, seen[offset]):
            continue
        yield Violation(
            7, "poll skip",
            f"{poll.consumer} in {poll.assignment} did not get {sorted(seen[offset])} at {offset} "
            f"of {poll.topic}-{poll.partition}",
        )  # fmt: skip


def _is_committed(index: Index, values: dict[str, str]) -> bool:
    sends = [index.by_value[value] for value in values if value in index.by_value]
    return all(
        not send.transaction or index.outcome(send.transaction) == "committed" for send in sends
    )


def send_order(index: Index) -> Iterator[Violation]:
    """Rule 9: acknowledged sends of one producer to one partition keep their order."""
    last: dict[tuple[str, str, int], tuple[int, str]] = {}
    for op in sorted(index.sends):
        send = index.sends[op]
        ack = index.acks.get(op)
        if not send.ordered or send.acks != -1 or ack is None or ack.offset < 0:
            continue
        key = send.producer, send.topic, send.partition
        before = last.get(key)
        if before is not None and ack.offset <= before[0]:
            yield Violation(
                9, "non-monotonic send",
                f"{send.producer} sent {before[1]!r} (at {before[0]}) before {send.value!r} "
                f"(at {ack.offset}) of {send.topic}-{send.partition}",
            )  # fmt: skip
        last[key] = ack.offset, send.value


def replicas_agree(index: Index) -> Iterator[Violation]:
    """Rule 12: the same bytes at the same offsets up to the watermark; epochs do not fall."""
    by_partition: dict[Where, list[ReplicaStateEvent]] = defaultdict(list)
    for state in index.replicas:
        by_partition[state.topic, state.partition].append(state)
        epochs = [batch[2] for batch in state.batches]
        if any(b < a for a, b in itertools.pairwise(epochs)):
            yield Violation(
                12, "falling epochs",
                f"broker {state.broker}, {state.topic}-{state.partition}: {epochs}",
            )  # fmt: skip
    for (topic, partition), states in by_partition.items():
        first = states[0]
        for other in states[1:]:
            yield from _differing(f"{topic}-{partition}", first, other)


def _differing(where: str, one: ReplicaStateEvent, two: ReplicaStateEvent) -> Iterator[Violation]:
    start = max(one.log_start, two.log_start)
    end = min(one.high_watermark, two.high_watermark)
    if start >= end:
        return
    left, right = (
        [batch for batch in state.batches if batch[1] >= start and batch[0] < end]
        for state in (one, two)
    )
    if left == right:
        return
    differ = [pair for pair in zip(left, right, strict=False) if pair[0] != pair[1]]
    told = f"{differ[0][0]} and {differ[0][1]}" if differ else f"{len(left)} and {len(right)} batches"
    yield Violation(
        12, "replicas differ",
        f"{where} on brokers {one.broker} and {two.broker} in {start}..{end}: {told}",
    )  # fmt: skip
