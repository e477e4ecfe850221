"""Accounts in the file that all processes share."""

import threading
from contextlib import closing
from pathlib import Path

import pytest

from monitor.accounts.errors import AccountError
from monitor.accounts.roles import AccountRole
from monitor.accounts.store import AccountStore


def test_a_new_store_is_empty_and_lets_nobody_in(tmp_path: Path) -> None:
    """There is no default account."""
    store = AccountStore(tmp_path)
    assert store.accounts() == ()
    assert store.verify("admin", "admin") is None


def test_an_account_is_known_to_another_process_at_once(tmp_path: Path) -> None:
    """Every question reads the file."""
    console = AccountStore(tmp_path)
    assert console.find("li") is None
    AccountStore(tmp_path).add("li", "correct horse", [AccountRole.OPERATOR, AccountRole.VIEWER])
    principal = console.verify("li", "correct horse")
    assert principal is not None
    assert principal.roles == {AccountRole.VIEWER, AccountRole.OPERATOR}
    assert console.verify("li", "wrong horse!") is None


def test_accounts_are_listed_in_the_order_they_were_added_with_their_roles(tmp_path: Path) -> None:
    """Roles in the order of `AccountRole`, independent of the order given."""
    with closing(AccountStore(tmp_path)) as store:
        store.add("wang", "correct horse", [AccountRole.OPERATOR, AccountRole.VIEWER])
        store.add("li", "correct horse", [AccountRole.VIEWER])
        listed = [(a.name, a.roles) for a in store.accounts()]
    assert listed == [("wang", (AccountRole.VIEWER, AccountRole.OPERATOR)), ("li", (AccountRole.VIEWER,))]


def test_names_are_unique_and_sane(tmp_path: Path) -> None:
    """A second li and a name with a slash are refused, and so is an account that may nothing."""
    store = AccountStore(tmp_path)
    store.add("li", "correct horse", [AccountRole.VIEWER])
    for name, roles in (("li", [AccountRole.VIEWER]), ("l/i", [AccountRole.VIEWER]), ("wang", [])):
        with pytest.raises(AccountError):
            store.add(name, "correct horse", roles)
    for change in (
        lambda: store.remove("zhao"),
        lambda: store.set_password("zhao", "correct horse"),
    ):
        with pytest.raises(AccountError):
            change()


def test_changes_of_several_writers_are_all_kept(tmp_path: Path) -> None:
    """Each change is one transaction."""
    threads = [
        threading.Thread(
            target=AccountStore(tmp_path).add, args=(f"u{i}", "correct horse", [AccountRole.VIEWER])
        )
        for i in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {a.name for a in AccountStore(tmp_path).accounts()} == {f"u{i}" for i in range(6)}
