"""Sessions."""

from pathlib import Path

import pytest

from monitor.accounts.roles import EVERYBODY, AccountRole, ConsolePrincipal
from monitor.accounts.sessions import SessionStore
from monitor.accounts.store import AccountStore

HOUR_MS = 3_600_000


class SteppedClock:
    """Time as the test wants it."""

    now_ms = 1_000_000

    def __call__(self) -> int:
        return self.now_ms


def make(tmp_path: Path) -> tuple[AccountStore, SessionStore, SteppedClock]:
    store, clock = AccountStore(tmp_path), SteppedClock()
    return store, SessionStore(store, lifetime_ms=HOUR_MS, now_ms=clock), clock


def test_a_session_outlives_a_restart_and_not_its_time(tmp_path: Path) -> None:
    """It is on disk, as a hash only."""
    store, sessions, clock = make(tmp_path)
    store.add("li", "correct horse", [AccountRole.VIEWER])
    sid = sessions.open(ConsolePrincipal(name="li", roles=frozenset({AccountRole.VIEWER})))
    store.close()
    again = SessionStore(AccountStore(tmp_path), lifetime_ms=HOUR_MS, now_ms=clock)
    assert again.principal(sid) is not None
    assert (tmp_path / "console" / "accounts.db").read_bytes().count(sid.encode()) == 0
    clock.now_ms += HOUR_MS
    assert again.principal(sid) is None


def test_every_session_has_its_own_id_and_closing_one_leaves_the_other(tmp_path: Path) -> None:
    """Logging in twice rotates the id."""
    _, sessions, _ = make(tmp_path)
    guest = ConsolePrincipal(name="demo", roles=EVERYBODY)
    first, second = sessions.open(guest, guest=True), sessions.open(guest, guest=True)
    assert first != second
    known = sessions.principal(first)
    assert known is not None
    sessions.close(known.session)
    assert sessions.principal(first) is None
    assert sessions.principal(second) is not None


def test_a_new_password_a_lost_role_and_a_removed_account_take_effect_at_once(
    tmp_path: Path,
) -> None:
    """Without waiting for the session to end."""
    store, sessions, _ = make(tmp_path)
    store.add("li", "correct horse", [AccountRole.VIEWER])
    principal = ConsolePrincipal(name="li", roles=frozenset({AccountRole.VIEWER}))
    old = sessions.open(principal)
    store.set_password("li", "another horse")
    assert sessions.principal(old) is None
    new = sessions.open(principal)
    store.remove("li")
    assert sessions.principal(new) is None


def test_expired_sessions_are_removed_and_the_oldest_make_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file does not grow with the log-ins."""
    monkeypatch.setattr("monitor.accounts.sessions.MAX_SESSIONS", 3)
    store, sessions, clock = make(tmp_path)
    guest = ConsolePrincipal(name="demo", roles=EVERYBODY)
    for _ in range(2):
        sessions.open(guest, guest=True)
    clock.now_ms += HOUR_MS
    opened = [sessions.open(guest, guest=True) for _ in range(4)]
    assert [sessions.principal(sid) is not None for sid in opened] == [False, True, True, True]
    assert store.database.read("SELECT count(*) FROM sessions") == [(3,)]
    clock.now_ms += HOUR_MS
    sessions.remove_expired()
    assert store.database.read("SELECT count(*) FROM sessions") == [(0,)]


def test_a_session_without_roles_may_nothing(tmp_path: Path) -> None:
    """The session itself is valid."""
    _, sessions, _ = make(tmp_path)
    found = sessions.principal(sessions.open(ConsolePrincipal(name="x", roles=frozenset()), guest=True))
    assert found is not None
    assert found.roles == frozenset()
