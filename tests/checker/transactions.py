"""Rules 5, 6, 8 and 10: what readers of committed records may see of transactions.

In: an `Index`. Out: violations. Never: rules about single records.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator

from tests.checker.history import Poll
from tests.checker.index import Index, Violation

Edges = dict[str, dict[str, str]]


def aborted_reads(index: Index) -> Iterator[Violation]:
    """Rule 5 (G1a): no value of an aborted transaction is seen by a reader of committed ones."""
    for poll, offset, value, transaction in _transactional_reads(index):
        if index.outcome(transaction) == "aborted":
            yield Violation(
                5, "aborted read (G1a)",
                f"{poll.consumer} saw {value!r} at {offset}; {transaction} was aborted",
            )  # fmt: skip


def precommitted_reads(index: Index) -> Iterator[Violation]:
    """Rule 6: none is seen before its transaction was asked to commit."""
    for poll, offset, value, transaction in _transactional_reads(index):
        asked = [
            event for event in index.transactions[transaction]
            if event.state in ("committing", "committed")
        ]  # fmt: skip
        if not asked or index.place[id(asked[0])] > index.place[id(poll)]:
            yield Violation(
                6, "precommitted read",
                f"{poll.consumer} saw {value!r} at {offset} before {transaction} was committed",
            )  # fmt: skip


def _transactional_reads(index: Index) -> Iterator[tuple[Poll, int, str, str]]:
    for poll in index.polls:
        if not poll.read_committed:
            continue
        for offset, value in poll.records:
            send = index.by_value.get(value)
            if send is not None and send.transaction:
                yield poll, offset, value, send.transaction


def order_within_transactions(index: Index) -> Iterator[Violation]:
    """Rule 8: within one transaction polls rise without a gap and sends keep their order."""
    position: dict[tuple[str, str, int], int] = {}
    for poll in index.polls:
        if poll.transaction:
            key = poll.transaction, poll.topic, poll.partition
            expected = position.get(key, poll.position)
            if poll.position != expected:
                yield Violation(
                    8, "order within a transaction",
                    f"{poll.consumer} in {poll.transaction} went from {expected} to "
                    f"{poll.position} of {poll.topic}-{poll.partition}",
                )  # fmt: skip
            position[key] = poll.next
    last: dict[tuple[str, str, int], int] = {}
    for op in sorted(index.sends):
        send, ack = index.sends[op], index.acks.get(op)
        if send.transaction and ack is not None and ack.offset >= 0:
            key = send.transaction, send.topic, send.partition
            if ack.offset <= last.get(key, -1):
                yield Violation(
                    8, "order within a transaction",
                    f"{send.value!r} at {ack.offset} came after {last[key]} in {send.transaction}",
                )  # fmt: skip
            last[key] = ack.offset


def cycles(index: Index) -> Iterator[Violation]:
    """Rule 10 (G1c): no cycle with a read in it over writes-read and writes-write edges."""
    edges = _edges(index)
    for source in sorted(edges):
        for target, kind in sorted(edges[source].items()):
            if kind == "wr" and (path := _path(edges, target, source)):
                yield Violation(10, "cycle (G1c)", " -> ".join([source, *path]))
                return


def _edges(index: Index) -> Edges:
    edges: Edges = defaultdict(dict)
    writes: dict[tuple[str, int], list[tuple[int, str]]] = defaultdict(list)
    for op, ack in index.acks.items():
        send = index.sends.get(op)
        if send is not None and ack.offset >= 0 and _committed(index, send.transaction):
            writes[send.topic, send.partition].append((ack.offset, send.transaction))
    for ordered in writes.values():
        ordered.sort()
        for (_, one), (_, two) in itertools.pairwise(ordered):
            if one != two:
                edges[one].setdefault(two, "ww")
    for poll in index.polls:
        if not poll.read_committed or not _committed(index, poll.transaction):
            continue
        for _, value in poll.records:
            send = index.by_value.get(value)
            written = send.transaction if send is not None else ""
            if written != poll.transaction and _committed(index, written):
                edges[written][poll.transaction] = "wr"
    return edges


def _committed(index: Index, transaction: str) -> bool:
    return bool(transaction) and index.outcome(transaction) == "committed"


def _path(edges: Edges, source: str, target: str) -> list[str] | None:
    """A way from `source` to `target`, both ends named."""
    came: dict[str, str] = {source: ""}
    waiting = [source]
    while waiting:
        at = waiting.pop()
        if at == target:
            path = [at]
            while came[path[-1]]:
                path.append(came[path[-1]])
            return path[::-1]
        for following in sorted(edges.get(at, ())):
            if following not in came:
                came[following] = at
                waiting.append(following)
    return None
