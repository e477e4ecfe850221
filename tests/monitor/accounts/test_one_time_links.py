"""One-time links."""

import time
from pathlib import Path

import pytest

from monitor.accounts.database import AccountDatabase
from monitor.accounts.one_time_links import issue_one_time_link, redeem
from monitor.accounts.roles import AccountRole


def test_a_link_opens_once(tmp_path: Path) -> None:
    """The second one who clicks stays outside."""
    database = AccountDatabase(tmp_path)
    link = issue_one_time_link(tmp_path, roles=[AccountRole.VIEWER], base_url="http://console:1")
    base, _, token = link.rpartition("/")
    assert base == "http://console:1/auth/once"
    now_ms = time.time_ns() // 1_000_000
    principal = redeem(database, token, now_ms)
    assert principal is not None
    assert principal.roles == {AccountRole.VIEWER}
    assert redeem(database, token, now_ms) is None


def test_a_link_expires_and_an_invented_one_opens_nothing(tmp_path: Path) -> None:
    """An expired link is removed, too."""
    database = AccountDatabase(tmp_path)
    token = issue_one_time_link(tmp_path, minutes=1).rpartition("/")[2]
    assert token.encode() not in (tmp_path / "console" / "accounts.db").read_bytes()
    now_ms = time.time_ns() // 1_000_000
    assert redeem(database, "invented", now_ms) is None
    assert redeem(database, token, now_ms + 61_000) is None
    assert redeem(database, token, now_ms) is None


def test_expired_links_are_removed_and_the_oldest_make_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file does not grow with the starts of `demo`."""
    monkeypatch.setattr("monitor.accounts.one_time_links.MAX_LINKS", 2)
    issue_one_time_link(tmp_path, minutes=0)
    tokens = [issue_one_time_link(tmp_path).rpartition("/")[2] for _ in range(3)]
    database = AccountDatabase(tmp_path)
    assert database.read("SELECT count(*) FROM links") == [(2,)]
    now_ms = time.time_ns() // 1_000_000
    assert [redeem(database, t, now_ms) is not None for t in tokens] == [False, True, True]


def test_an_invented_token_costs_no_write(tmp_path: Path) -> None:
    """Strangers may ask for as many as they like."""
    issue_one_time_link(tmp_path)
    database = AccountDatabase(tmp_path)
    with database.transaction():  # a second one would wait for it
        assert redeem(database, "invented", 0) is None
