"""Clients that log in with a delegation token, written for tests from the RFCs and KIP-48: our own
client and librdkafka cannot."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from typing import Any

from bus.protocol.apis import ApiKey
from bus.protocol.generated.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from bus.protocol.generated.sasl_authenticate import SaslAuthenticateRequest
from bus.protocol.generated.sasl_handshake import SaslHandshakeRequest
from bus.security.sasl_server import ScramMechanism
from tests.broker.handlers.test_every_version import FrameSocket


class ScramClient:
    """One login, both messages. `extensions` go behind the first one."""

    def __init__(
        self, mechanism: ScramMechanism, user: str, password: str, extensions: str = ""
    ) -> None:
        self._hash = mechanism.hash_name
        self._password = password.encode()
        self._nonce = secrets.token_hex(12)
        self._bare = f"n={user},r={self._nonce}{extensions}"
        self._expected = b""

    def first(self) -> bytes:
        return f"n,,{self._bare}".encode()

    def final(self, told: bytes) -> bytes:
        parts = dict(part.split("=", 1) for part in told.decode().split(","))
        assert parts["r"].startswith(self._nonce), parts
        salted = hashlib.pbkdf2_hmac(
            self._hash, self._password, base64.b64decode(parts["s"]), int(parts["i"])
        )
        key = hmac.digest(salted, b"Client Key", self._hash)
        unproved = f"c=biws,r={parts['r']}"
        signed = f"{self._bare},{told.decode()},{unproved}".encode()
        signature = hmac.digest(hashlib.new(self._hash, key).digest(), signed, self._hash)
        proof = bytes(one ^ other for one, other in zip(key, signature, strict=True))
        server_key = hmac.digest(salted, b"Server Key", self._hash)
        self._expected = hmac.digest(server_key, signed, self._hash)
        return f"{unproved},p={base64.b64encode(proof).decode()}".encode()

    def check(self, told: bytes) -> None:
        """The server has proved that it knows the password."""
        assert told == b"v=" + base64.b64encode(self._expected)


def log_in(
    wire: FrameSocket, user: str, password: str, *, by_token: bool = False,
    mechanism: ScramMechanism = ScramMechanism.SCRAM_SHA_256,
) -> Any:  # fmt: skip
    """The last answer to the login. Raises ConnectionError."""
    handshake = wire.ask(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism.title))
    if handshake.error_code:
        return handshake
    client = ScramClient(mechanism, user, password, ",tokenauth=true" if by_token else "")
    answer = wire.ask(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(client.first()))
    if answer.error_code:
        return answer
    final = client.final(bytes(answer.auth_bytes))
    answer = wire.ask(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(final))
    if not answer.error_code:
        client.check(bytes(answer.auth_bytes))
    return answer


def log_in_by(
    wire: FrameSocket, token: CreateDelegationTokenResponse,
    mechanism: ScramMechanism = ScramMechanism.SCRAM_SHA_256,
) -> Any:  # fmt: skip
    """As the token's owner."""
    password = base64.b64encode(token.hmac).decode()
    return log_in(wire, token.token_id, password, by_token=True, mechanism=mechanism)


def create(
    wire: FrameSocket, *renewers: str, owner: str | None = None, lifetime_ms: int = -1
) -> Any:
    """The answer to a request for a token; renewers and owner are users."""
    request = CreateDelegationTokenRequest(
        None if owner is None else "User", owner,
        [CreatableRenewers("User", one) for one in renewers], lifetime_ms,
    )  # fmt: skip
    return wire.ask(ApiKey.CREATE_DELEGATION_TOKEN, 3, request)
