"""Messages of OAUTHBEARER, both ends against each other and against garbage."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.client.wire.sasl import LoginRefused, SaslLogin
from bus.security.oauth_bearer import (
    MOST_REASON_BYTES,
    BearerExchange,
    BearerToken,
    ClientFirstMessage,
    TokenRefused,
    parse_client_first,
    reason_of,
)
from bus.security.sasl_server import OAUTHBEARER, NotAuthenticated

GOOD = "abc.def-_~+/.ghi="
TOKENS = st.from_regex(r"[-_~+/.a-zA-Z0-9]{1,200}={0,2}", fullmatch=True)
NAMES = st.from_regex(r"(?:[\x21-\x2b\x2d-\x3c\x3e-\x7e]|=2C|=3D){1,20}", fullmatch=True)
KEYS = st.from_regex(r"[A-Za-z]{1,10}", fullmatch=True).filter(lambda one: one != "auth")
VALUES = st.from_regex(r"[\x21-\x7e \t\r\n]{1,20}", fullmatch=True)


def judge(token: str) -> BearerToken:
    if token != GOOD:
        raise TokenRefused("not the good one")
    return BearerToken("camera-7", 5_000)


class HeldToken:
    """A client's token."""

    is_prepared = True

    def __init__(self, token: str) -> None:
        self._token = token

    def prepare(self) -> None:
        pass

    def held(self) -> str:
        return self._token


def login(token: str) -> SaslLogin:
    return SaslLogin(OAUTHBEARER, "camera-7", "", HeldToken(token))


@given(TOKENS, st.one_of(st.just(""), NAMES), st.dictionaries(KEYS, VALUES, max_size=4))
def test_what_a_client_says_the_server_reads(
    token: str, authorization: str, extensions: dict[str, str]
) -> None:
    said = ClientFirstMessage(token, authorization, extensions)
    assert parse_client_first(said.encode()) == said


@given(st.one_of(st.binary(max_size=200), st.from_regex(
    rb"n,(?:a=[a-z=,]*)?,\x01(?:[a-z]*=[\x00-\x7f]{0,9}\x01)*\x01?", fullmatch=True)))  # fmt: skip
def test_garbage_is_refused_and_nothing_else_happens(message: bytes) -> None:
    exchange = BearerExchange(judge)
    try:
        exchange.answer(message)
    except NotAuthenticated:
        assert exchange.user is None


@pytest.mark.parametrize(
    "make",
    [
        lambda: ClientFirstMessage("a b"),
        lambda: ClientFirstMessage("a\x01auth=Bearer b"),
        lambda: ClientFirstMessage(""),
        lambda: ClientFirstMessage(GOOD, "a,b"),
        lambda: ClientFirstMessage(GOOD, "", {"auth": "x"}),
        lambda: ClientFirstMessage(GOOD, "", {"a1": "x"}),
        lambda: ClientFirstMessage(GOOD, "", {"a": "x\x01"}),
        lambda: ClientFirstMessage(GOOD, "", {"a": ""}),
        lambda: ClientFirstMessage("密"),
    ],
)
def test_what_a_message_cannot_carry_is_not_sent(make: Callable[[], ClientFirstMessage]) -> None:
    """Nothing of it becomes another part of the message."""
    with pytest.raises(ValueError, match=r"cannot be sent|OAUTHBEARER|codec"):
        make().encode()


def test_a_good_token_is_all_that_a_login_needs() -> None:
    client, server = login(GOOD).begin(), BearerExchange(judge)
    answer = server.answer(client.first())
    assert (answer, server.user, server.ends_at_ms) == (b"", "camera-7", 5_000)
    assert client.answer(answer) is None
    with pytest.raises(NotAuthenticated, match="after the login"):
        server.answer(b"\x01")


def test_a_refused_client_reads_why_before_the_login_ends() -> None:
    """The one byte that it then sends is answered with the refusal; no second token is looked at."""
    client, server = login("wrong").begin(), BearerExchange(judge)
    reason = server.answer(client.first())
    assert reason == b'{"status":"invalid_token"}'
    assert server.user is None
    said = client.answer(reason)
    assert said == b"\x01"
    for another, text in ((said, '{"status":"invalid_token"}'), (ClientFirstMessage(GOOD).encode(), None)):
        with pytest.raises(NotAuthenticated) as refused:
            server.answer(another)
        assert refused.value.text == text
        assert str(refused.value) == "not the good one"
    assert server.user is None
    with pytest.raises(LoginRefused, match="the token is not taken: 'invalid_token'"):
        client.answer(b"")


def test_another_authorization_id_is_refused_in_kafkas_words() -> None:
    with pytest.raises(NotAuthenticated) as refused:
        BearerExchange(judge).answer(ClientFirstMessage(GOOD, "root").encode())
    assert refused.value.text is not None
    assert "(root) that is different from the token's principal name (camera-7)" in refused.value.text
    same = BearerExchange(judge)
    assert same.answer(ClientFirstMessage(GOOD, "camera-7").encode()) == b""


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b'{"status":"invalid_token"}', "'invalid_token'"),
        (b'{"status":"insufficient_scope", "scope":"bus"}', "'insufficient_scope' (it wants the scope 'bus')"),
        (b"garbage", "it gives no reason"),
        (b'{"status":7}', "it gives no reason"),
        (b"[]", "it gives no reason"),
        (b"[" * 10_000, "it gives no reason"),
        (b"\xff", "it gives no reason"),
        (b" " * (MOST_REASON_BYTES + 1), "its reason is too long"),
    ],
)
def test_a_servers_reason_is_told_whatever_it_is(answer: bytes, said: str) -> None:
    assert reason_of(answer) == said


def test_neither_a_token_nor_a_secret_is_in_what_is_printed() -> None:
    told = repr(login("planted-secret")) + repr(ClientFirstMessage("planted-secret"))
    assert "planted-secret" not in told
