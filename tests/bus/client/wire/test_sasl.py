"""Logins of the wire client: tokens of SCRAM and PLAIN, and what a broker's answers make of them."""

from __future__ import annotations

import random

import pytest
from scramp import ScramMechanism

from bus.client.wire.connection import ClientConnection, UnsupportedVersion
from bus.client.wire.sasl import LoginRefused, SaslLogin
from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.generated.api_versions import ApiVersion, ApiVersionsResponse
from bus.protocol.generated.sasl_authenticate import SaslAuthenticateResponse
from bus.protocol.generated.sasl_handshake import SaslHandshakeResponse

SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
VERSIONS = ApiVersionsResponse(
    api_keys=[
        ApiVersion(ApiKey.API_VERSIONS, 0, 4),
        ApiVersion(ApiKey.SASL_HANDSHAKE, 0, 1),
        ApiVersion(ApiKey.SASL_AUTHENTICATE, 0, 2),
    ]
)


def connection(login: SaslLogin) -> ClientConnection:
    """One that waits for the answer to its ApiVersions."""
    made = ClientConnection("test", login=login)
    made.handshake()
    return made


@pytest.mark.parametrize("mechanism", SCRAM)
@pytest.mark.parametrize("password", ["plain", "密码, with = and ,", 'a"b\\c'])
def test_a_server_of_scram_lets_in_who_knows_the_password(mechanism: str, password: str):
    """The server of another implementation's part; both prove that they know it."""
    stored = ScramMechanism(mechanism).make_auth_info(password)
    server = ScramMechanism(mechanism).make_server(lambda user: stored)
    exchange = SaslLogin(mechanism, "a=b,c", password).begin()
    server.set_client_first(exchange.first().decode())
    final = exchange.answer(server.get_server_first().encode())
    assert final is not None
    server.set_client_final(final.decode())
    assert exchange.answer(server.get_server_final().encode()) is None


@pytest.mark.parametrize("mechanism", SCRAM)
def test_a_server_that_does_not_know_the_password_is_not_believed(mechanism: str):
    """It may be anybody who listens at that address."""
    stored = ScramMechanism(mechanism).make_auth_info("another one")
    server = ScramMechanism(mechanism).make_server(lambda user: stored)
    exchange = SaslLogin(mechanism, "city", "secret").begin()
    server.set_client_first(exchange.first().decode())
    exchange.answer(server.get_server_first().encode())
    with pytest.raises(LoginRefused):
        exchange.answer(b"v=" + b"A" * 43 + b"=")


def test_garbage_of_a_server_refuses_the_login_and_raises_nothing_else(dice: random.Random):
    """Any bytes, at each step."""
    for _ in range(300):
        exchange = SaslLogin(dice.choice(SCRAM), "city", "secret").begin()
        first = exchange.first().decode().partition(",r=")[2]
        fitting = f"r={first}abc,s=QSXCR+Q6sek8bf92QSXCR+Q6,i=4096".encode()
        if dice.random() < 0.5:
            exchange.answer(fitting)
        elif dice.random() < 0.5:
            at = dice.randrange(len(fitting))
            fitting = fitting[:at] + dice.randbytes(dice.randrange(4)) + fitting[at + 1 :]
        received = dice.choice((dice.randbytes(dice.randrange(40)), fitting, b"", b"e=no", b"v="))
        try:
            exchange.answer(received)
        except LoginRefused:
            continue


def test_the_secret_is_in_no_representation():
    """A login is in tracebacks and logs."""
    assert "hidden" not in repr(SaslLogin("PLAIN", "city", "hidden"))


def test_after_the_versions_comes_the_login_and_then_requests():
    """The order of KIP-43; PLAIN has one token."""
    made = connection(SaslLogin("PLAIN", "city", "secret"))
    asked = made.on_handshake(VERSIONS)
    assert asked is not None
    assert b"PLAIN" in b"".join(bytes(one) for one in asked)
    token = made.on_handshake(SaslHandshakeResponse(0, ["PLAIN"]))
    assert token is not None
    assert b"\0city\0secret" in b"".join(bytes(one) for one in token)
    assert made.on_handshake(SaslAuthenticateResponse()) is None


def test_a_mechanism_that_is_not_offered_is_named_with_those_that_are():
    """So that the operator writes another one."""
    made = connection(SaslLogin("PLAIN", "city", "secret"))
    made.on_handshake(VERSIONS)
    code = ErrorCode.UNSUPPORTED_SASL_MECHANISM.value
    with pytest.raises(LoginRefused, match=r"PLAIN is not offered.*these are: SCRAM-SHA-512"):
        made.on_handshake(SaslHandshakeResponse(code, ["SCRAM-SHA-512"]))


def test_a_refused_login_says_who_and_why():
    """Not the password."""
    made = connection(SaslLogin("PLAIN", "city", "secret"))
    made.on_handshake(VERSIONS)
    made.on_handshake(SaslHandshakeResponse(0, ["PLAIN"]))
    code = ErrorCode.SASL_AUTHENTICATION_FAILED.value
    with pytest.raises(LoginRefused, match=r"user 'city'.*PLAIN: wrong") as refused:
        made.on_handshake(SaslAuthenticateResponse(code, "wrong"))
    assert "secret" not in str(refused.value)


def test_a_listener_that_knows_no_login_is_said():
    """A plaintext listener of ours."""
    made = connection(SaslLogin("PLAIN", "city", "secret"))
    with pytest.raises(UnsupportedVersion, match="SaslHandshake"):
        made.on_handshake(ApiVersionsResponse(api_keys=[ApiVersion(ApiKey.API_VERSIONS, 0, 4)]))
