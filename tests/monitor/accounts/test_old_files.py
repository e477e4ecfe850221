"""The files of earlier versions, as such a version wrote them: `old_files/`, taken over once."""

from __future__ import annotations

import shutil
import signal
from contextlib import closing
from pathlib import Path

import pytest
from account_process import assert_sound, go, start

from monitor.accounts.errors import AccountsUnavailable
from monitor.accounts.one_time_links import redeem
from monitor.accounts.roles import EVERYBODY, AccountRole
from monitor.accounts.sessions import SessionStore
from monitor.accounts.store import AccountStore

OLD_FILES = Path(__file__).with_name("old_files")
# When they were written: links were good for an hour, sessions for eight.
NOW_MS = 1_795_398_921_609
PASSWORDS = {
    "li": "correct horse",
    "prometheus@east": "scrape me please",
    "王.芳": "looking again",
}
SESSION_OF_LI = "hxOsArKUXjOYiaDDW5nSkW4QkluJLQemnLRNflt3vLM"
SESSION_OF_A_GUEST = "ezLJTsPuN8HVW_TtBNJEdakfCkxKI0zlR59Io_Z8C0Q"
SESSION_BEFORE_A_NEW_PASSWORD = "H-OSXEt3jO83-2qEj2VzJz-VJ_dcYw4lExIjBwuXLa4"
LINK_TO_LOOK = "1TqxPSTghQQU3CDZs7cFsMldt7dGkvPoHiEpSjMIDlc"
LINK_TO_ALL = "8aOEhJ0KR2lLs8TG7nhoWJV-fzX58WTXeGIjK4xZUEE"
NAMES = ("accounts.json", "console/sessions.json", "console/links.json")


@pytest.fixture
def data_path(tmp_path: Path) -> Path:
    """A data directory of an earlier version."""
    return Path(shutil.copytree(OLD_FILES, tmp_path / "var"))


def contents(data_path: Path, ending: str = "") -> list[bytes | None]:
    paths = [data_path / (name + ending) for name in NAMES]
    return [path.read_bytes() if path.exists() else None for path in paths]


def assert_taken_over(data_path: Path) -> None:
    """All of it is there, and the old files are out of the way, unchanged."""
    with closing(AccountStore(data_path)) as store:
        assert {a.name: a.roles for a in store.accounts()} == {
            "li": (AccountRole.VIEWER, AccountRole.OPERATOR),
            "prometheus@east": (AccountRole.VIEWER,),
            "王.芳": (AccountRole.APPROVER, AccountRole.OPERATIONS),
        }
        for name, password in PASSWORDS.items():
            assert store.verify(name, password) is not None
            assert store.verify(name, password + "!") is None
        sessions = SessionStore(store, lifetime_ms=1, now_ms=lambda: NOW_MS)
        li, guest = sessions.principal(SESSION_OF_LI), sessions.principal(SESSION_OF_A_GUEST)
        assert li is not None
        assert (li.name, li.roles) == ("li", {AccountRole.VIEWER, AccountRole.OPERATOR})
        assert guest is not None
        assert (guest.name, guest.roles) == ("demo", {AccountRole.VIEWER})
        assert sessions.principal(SESSION_BEFORE_A_NEW_PASSWORD) is None
    assert contents(data_path) == [None, None, None]
    assert contents(data_path, ".taken-over") == contents(OLD_FILES)
    assert_sound(data_path)


def test_accounts_sessions_and_links_still_work(data_path: Path) -> None:
    """People who were logged in stay logged in; a link opens once, before its time is over."""
    assert_taken_over(data_path)
    with closing(AccountStore(data_path)) as store:
        looks = redeem(store.database, LINK_TO_LOOK, NOW_MS)
        assert looks is not None
        assert looks.roles == {AccountRole.VIEWER}
        assert redeem(store.database, LINK_TO_LOOK, NOW_MS) is None
        assert redeem(store.database, LINK_TO_ALL, NOW_MS + 3_601_000) is None
        later = SessionStore(store, lifetime_ms=1, now_ms=lambda: NOW_MS + 8 * 3_600_000 + 1000)
        assert later.principal(SESSION_OF_LI) is None


def test_a_link_with_all_roles_still_has_them(data_path: Path) -> None:
    """The roles of each link are its own."""
    with closing(AccountStore(data_path)) as store:
        principal = redeem(store.database, LINK_TO_ALL, NOW_MS)
        assert principal is not None
        assert principal.roles == EVERYBODY


def test_old_files_are_read_once_only(data_path: Path) -> None:
    """What was changed since stays changed; files that appear later are put aside unread."""
    with closing(AccountStore(data_path)) as store:
        store.remove("li")
    for _ in range(2):
        shutil.copytree(OLD_FILES, data_path, dirs_exist_ok=True)
        with closing(AccountStore(data_path)) as store:
            assert store.find("li") is None
    assert contents(data_path) == [None, None, None]
    for ending in (".taken-over", ".taken-over-2", ".taken-over-3"):
        assert contents(data_path, ending) == contents(OLD_FILES)


@pytest.mark.slow
@pytest.mark.parametrize(
    "moment", ["read_old_files", "_insert", "sync_folder", "rename_old_files"]
)
def test_a_process_killed_while_it_takes_them_over_leaves_that_to_the_next(
    data_path: Path, moment: str
) -> None:
    """Within the transaction, and between it and the new names."""
    process = start(data_path, "die-at", moment)
    go(process)
    process.communicate(timeout=30)
    assert process.returncode == -signal.SIGKILL
    assert contents(data_path) == contents(OLD_FILES)
    assert_taken_over(data_path)


@pytest.mark.slow
def test_processes_that_start_at_once_take_them_over_once(data_path: Path) -> None:
    """One of them does, the others wait for it."""
    processes = [start(data_path, "add", f"writer{n}", "2") for n in range(4)]
    for process in processes:
        go(process)
    for process in processes:
        process.communicate(timeout=60)
        assert process.returncode == 0
    with closing(AccountStore(data_path)) as store:
        for n in range(4):
            for i in range(2):
                store.remove(f"writer{n}-{i}")
    assert_taken_over(data_path)


@pytest.mark.parametrize("name", NAMES)
def test_an_old_file_that_cannot_be_read_is_an_error_and_stays(data_path: Path, name: str) -> None:
    """No account is lost or invented; after its repair it is taken over."""
    sound = (data_path / name).read_bytes()
    (data_path / name).write_bytes(sound[: len(sound) // 2])
    for _ in range(2):
        with pytest.raises(AccountsUnavailable, match=f"{Path(name).name} cannot be read"):
            AccountStore(data_path).verify("li", "correct horse")
    assert (data_path / name).exists()
    (data_path / name).write_bytes(sound)
    assert_taken_over(data_path)
