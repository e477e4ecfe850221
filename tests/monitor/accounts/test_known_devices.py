"""The cookie of a known device."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.accounts import known_devices
from monitor.accounts.known_devices import MAX_NAMES, KnownDevices

DEVICES = KnownDevices("a secret of a console")
names = st.text(min_size=1, max_size=64)


@given(st.lists(names, min_size=1, max_size=MAX_NAMES, unique=True), names)
def test_a_device_knows_who_has_logged_in_there_and_nobody_else(
    logged_in: list[str], other: str
) -> None:
    """One id for all of them."""
    cookie = ""
    for name in logged_in:
        cookie = DEVICES.logged_in(cookie, name)
    ids = {DEVICES.device(cookie, name) for name in logged_in}
    assert len(ids) == 1
    assert ids != {""}
    assert bool(DEVICES.device(cookie, other)) == (other in logged_in)
    assert len(cookie) < 1_000


def test_of_too_many_names_the_oldest_is_forgotten() -> None:
    """Another log-in makes a name the newest."""
    cookie = ""
    for number in [*range(MAX_NAMES), 0, MAX_NAMES]:
        cookie = DEVICES.logged_in(cookie, f"name-{number}")
    assert DEVICES.device(cookie, "name-0")
    assert not DEVICES.device(cookie, "name-1")


@given(st.text())
def test_what_is_not_ours_is_no_device(cookie: str) -> None:
    """Anything, as cookies come."""
    assert DEVICES.device(cookie, "li") == ""
    assert DEVICES.device(DEVICES.logged_in(cookie, "li"), "li")


def test_one_of_another_console_or_too_old_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """The secret signs it, and so does the time."""
    cookie = DEVICES.logged_in("", "li")
    assert KnownDevices("another secret").device(cookie, "li") == ""
    monkeypatch.setattr(known_devices, "LIFETIME_S", -1)
    assert DEVICES.device(cookie, "li") == ""
