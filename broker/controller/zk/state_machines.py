"""The partition and replica state machines of the ZooKeeper controller, as tables.

In: a partition or replica and its target state. Out: whether that is legal, and the new states.
Never: I/O; the controller decides what a transition writes and sends.

Partitions (C-PSM-07..10): NonExistent → New → Online ⇄ Offline → NonExistent; Online → Online is
the election of another leader, New → Offline a partition without live replicas. Replicas
(C-RSM-04..10, M-07): NonExistent → New → Online ⇄ Offline → DeletionStarted → DeletionSuccessful →
NonExistent, with DeletionIneligible for what could not be deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Generic, TypeVar


class ControllerPartitionState(Enum):
    """Codes as in the book."""

    NEW = 0
    ONLINE = 1
    OFFLINE = 2
    NON_EXISTENT = 3


class ControllerReplicaState(Enum):
    """Codes as in the book."""

    NEW = 1
    ONLINE = 2
    OFFLINE = 3
    DELETION_STARTED = 4
    DELETION_SUCCESSFUL = 5
    DELETION_INELIGIBLE = 6
    NON_EXISTENT = 7


_P = ControllerPartitionState
_R = ControllerReplicaState

PARTITION_PREDECESSORS: Mapping[ControllerPartitionState, frozenset[ControllerPartitionState]] = {
    _P.NEW: frozenset({_P.NON_EXISTENT}),
    _P.ONLINE: frozenset({_P.NEW, _P.ONLINE, _P.OFFLINE}),
    _P.OFFLINE: frozenset({_P.NEW, _P.ONLINE, _P.OFFLINE}),
    _P.NON_EXISTENT: frozenset({_P.OFFLINE}),
}

_LIVING = frozenset({_R.NEW, _R.ONLINE, _R.OFFLINE, _R.DELETION_INELIGIBLE})

REPLICA_PREDECESSORS: Mapping[ControllerReplicaState, frozenset[ControllerReplicaState]] = {
    _R.NEW: frozenset({_R.NON_EXISTENT}),
    _R.ONLINE: _LIVING,
    _R.OFFLINE: _LIVING,
    _R.DELETION_STARTED: frozenset({_R.OFFLINE}),
    _R.DELETION_SUCCESSFUL: frozenset({_R.DELETION_STARTED}),
    _R.DELETION_INELIGIBLE: frozenset({_R.OFFLINE, _R.DELETION_STARTED}),
    _R.NON_EXISTENT: frozenset({_R.DELETION_SUCCESSFUL}),
}

State = TypeVar("State", ControllerPartitionState, ControllerReplicaState)
Key = TypeVar("Key")

PartitionKey = tuple[str, int]
PartitionAndReplica = tuple[str, int, int]


class IllegalTransition(Exception):
    """A transition that is not in the table; the state stays (G-28)."""


@dataclass(slots=True)
class StateMachine(Generic[Key, State]):
    """States by key. Invariant: a key that is not held is NonExistent, and every transition was
    legal."""

    predecessors: Mapping[State, frozenset[State]]
    non_existent: State
    _states: dict[Key, State] = field(default_factory=dict)

    def state(self, key: Key) -> State:
        """The current state."""
        return self._states.get(key, self.non_existent)

    def set_initial(self, key: Key, state: State) -> None:
        """The state a new controller finds (C-PSM-30, C-RSM-24); no transition."""
        self._states[key] = state

    def transition(self, key: Key, target: State) -> State:
        """Moves to `target`; returns the state before. Raises `IllegalTransition`."""
        before = self.state(key)
        if before not in self.predecessors[target]:
            raise IllegalTransition(f"{key}: {before.name} → {target.name}")
        if target is self.non_existent:
            self._states.pop(key, None)
        else:
            self._states[key] = target
        return before

    def among(self, keys: Iterable[Key], state: State) -> list[Key]:
        """Those of `keys` that are in `state`."""
        return [key for key in keys if self.state(key) is state]

    def forget(self, keys: Iterable[Key]) -> None:
        """Drops keys that were removed by hand; no transition."""
        for key in keys:
            self._states.pop(key, None)

    def __len__(self) -> int:
        return len(self._states)


def partition_machine() -> StateMachine[PartitionKey, ControllerPartitionState]:
    """An empty partition state machine."""
    return StateMachine(PARTITION_PREDECESSORS, ControllerPartitionState.NON_EXISTENT)


def replica_machine() -> StateMachine[PartitionAndReplica, ControllerReplicaState]:
    """An empty replica state machine."""
    return StateMachine(REPLICA_PREDECESSORS, ControllerReplicaState.NON_EXISTENT)
