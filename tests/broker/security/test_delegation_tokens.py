"""What is made of tokens with the secret key: HMACs, credentials, and who sees what."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.security.delegation_tokens import (
    MOST_CREDENTIALS,
    DelegationTokens,
    is_about,
    is_expired,
    is_visible,
    may_renew,
)
from broker.security.principal import Principal
from broker.security.principal_data import decode_principal, encode_principal
from bus.protocol.generated.metadata_records import DelegationTokenRecord
from bus.security.sasl_server import LEAST_ITERATIONS, ScramMechanism

ONE, OTHER = ScramMechanism
SALT = b"0123456789abcdef"
NOW_MS = 1_000_000
OWNER, REQUESTER, RENEWER, STRANGER = (Principal("User", one) for one in "abcd")


def token(token_id: str = "t1", ends_at_ms: int = NOW_MS, owner: str = "User:a") -> DelegationTokenRecord:
    return DelegationTokenRecord(owner, "User:b", ["User:c"], 0, NOW_MS * 2, ends_at_ms, token_id)


def held(*tokens: DelegationTokenRecord) -> dict[str, DelegationTokenRecord]:
    return {one.token_id: one for one in tokens}


class Node:
    """One that has read these tokens."""

    def __init__(self, key: str, tokens: Mapping[str, DelegationTokenRecord]) -> None:
        self.now_ms = NOW_MS
        self.held = tokens
        self.tokens = DelegationTokens(key, lambda: self.held, lambda: self.now_ms)


def test_every_node_with_the_key_finds_a_token_by_the_same_hmac() -> None:
    """HMAC-SHA-512 of the id, as Kafka makes it; another key has another one."""
    node, same, other = (Node(key, held(token())) for key in ("key", "key", "other"))
    expected = hmac.new(b"key", b"t1", hashlib.sha512).digest()
    assert node.tokens.hmac_of("t1") == same.tokens.hmac_of("t1") == expected
    assert node.tokens.token_of(node.held, expected) == token()
    assert other.tokens.token_of(other.held, expected) is None


@given(st.lists(st.sets(st.sampled_from([f"t{number}" for number in range(6)])), max_size=8))
def test_a_token_is_found_as_long_as_it_is_there(images: list[set[str]]) -> None:
    """However the tokens change from one image to the next."""
    node = Node("key", {})
    for ids in images:
        image = held(*(token(one) for one in ids))
        for number in range(6):
            found = node.tokens.token_of(image, node.tokens.hmac_of(f"t{number}"))
            assert (found is not None) == (f"t{number}" in ids)


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_the_password_of_a_token_is_its_hmac_in_base64(mechanism: ScramMechanism) -> None:
    node = Node("key", held(token()))
    made = node.tokens.credential(mechanism, "t1", SALT)
    assert made is not None
    assert (made.owner, made.ends_at_ms) == ("a", NOW_MS)
    password = base64.b64encode(node.tokens.hmac_of("t1"))
    name = mechanism.hash_name
    salted = hashlib.pbkdf2_hmac(name, password, SALT, LEAST_ITERATIONS)
    stored = hashlib.new(name, hmac.new(salted, b"Client Key", name).digest()).digest()
    assert made.credential.stored_key == stored
    assert made.credential.salt == SALT
    assert node.tokens.credential(mechanism, "t1", SALT) is made, "made once"


def test_nobody_logs_in_by_a_token_that_has_ended_or_is_gone() -> None:
    """Also where it has been logged in with before; a renewed one has a later end."""
    node = Node("key", held(token()))
    assert node.tokens.credential(ONE, "t1", SALT)
    node.now_ms = NOW_MS + 1
    assert node.tokens.credential(ONE, "t1", SALT) is None
    node.held = held(token(ends_at_ms=NOW_MS + 5))
    renewed = node.tokens.credential(ONE, "t1", SALT)
    assert renewed is not None
    assert renewed.ends_at_ms == NOW_MS + 5
    node.held = {}
    assert node.tokens.credential(ONE, "t1", SALT) is None


def test_without_a_key_there_are_no_tokens() -> None:
    node = Node("", held(token()))
    assert not node.tokens.is_enabled
    assert node.tokens.credential(ONE, "t1", SALT) is None


def test_nobody_becomes_a_user_by_the_token_of_what_is_none() -> None:
    """A Group of the same name is not the user."""
    assert Node("key", held(token(owner="Group:a"))).tokens.credential(ONE, "t1", SALT) is None


def test_what_is_kept_for_the_next_login_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.security.delegation_tokens.MOST_CREDENTIALS", 3)
    assert MOST_CREDENTIALS > 3
    node = Node("key", held(*(token(f"t{number}") for number in range(8))))
    for number in range(8):
        assert node.tokens.credential(ONE, f"t{number}", SALT)
        assert len(node.tokens._credentials) <= 3


def test_a_token_ends_with_its_time_or_with_its_life() -> None:
    assert not is_expired(token(), NOW_MS)
    assert is_expired(token(), NOW_MS + 1)
    assert is_expired(token(ends_at_ms=NOW_MS * 3), NOW_MS * 2 + 1)


def test_owner_and_renewers_renew_and_who_asked_for_a_token_only_sees_it() -> None:
    expected = [(OWNER, True, True), (RENEWER, True, True), (REQUESTER, False, True), (STRANGER, False, False)]
    for who, renews, sees in expected:
        assert may_renew(token(), who) is renews
        assert is_about(token(), who) is sees
        assert is_visible(token(), who, None, lambda _: False) is sees
        assert is_visible(token(), who, None, lambda _: True)
        assert is_visible(token(), who, [STRANGER], lambda _: True) is False
        assert is_visible(token(), who, [STRANGER, OWNER], lambda _: False) is sees
        assert is_visible(token(), who, [], lambda _: True) is False


def test_a_broker_that_forwards_says_that_its_client_has_a_token() -> None:
    """Else it could make others at the controller. Everything else takes it for the same user."""
    by_token = Principal("User", "a", has_token=True)
    assert by_token == OWNER
    assert hash(by_token) == hash(OWNER)
    for one in (by_token, OWNER):
        sent = decode_principal(encode_principal(one))
        assert (sent, sent.has_token) == (one, one.has_token)


@given(st.text(), st.text())
def test_a_principal_is_read_as_it_is_written(kind: str, name: str) -> None:
    given_one = Principal(kind.replace(":", ""), name)
    assert Principal.parse(str(given_one)) == given_one
    with pytest.raises(ValueError, match="is no principal"):
        Principal.parse(name.replace(":", ""))
