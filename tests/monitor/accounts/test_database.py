"""The one file that several processes write: real processes, real damage."""

from __future__ import annotations

import random
import signal
import stat
import time
from contextlib import closing
from pathlib import Path

import pytest
from account_process import assert_sound, file_of, go, sessions_of, start

from monitor.accounts.database import VERSION, AccountDatabase
from monitor.accounts.errors import AccountsUnavailable
from monitor.accounts.roles import EVERYBODY, AccountRole, ConsolePrincipal
from monitor.accounts.store import AccountStore


@pytest.mark.slow
def test_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    """Also the first start, which all of them try at the same moment."""
    writers = [start(tmp_path, "add", f"writer{n}", "12") for n in range(4)]
    for writer in writers:
        go(writer)
    said = [writer.communicate(timeout=60)[0].split() for writer in writers]
    assert [writer.returncode for writer in writers] == [0] * 4
    with closing(AccountStore(tmp_path)) as store:
        names = {a.name for a in store.accounts()}
        assert names == {f"writer{n}-{i}" for n in range(4) for i in range(12)}
        opened = [sid for ids in said for sid in ids]
        assert len(opened) == 48
        assert all(sessions_of(store).principal(sid) for sid in opened)
    assert_sound(tmp_path)


@pytest.mark.slow
def test_a_process_killed_at_any_moment_leaves_a_sound_file_with_all_it_said(
    tmp_path: Path, dice: random.Random
) -> None:
    """Everything acknowledged before the kill is stored; the next process continues."""
    said: list[str] = []
    for _ in range(6):
        process = start(tmp_path, "open-for-ever")
        go(process)
        assert process.stdout is not None
        said.append(process.stdout.readline().strip())
        time.sleep(dice.random() * 0.03)
        process.send_signal(signal.SIGKILL)
        rest = process.communicate(timeout=30)[0]
        said += rest.split("\n")[:-1]  # the last one may be torn
        assert_sound(tmp_path)
    with closing(AccountStore(tmp_path)) as store:
        # Earlier ones may have been removed for later ones.
        missing = [s for s in said[-900:] if sessions_of(store).principal(s) is None]
    assert missing == []


def test_while_one_process_changes_something_others_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second change waits, and says so when it has waited long enough."""
    monkeypatch.setattr("monitor.accounts.database.WRITE_TIMEOUT_S", 0.1)
    with closing(AccountStore(tmp_path)) as store, closing(AccountStore(tmp_path)) as other:
        store.add("li", "correct horse", [AccountRole.VIEWER])
        with other.database.transaction() as connection:
            connection.execute("DELETE FROM accounts")
            assert store.find("li") is not None
            with pytest.raises(AccountsUnavailable, match="locked by another process"):
                store.add("wang", "correct horse", [AccountRole.VIEWER])
        assert store.find("li") is None
        store.add("wang", "correct horse", [AccountRole.VIEWER])


def test_a_change_that_fails_half_way_changes_nothing(tmp_path: Path) -> None:
    """And the next one finds no transaction open."""
    with closing(AccountStore(tmp_path)) as store:
        store.add("li", "correct horse", [AccountRole.VIEWER])
        with pytest.raises(ZeroDivisionError), store.database.transaction() as connection:
            connection.execute("DELETE FROM accounts")
            _ = 1 // 0
        assert store.find("li") is not None
        store.remove("li")


def test_the_files_are_for_their_owner_only(tmp_path: Path) -> None:
    """So are the files that SQLite adds, and a restored copy that was readable by all users."""

    def modes() -> dict[str, int]:
        found = file_of(tmp_path).parent.glob("accounts.db*")
        return {f.name: stat.S_IMODE(f.stat().st_mode) for f in found}

    for _ in range(2):
        with closing(AccountStore(tmp_path)) as store:
            if store.find("li") is None:
                store.add("li", "correct horse", [AccountRole.VIEWER])
            private = dict.fromkeys(("accounts.db", "accounts.db-wal", "accounts.db-shm"), 0o600)
            assert modes() == private
        file_of(tmp_path).chmod(0o644)


def test_a_removed_hash_is_not_in_the_file_any_more(tmp_path: Path) -> None:
    """Nor was the password or a session's id ever."""
    with closing(AccountStore(tmp_path)) as store:
        store.add("li", "correct horse", [AccountRole.VIEWER])
        found = store.find("li")
        assert found is not None
        sid = sessions_of(store).open(ConsolePrincipal(name="li", roles=frozenset()))
    before = file_of(tmp_path).read_bytes()
    assert found.password.encode() in before
    assert b"correct horse" not in before
    assert sid.encode() not in before
    with closing(AccountStore(tmp_path)) as store:
        store.remove("li")
    assert found.password.encode() not in file_of(tmp_path).read_bytes()


def filled(data_path: Path) -> tuple[bytes, str]:
    """A sound file and the id of a session in it."""
    with closing(AccountStore(data_path)) as store:
        store.add("li", "correct horse", [AccountRole.VIEWER])
        for i in range(8):
            store.add(f"other-{i}", "another horse", [AccountRole.VIEWER])
        sid = sessions_of(store).open(ConsolePrincipal(name="li", roles=frozenset()))
    return file_of(data_path).read_bytes(), sid


@pytest.mark.slow
def test_no_damage_lets_anybody_in(tmp_path: Path, dice: random.Random) -> None:
    """Bits, blocks and lengths: either an error that says what to do, or the right answer."""
    sound, _ = filled(tmp_path)
    refused, said = 0, set()
    for _ in range(60):
        damaged = bytearray(sound)
        match dice.randrange(3):
            case 0:
                for _ in range(dice.randint(1, 8)):
                    damaged[dice.randrange(len(damaged))] ^= 1 << dice.randrange(8)
            case 1:
                at = dice.randrange(len(damaged))
                damaged[at : at + 500] = dice.randbytes(len(damaged[at : at + 500]))
            case _:
                del damaged[dice.randrange(len(damaged)) :]
        file_of(tmp_path).write_bytes(damaged)
        with closing(AccountStore(tmp_path)) as store:
            try:
                assert store.verify("li", "wrong horse!") is None
                assert store.verify("admin", "") is None
                assert sessions_of(store).principal("invented") is None
                right = store.verify("li", "correct horse")
                assert right is None or right.roles == {AccountRole.VIEWER}
            except AccountsUnavailable as error:
                refused += 1
                said.add("put back" in str(error))
    assert (refused > 10, said) == (True, {True})


def test_a_schema_that_is_no_text_any_more_is_damage(tmp_path: Path) -> None:
    """SQLite quotes the bytes in its message, which Python cannot decode; that was no error of ours."""
    sound, _ = filled(tmp_path)
    file_of(tmp_path).write_bytes(sound.replace(b"CREATE TABLE links", b"CREATE TABL\xc5 links"))
    with pytest.raises(AccountsUnavailable, match="put back a copy"):
        AccountStore(tmp_path).accounts()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"{}", "put back a copy"),
        (b"SQLite format 3\0" + b"\0" * 4096, "put back a copy"),
    ],
)
def test_what_is_no_database_is_refused(tmp_path: Path, content: bytes, says: str) -> None:
    """And left as it is."""
    file_of(tmp_path).parent.mkdir()
    file_of(tmp_path).write_bytes(content)
    with pytest.raises(AccountsUnavailable, match=says):
        AccountStore(tmp_path).accounts()
    assert file_of(tmp_path).read_bytes() == content


def test_roles_and_tables_of_another_program_are_refused(tmp_path: Path) -> None:
    """A sound database that is not ours admits no one."""
    with closing(AccountStore(tmp_path)) as store:
        store.add("li", "correct horse", [AccountRole.VIEWER])
        with store.database.transaction() as connection:
            connection.execute("UPDATE accounts SET roles = 'root'")
        with pytest.raises(AccountsUnavailable, match="'root'"):
            store.verify("li", "correct horse")
        with store.database.transaction() as connection:
            connection.execute("DROP TABLE accounts")
        with pytest.raises(AccountsUnavailable, match="no such table"):
            store.verify("li", "correct horse")
        with store.database.transaction() as connection:
            connection.execute("PRAGMA user_version = 0")
    with pytest.raises(AccountsUnavailable, match="another program"):
        AccountStore(tmp_path).accounts()


def test_a_file_of_a_later_version_is_refused(tmp_path: Path) -> None:
    """It may hold what this version would lose."""
    with closing(AccountDatabase(tmp_path)) as database, database.transaction() as connection:
        connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    with pytest.raises(AccountsUnavailable, match=f"version {VERSION + 1}, this program knows"):
        AccountStore(tmp_path).accounts()


def test_a_file_that_cannot_be_opened_says_whose_it_should_be(tmp_path: Path) -> None:
    """A directory in its place, which not even root can open as a file."""
    file_of(tmp_path).mkdir(parents=True)
    with pytest.raises(AccountsUnavailable, match="belong to the user that runs the console"):
        AccountStore(tmp_path).accounts()


def test_a_file_that_is_put_back_counts_at_once_and_so_does_a_missing_one(tmp_path: Path) -> None:
    """A console that runs looks at the file with every question; no file is an empty one."""
    _, sid = filled(tmp_path / "backup")
    with closing(AccountStore(tmp_path)) as store:
        sessions = sessions_of(store)
        guest = sessions.open(ConsolePrincipal(name="guest", roles=EVERYBODY), guest=True)
        assert store.accounts() == ()
        store.close()
        file_of(tmp_path / "backup").replace(file_of(tmp_path))
        assert sessions.principal(sid) is not None
        assert sessions.principal(guest) is None
        store.close()
        file_of(tmp_path).unlink()
        assert sessions.principal(sid) is None
        assert store.accounts() == ()
