"""The secondary has the primary's accounts beside its own."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from monitor.accounts.replicated_accounts import ReplicatedAccounts
from monitor.accounts.roles import AccountRole
from monitor.accounts.sealing import AccountRow
from monitor.accounts.store import AccountStore

PASSWORD = "correct horse battery"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[AccountStore]:
    opened = AccountStore(tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def primary(tmp_path: Path) -> Iterator[AccountStore]:
    opened = AccountStore(tmp_path / "primary")
    yield opened
    opened.close()


def names(store: AccountStore) -> list[str]:
    return sorted(account.name for account in store.accounts())


def rows(store: AccountStore) -> list[AccountRow]:
    return ReplicatedAccounts(store.database).rows()


def test_who_logs_in_at_the_primary_logs_in_here_with_the_same_password(
    store: AccountStore, primary: AccountStore
):
    primary.add("wang", PASSWORD, [AccountRole.OPERATIONS])
    store.add("own", PASSWORD, [AccountRole.OPERATIONS])
    carried = ReplicatedAccounts(store.database)
    assert carried.write(rows(primary), 5)
    found = store.verify("wang", PASSWORD)
    assert found is not None
    assert found.roles == {AccountRole.OPERATIONS}
    assert names(store) == ["own", "wang"]


def test_who_is_removed_there_is_removed_here_and_this_site_s_own_stay(
    store: AccountStore, primary: AccountStore
):
    primary.add("wang", PASSWORD, [AccountRole.OPERATIONS])
    primary.add("li", PASSWORD, [AccountRole.OPERATIONS])
    store.add("own", PASSWORD, [AccountRole.OPERATIONS])
    carried = ReplicatedAccounts(store.database)
    carried.write(rows(primary), 5)
    primary.remove("li")
    assert carried.write(rows(primary), 6)
    assert names(store) == ["own", "wang"]


def test_who_is_removed_at_the_new_primary_is_removed_at_the_former_one(
    store: AccountStore, primary: AccountStore
):
    """Before, the former primary kept the account, and gave it back when it was primary again."""
    for name in ("wang", "li"):
        primary.add(name, PASSWORD, [AccountRole.OPERATIONS])
    former, taking_over = (ReplicatedAccounts(one.database) for one in (primary, store))
    former.note_published(former.rows(), 5)
    taking_over.write(former.rows(), 5)
    store.remove("li")
    assert former.write(taking_over.rows(), 6)
    assert names(primary) == ["wang"]


def test_an_older_snapshot_changes_nothing(store: AccountStore):
    carried = ReplicatedAccounts(store.database)
    assert carried.write([AccountRow("wang", "operations", "x")], 6)
    assert not carried.write([], 6)
    assert not carried.write([], 5)
    assert names(store) == ["wang"]
    carried.note_version(9)
    assert not carried.write([], 8)
    assert carried.version() == 9


@pytest.mark.parametrize("row", [("", "operations"), ("a b", "operations"), ("a", "king"), ("a" * 65, "operations")])
def test_a_row_that_no_console_writes_refuses_the_whole_snapshot(
    store: AccountStore, row: tuple[str, str]
):
    with pytest.raises(ValueError):
        ReplicatedAccounts(store.database).write([AccountRow("wang", "operations", "x"), AccountRow(*row, "x")], 5)
    assert names(store) == []


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_file_of_an_earlier_version_gets_its_tables(tmp_path: Path, version: int):
    store = AccountStore(tmp_path)
    store.add("wang", PASSWORD, [AccountRole.OPERATIONS])
    store.close()
    with closing(sqlite3.connect(store.database.path)) as db:
        for table in ("carried_accounts", "log_ins")[version - 1 :]:
            db.execute(f"DROP TABLE {table}")
        for column in ("unit", "districts"):
            db.execute(f"ALTER TABLE accounts DROP COLUMN {column}")
        db.execute(f"PRAGMA user_version = {version}")
    again = AccountStore(tmp_path)
    assert names(again) == ["wang"]
    carried = ReplicatedAccounts(again.database)
    assert carried.version() == -1
    assert again.last_log_ins() == {}
    assert carried.write([AccountRow("li", "operations", "x")], 1)
    assert names(again) == ["li", "wang"]
    again.close()


def test_units_and_districts_are_carried_and_bad_ones_refused(tmp_path: Path):
    store = AccountStore(tmp_path)
    store.add("wang", PASSWORD, [AccountRole.VIEWER])
    store.set_unit("wang", "north", ["d1", "d2"])
    carried = ReplicatedAccounts(store.database)
    [row] = carried.rows()
    assert (row.unit, row.districts) == ("north", "d1,d2")
    assert carried.write([row._replace(name="li", unit="south", districts="")], 5)
    assert store.find("li").principal().viewer.unit == "south"  # type: ignore[union-attr]
    with pytest.raises(ValueError, match="a unit has"):
        carried.write([row._replace(unit="a|b")], 6)
    store.close()
