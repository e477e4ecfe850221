"""Both state machines of chapter 5, every cell: states × targets."""

from __future__ import annotations

import pytest

from broker.controller.zk.state_machines import (
    ControllerPartitionState,
    ControllerReplicaState,
    IllegalTransition,
    partition_machine,
    replica_machine,
)

P, R = ControllerPartitionState, ControllerReplicaState

LEGAL_PARTITION = {
    (P.NON_EXISTENT, P.NEW),
    (P.NEW, P.ONLINE), (P.ONLINE, P.ONLINE), (P.OFFLINE, P.ONLINE),
    (P.NEW, P.OFFLINE), (P.ONLINE, P.OFFLINE), (P.OFFLINE, P.OFFLINE),
    (P.OFFLINE, P.NON_EXISTENT),
}  # fmt: skip
"""C-PSM-07..10, independent of the implementation."""

LEGAL_REPLICA = {
    (R.NON_EXISTENT, R.NEW),
    (R.NEW, R.ONLINE), (R.ONLINE, R.ONLINE), (R.OFFLINE, R.ONLINE),
    (R.DELETION_INELIGIBLE, R.ONLINE),
    (R.NEW, R.OFFLINE), (R.ONLINE, R.OFFLINE), (R.OFFLINE, R.OFFLINE),
    (R.DELETION_INELIGIBLE, R.OFFLINE),
    (R.OFFLINE, R.DELETION_STARTED),
    (R.DELETION_STARTED, R.DELETION_SUCCESSFUL),
    (R.DELETION_STARTED, R.DELETION_INELIGIBLE),
    (R.OFFLINE, R.DELETION_INELIGIBLE),
    (R.DELETION_SUCCESSFUL, R.NON_EXISTENT),
}  # fmt: skip
"""C-RSM-04..10 and M-07."""


@pytest.mark.parametrize("target", list(P))
@pytest.mark.parametrize("before", list(P))
def test_a_partition_moves_only_where_the_table_lets_it(before: P, target: P) -> None:
    """An illegal cell raises and the state stays."""
    machine = partition_machine()
    machine.set_initial(("t", 0), before)
    if (before, target) in LEGAL_PARTITION:
        assert machine.transition(("t", 0), target) is before
        assert machine.state(("t", 0)) is target
    else:
        with pytest.raises(IllegalTransition, match=f"{before.name} → {target.name}"):
            machine.transition(("t", 0), target)
        assert machine.state(("t", 0)) is before


@pytest.mark.parametrize("target", list(R))
@pytest.mark.parametrize("before", list(R))
def test_a_replica_moves_only_where_the_table_lets_it(before: R, target: R) -> None:
    """An illegal cell raises and the state stays."""
    machine = replica_machine()
    machine.set_initial(("t", 0, 1), before)
    if (before, target) in LEGAL_REPLICA:
        machine.transition(("t", 0, 1), target)
        assert machine.state(("t", 0, 1)) is target
    else:
        with pytest.raises(IllegalTransition):
            machine.transition(("t", 0, 1), target)
        assert machine.state(("t", 0, 1)) is before


def test_codes_are_the_books() -> None:
    """Checks C-PSM-02 and C-RSM-02."""
    assert [state.value for state in P] == [0, 1, 2, 3]
    assert [state.value for state in R] == [1, 2, 3, 4, 5, 6, 7]


def test_what_does_not_exist_takes_no_place() -> None:
    """A deleted partition is forgotten, an unknown one counts as NonExistent (G-28)."""
    machine = partition_machine()
    for state in (P.NEW, P.ONLINE, P.OFFLINE, P.NON_EXISTENT):
        machine.transition(("t", 0), state)
    assert len(machine) == 0
    assert machine.state(("t", 0)) is P.NON_EXISTENT
