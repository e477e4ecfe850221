"""Accounts cross the bus sealed: nobody without the key reads or changes them."""

from __future__ import annotations

import base64

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.contracts.account_snapshot import SealedAccounts, decode_snapshot
from monitor.accounts.sealing import MAX_ACCOUNTS, AccountRow, AccountSealing, SealingError

SECRET = "a long secret that both sites have"
ROWS = [AccountRow("wang", "admin", "scrypt$line"), AccountRow("li", "watch", "scrypt$other")]
TEXTS = st.text(max_size=30)


@given(st.lists(st.builds(AccountRow, TEXTS, TEXTS, TEXTS), max_size=5), st.integers(0, 1 << 50))
def test_what_is_sealed_is_opened_again(rows: list[AccountRow], version: int):
    sealed = AccountSealing(SECRET).seal(rows, version)
    found = decode_snapshot(msgspec.json.encode(sealed))
    assert found == sealed
    assert AccountSealing(SECRET).open(found) == rows


def test_no_name_and_no_hash_can_be_read_and_two_seals_share_nothing():
    sealing = AccountSealing(SECRET)
    first, second = (sealing.seal(ROWS, 1) for _ in range(2))
    assert first.sealed != second.sealed
    for text in (b"wang", b"scrypt"):
        assert text not in base64.b64decode(first.sealed)


@given(st.data())
def test_a_snapshot_with_any_bit_changed_is_refused(data: st.DataObject):
    sealed = AccountSealing(SECRET).seal(ROWS, 1)
    raw = bytearray(base64.b64decode(sealed.sealed))
    bit = data.draw(st.integers(0, 8 * len(raw) - 1))
    raw[bit // 8] ^= 1 << bit % 8
    altered = msgspec.structs.replace(sealed, sealed=base64.b64encode(raw).decode())
    with pytest.raises(SealingError, match="altered"):
        AccountSealing(SECRET).open(altered)


def test_another_key_and_another_version_open_nothing():
    """An old snapshot cannot be passed off as a new one."""
    sealed = AccountSealing(SECRET).seal(ROWS, 1)
    with pytest.raises(SealingError, match="accounts_secret"):
        AccountSealing(SECRET + "x").open(sealed)
    with pytest.raises(SealingError, match="altered"):
        AccountSealing(SECRET).open(msgspec.structs.replace(sealed, version=2))


@pytest.mark.parametrize(("count", "line"), [(MAX_ACCOUNTS + 1, ""), (10, "x" * 100_000)])
def test_what_the_other_site_could_not_open_is_not_sealed(count: int, line: str):
    """Before, it was published again and again, or read by nobody."""
    rows = [AccountRow(f"n{each}", "operations", line) for each in range(count)]
    with pytest.raises(SealingError, match="at most"):
        AccountSealing(SECRET).seal(rows, 1)


@given(st.text(max_size=60), st.text(max_size=60))
def test_any_text_in_place_of_a_snapshot_is_refused_with_a_sentence(nonce: str, sealed: str):
    with pytest.raises(SealingError):
        AccountSealing(SECRET).open(SealedAccounts(version=1, nonce=nonce, sealed=sealed))


@given(st.binary(max_size=200))
def test_any_bytes_are_a_snapshot_or_none(value: bytes):
    found = decode_snapshot(value)
    assert found is None or isinstance(found, SealedAccounts)


def test_units_are_sealed_and_rows_without_one_are_as_before():
    """A console of an earlier version takes a snapshot in which nobody has a unit."""
    rows = [*ROWS, AccountRow("sun", "viewer", "line", "north", "d1,d2")]
    sealing = AccountSealing(SECRET)
    assert sealing.open(sealing.seal(rows, 1)) == rows
    assert [len(row.sealed) for row in rows] == [3, 3, 5]


@pytest.mark.parametrize("row", [["a"], ["a", "b"], ["a", "b", "c", "d", "e", "f"], ["a", "b", 3]])
def test_a_row_with_more_or_less_than_it_has_is_refused(row: list[object]):
    """Sealed with the right key by something else."""
    sealing = AccountSealing(SECRET)
    nonce = b"0" * 12
    plain = sealing._cipher.encrypt(nonce, msgspec.json.encode([row]), b"databus accounts 1 7")
    texts = (base64.b64encode(one).decode() for one in (nonce, plain))
    with pytest.raises(SealingError, match="no snapshot"):
        sealing.open(SealedAccounts(version=7, nonce=next(texts), sealed=next(texts)))
