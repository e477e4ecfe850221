"""Who may do what."""

import pytest

from monitor.accounts.roles import Operation, Principal, Role, authorise

TABLE = {
    Role.VIEWER: {Operation.VIEW, Operation.WATCH_READ, Operation.BUS_READ, Operation.SYSTEM_READ},
    Role.OPERATOR: set(Operation),
    Role.APPROVER: set(Operation) - {Operation.WATCH_WRITE},
    Role.OPERATIONS: set(Operation) - {Operation.WATCH_WRITE},
}


@pytest.mark.parametrize("role", list(Role))
def test_each_role_may_exactly_what_the_table_says(role: Role) -> None:
    """The table here is the requirement."""
    who = Principal(name="li", roles=frozenset({role}))
    assert {o for o in Operation if authorise(who, o)} == TABLE[role]


def test_no_role_may_nothing() -> None:
    """An account whose roles were all taken away."""
    nobody = Principal(name="li", roles=frozenset())
    assert not any(authorise(nobody, o) for o in Operation)
