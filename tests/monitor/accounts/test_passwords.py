"""Passwords: scrypt lines."""

import pytest

from monitor.accounts.passwords import UNKNOWN_ACCOUNT, WeakPassword, hash_password, verify_password


def test_a_password_fits_its_own_line_and_no_other() -> None:
    """The line contains its cost and salt."""
    line = hash_password("correct horse")
    assert line.startswith("scrypt$32768$8$1$")
    assert verify_password("correct horse", line)
    assert not verify_password("correct horsf", line)


def test_two_hashes_of_one_password_differ() -> None:
    """Every line has its own salt."""
    assert hash_password("correct horse") != hash_password("correct horse")


@pytest.mark.parametrize("password", ["", "short", "x" * 257])
def test_a_weak_password_is_refused(password: str) -> None:
    """Too short, or long enough to cost us time."""
    with pytest.raises(WeakPassword):
        hash_password(password)


@pytest.mark.parametrize(
    "line", ["", "plain", "md5$1$1$1$AA==$AA==", "scrypt$x$8$1$AA==$AA==", "scrypt$3$8$1$AA==$AA=="]
)
def test_a_line_that_cannot_be_read_fits_no_password(line: str) -> None:
    """A damaged store admits no one."""
    assert not verify_password("correct horse", line)


def test_nobody_has_no_password() -> None:
    """The line for unknown names costs as much as a real one and fits nothing."""
    assert UNKNOWN_ACCOUNT.split("$")[1:4] == hash_password("correct horse").split("$")[1:4]
    assert not verify_password("", UNKNOWN_ACCOUNT)
