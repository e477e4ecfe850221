"""The account store in its file."""

import json
import stat
import threading
from pathlib import Path

import pytest

from monitor.accounts.locked_file import DamagedFile
from monitor.accounts.roles import Role
from monitor.accounts.store import AccountError, AccountStore


def test_a_new_store_is_empty_and_lets_nobody_in(tmp_path: Path) -> None:
    """There is no default account."""
    store = AccountStore(tmp_path)
    assert store.accounts() == ()
    assert store.verify("admin", "admin") is None


def test_an_account_is_known_to_another_process_at_once(tmp_path: Path) -> None:
    """The file is looked at with every question."""
    console = AccountStore(tmp_path)
    assert console.find("li") is None
    AccountStore(tmp_path).add("li", "correct horse", [Role.OPERATOR, Role.VIEWER])
    principal = console.verify("li", "correct horse")
    assert principal is not None
    assert principal.roles == {Role.VIEWER, Role.OPERATOR}
    assert console.verify("li", "wrong horse!") is None


def test_the_file_is_for_its_owner_only_and_holds_no_password(tmp_path: Path) -> None:
    """What lies on disk helps nobody to log in."""
    AccountStore(tmp_path).add("li", "correct horse", [Role.VIEWER])
    path = tmp_path / "accounts.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "correct horse" not in path.read_text()
    assert json.loads(path.read_text())["accounts"][0]["name"] == "li"


def test_names_are_unique_and_sane(tmp_path: Path) -> None:
    """A second li and a name with a slash are refused, and so is an account that may nothing."""
    store = AccountStore(tmp_path)
    store.add("li", "correct horse", [Role.VIEWER])
    for name, roles in (("li", [Role.VIEWER]), ("l/i", [Role.VIEWER]), ("wang", [])):
        with pytest.raises(AccountError):
            store.add(name, "correct horse", roles)
    for change in (lambda: store.remove("zhao"), lambda: store.set_password("zhao", "correct horse")):
        with pytest.raises(AccountError):
            change()


def test_changes_of_several_writers_are_all_kept(tmp_path: Path) -> None:
    """The lock is held from reading to renaming."""
    threads = [
        threading.Thread(
            target=AccountStore(tmp_path).add, args=(f"u{i}", "correct horse", [Role.VIEWER])
        )
        for i in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {a.name for a in AccountStore(tmp_path).accounts()} == {f"u{i}" for i in range(6)}


def test_a_damaged_store_is_an_error_and_not_an_empty_one(tmp_path: Path) -> None:
    """Nobody is let in or locked out by guessing."""
    (tmp_path / "accounts.json").write_text('{"accounts": [')
    with pytest.raises(DamagedFile):
        AccountStore(tmp_path).accounts()
