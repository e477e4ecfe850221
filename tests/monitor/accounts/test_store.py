"""Accounts in the file that all processes share."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from monitor.accounts.errors import AccountError
from monitor.accounts.roles import AccountRole
from monitor.accounts.store import AccountStore


def test_two_administrators_cannot_remove_each_other(tmp_path: Path) -> None:
    """At the same moment: one of them stays, whoever is first. The command may remove the last."""
    store = AccountStore(tmp_path)
    names = ("sun", "zhao")
    for name in names:
        store.add(name, "correct horse", [AccountRole.OPERATIONS])

    def removed(name: str) -> bool:
        try:
            AccountStore(tmp_path).remove(name, keeps_administrator=True)
        except AccountError as error:
            return error.fault != "last"
        return True

    with ThreadPoolExecutor() as people:
        assert sorted(people.map(removed, names)) == [False, True]
    (left,) = store.accounts()
    with pytest.raises(AccountError):
        store.set_roles(left.name, [AccountRole.VIEWER], keeps_administrator=True)
    store.remove(left.name)
    assert store.accounts() == ()


def test_who_changes_a_password_that_somebody_else_has_just_set_is_told(tmp_path: Path) -> None:
    """What he has shown counts no more."""
    store = AccountStore(tmp_path)
    store.add("li", "correct horse", [AccountRole.VIEWER])
    before = store.accounts()[0].password
    store.set_password("li", "another horse")
    with pytest.raises(AccountError, match="just changed"):
        store.change_password("li", before, "my own horse", "")
    assert store.verify("li", "another horse")


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
