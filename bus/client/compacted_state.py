"""What a compacted topic says: the newest value of each key. Pure.

In: records in the order of their topic, that its end was reached, that it is another topic now.
Out: a state that was whole once. Never: half of a topic in the place of all of it: while one that
was made anew is read, what the former one said holds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NamedTuple, Protocol, TypeVar

import msgspec

from bus.client.model import ConsumedRecord

Value = TypeVar("Value")


class Change(NamedTuple, Generic[Value]):
    """One key has this value now; None: it has none any more."""

    key: str
    value: Value | None


OnChange = Callable[[Change[Value]], None]


class TopicState(Protocol):
    """What is made of a topic's records."""

    def apply(self, record: ConsumedRecord) -> None:
        """The next one."""


class KeyedValues(Generic[Value]):
    """Invariant: `values` has the newest readable value of each key, without removed ones."""

    def __init__(
        self,
        change_of: Callable[[ConsumedRecord], Change[Value] | None],
        on_change: OnChange[Value] | None = None,
    ) -> None:
        """`change_of`: None of a record that changes nothing. `on_change` is called after each."""
        self.values: dict[str, Value] = {}
        self._change_of = change_of
        self._on_change = on_change

    def apply(self, record: ConsumedRecord) -> None:
        """The next record."""
        change = self._change_of(record)
        if change is None:
            return
        if change.value is None:
            self.values.pop(change.key, None)
        else:
            self.values[change.key] = change.value
        if self._on_change is not None:
            self._on_change(change)


def struct_change(struct: type[Value]) -> Callable[[ConsumedRecord], Change[Value] | None]:
    """For values that are the JSON of one struct under a key of text, removed by a tombstone. What
    is neither, somebody else has put there: it changes nothing."""
    decode = msgspec.json.Decoder(struct).decode

    def change_of(record: ConsumedRecord) -> Change[Value] | None:
        key = (record.key or b"").decode("utf-8", "replace")
        if record.value is None:
            return Change(key, None)
        try:
            return Change(key, decode(record.value))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None

    return change_of


State = TypeVar("State", bound=TopicState)


class WholeState(Generic[State]):
    """Invariant: `state` is whole as of some end, once `is_whole`; `_reading` is the same one, but
    while a topic made anew is read for the first time."""

    def __init__(self, make_state: Callable[[], State]) -> None:
        """`make_state` is called once for each topic that is read from its start."""
        self._make_state = make_state
        self.state = self._reading = make_state()
        self.is_whole = False
        self.generation = 0
        """Grows when `state` is another topic's than before."""

    def on_recreated(self) -> None:
        """What follows is of another topic, from its start."""
        self._reading = self._make_state()

    def apply(self, record: ConsumedRecord) -> None:
        """The next record of the topic that is read."""
        self._reading.apply(record)

    def on_end(self) -> None:
        """All that was there when it was asked has been applied."""
        self.is_whole = True
        if self._reading is not self.state:
            self.state = self._reading
            self.generation += 1
