"""Who may do what."""

import pytest

from monitor.accounts.roles import AccountRole, ConsoleOperation, ConsolePrincipal, authorise

TABLE = {
    AccountRole.VIEWER: {ConsoleOperation.VIEW, ConsoleOperation.WATCH_READ, ConsoleOperation.BUS_READ, ConsoleOperation.SYSTEM_READ,
                         ConsoleOperation.ACCOUNT_OWN},
    AccountRole.OPERATOR: set(ConsoleOperation)
    - {ConsoleOperation.ACCOUNTS_WRITE, ConsoleOperation.WATCH_APPROVE, ConsoleOperation.QUESTIONS_READ,
       ConsoleOperation.BUS_WRITE},
    AccountRole.APPROVER: set(ConsoleOperation)
    - {ConsoleOperation.WATCH_WRITE, ConsoleOperation.REGISTER_WRITE, ConsoleOperation.ACCOUNTS_WRITE,
       ConsoleOperation.QUESTIONS_READ, ConsoleOperation.BUS_WRITE},
    AccountRole.OPERATIONS: set(ConsoleOperation)
    - {ConsoleOperation.WATCH_WRITE, ConsoleOperation.REGISTER_WRITE, ConsoleOperation.WATCH_APPROVE},
}


@pytest.mark.parametrize("role", list(AccountRole))
def test_each_role_may_exactly_what_the_table_says(role: AccountRole) -> None:
    """The table here is the requirement."""
    who = ConsolePrincipal(name="li", roles=frozenset({role}))
    assert {o for o in ConsoleOperation if authorise(who, o)} == TABLE[role]


def test_no_role_may_nothing() -> None:
    """An account whose roles were all taken away."""
    nobody = ConsolePrincipal(name="li", roles=frozenset())
    assert not any(authorise(nobody, o) for o in ConsoleOperation)
