"""A history indexed once for all rules: who wrote what, who saw what, and its outcome.

In: events. Out: `Index`. Never: a judgement.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.checker.history import (
    Ack,
    AnyEvent,
    Commit,
    CommittedEvent,
    Deleted,
    Fail,
    Healed,
    Poll,
    ReplicaStateEvent,
    Reset,
    SendEvent,
    TransactionEvent,
)

Where = tuple[str, int]
"""A topic and a partition."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken rule. `rule` is its number in the list of twelve."""

    rule: int
    name: str
    text: str

    def __str__(self) -> str:
        return f"rule {self.rule} ({self.name}): {self.text}"


@dataclass(slots=True)
class Index:
    """Invariant: lists are in the order of the history."""

    events: list[AnyEvent]
    sends: dict[int, SendEvent] = field(default_factory=dict)
    by_value: dict[str, SendEvent] = field(default_factory=dict)
    acks: dict[int, Ack] = field(default_factory=dict)
    fails: dict[int, Fail] = field(default_factory=dict)
    polls: list[Poll] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    committed: list[CommittedEvent] = field(default_factory=list)
    resets: list[Reset] = field(default_factory=list)
    replicas: list[ReplicaStateEvent] = field(default_factory=list)
    transactions: dict[str, list[TransactionEvent]] = field(default_factory=lambda: defaultdict(list))
    deleted: dict[Where, int] = field(default_factory=dict)
    seen: dict[Where, dict[int, dict[str, str]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(dict))
    )
    """partition -> offset -> value -> who first saw it there (or wrote it there)."""
    healed_ms: int | None = None
    place: dict[int, int] = field(default_factory=dict)
    """id of an event object -> its place in the history."""

    def outcome(self, transaction: str) -> str:
        """The last known state of a transaction."""
        states = self.transactions.get(transaction)
        return states[-1].state if states else "unknown"


def index(events: Iterable[AnyEvent]) -> Index:
    """Sort the events into their drawers."""
    made = Index(list(events))
    for place, event in enumerate(made.events):
        made.place[id(event)] = place
        _file(made, event)
    for send in made.sends.values():
        ack = made.acks.get(send.op)
        if ack is not None and ack.offset >= 0 and send.acks == -1:
            at = made.seen[send.topic, send.partition][ack.offset]
            at.setdefault(send.value, f"producer {send.producer} (acknowledged)")
    return made


def _file(made: Index, event: AnyEvent) -> None:
    match event:
        case SendEvent():
            made.sends[event.op] = made.by_value[event.value] = event
        case Ack():
            made.acks[event.op] = event
        case Fail():
            made.fails[event.op] = event
        case Poll():
            made.polls.append(event)
            seen = made.seen[event.topic, event.partition]
            for offset, value in event.records:
                seen[offset].setdefault(value, event.consumer)
        case Commit():
            made.commits.append(event)
        case CommittedEvent():
            made.committed.append(event)
        case Reset():
            made.resets.append(event)
        case TransactionEvent():
            made.transactions[event.id].append(event)
        case Deleted():
            where = event.topic, event.partition
            made.deleted[where] = max(event.before, made.deleted.get(where, 0))
        case ReplicaStateEvent():
            made.replicas.append(event)
        case Healed():
            made.healed_ms = event.at_ms
