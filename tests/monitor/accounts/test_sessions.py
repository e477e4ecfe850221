"""Sessions and one-time links."""

import time
from pathlib import Path

from monitor.accounts.one_time_links import issue_one_time_link, redeem
from monitor.accounts.roles import EVERYBODY, Principal, Role
from monitor.accounts.sessions import Sessions
from monitor.accounts.store import AccountStore

HOUR_MS = 3_600_000


class Clock:
    """Time as the test wants it."""

    now_ms = 1_000_000

    def __call__(self) -> int:
        return self.now_ms


def make(tmp_path: Path) -> tuple[AccountStore, Sessions, Clock]:
    store, clock = AccountStore(tmp_path), Clock()
    return store, Sessions(tmp_path, store, lifetime_ms=HOUR_MS, now_ms=clock), clock


def test_a_session_outlives_a_restart_and_not_its_time(tmp_path: Path) -> None:
    """It is on disk, as a hash only."""
    store, sessions, clock = make(tmp_path)
    store.add("li", "correct horse", [Role.VIEWER])
    sid = sessions.open(Principal(name="li", roles=frozenset({Role.VIEWER})))
    again = Sessions(tmp_path, store, lifetime_ms=HOUR_MS, now_ms=clock)
    assert again.principal(sid) is not None
    assert sid not in (tmp_path / "console" / "sessions.json").read_text()
    clock.now_ms += HOUR_MS
    assert again.principal(sid) is None


def test_every_session_has_its_own_id_and_closing_one_leaves_the_other(tmp_path: Path) -> None:
    """Logging in twice rotates the id."""
    _, sessions, _ = make(tmp_path)
    guest = Principal(name="demo", roles=EVERYBODY)
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
    """Nobody has to wait for a session to end."""
    store, sessions, _ = make(tmp_path)
    store.add("li", "correct horse", [Role.VIEWER])
    principal = Principal(name="li", roles=frozenset({Role.VIEWER}))
    old = sessions.open(principal)
    store.set_password("li", "another horse")
    assert sessions.principal(old) is None
    new = sessions.open(principal)
    store.remove("li")
    assert sessions.principal(new) is None


def test_a_link_opens_once(tmp_path: Path) -> None:
    """The second one who clicks stays outside."""
    link = issue_one_time_link(tmp_path, roles=[Role.VIEWER], base_url="http://console:1")
    base, _, token = link.rpartition("/")
    assert base == "http://console:1/auth/once"
    now_ms = time.time_ns() // 1_000_000
    principal = redeem(tmp_path, token, now_ms)
    assert principal is not None
    assert principal.roles == {Role.VIEWER}
    assert redeem(tmp_path, token, now_ms) is None


def test_a_link_expires_and_an_invented_one_opens_nothing(tmp_path: Path) -> None:
    """And a link that was too late is gone as well."""
    token = issue_one_time_link(tmp_path, minutes=1).rpartition("/")[2]
    assert token not in (tmp_path / "console" / "links.json").read_text()
    now_ms = time.time_ns() // 1_000_000
    assert redeem(tmp_path, "invented", now_ms) is None
    assert redeem(tmp_path, token, now_ms + 61_000) is None
    assert redeem(tmp_path, token, now_ms) is None
