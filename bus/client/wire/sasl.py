"""The client's part of a SASL login: PLAIN (RFC 4616), SCRAM (RFC 5802, RFC 7677), OAUTHBEARER
(RFC 7628).

In: user, password or bearer tokens, the server's tokens. Out: the client's tokens. Raises
LoginRefused. Never: frames, sockets (only a nonce is drawn); a login that goes on where the server
has not proved that it knows the password (SCRAM).
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from bus.errors import ErrorCode
from bus.protocol.wire import ProtocolError
from bus.security.oauth_bearer import SEPARATOR, ClientFirstMessage, reason_of
from bus.security.sasl_server import OAUTHBEARER, PLAIN

MECHANISMS = (PLAIN, "SCRAM-SHA-256", "SCRAM-SHA-512", OAUTHBEARER)


RENEWED_AFTER = 0.85
"""Of a session's time, as Kafka's own client; behind its end the other side closes."""


def renewal_of(session_ms: int, now_s: float) -> float:
    """When to log in anew, on the clock of `now_s`; never for a session without an end."""
    return now_s + RENEWED_AFTER * session_ms / 1000 if session_ms else math.inf


class LoginRefused(ProtocolError):
    """The other side does not let us in; the text says why, fit for an operator."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail, ErrorCode.SASL_AUTHENTICATION_FAILED)


class TokenSource(Protocol):
    """Bearer tokens of one client."""

    def prepare(self) -> None:
        """Have a token. Blocks while one is fetched. Raises LoginRefused, ConnectionError where
        none can be had now."""

    @property
    def is_prepared(self) -> bool:
        """Whether `prepare` has nothing to do."""

    def held(self) -> str:
        """The newest token; never blocks. Raises LoginRefused where there is none."""


@dataclass(frozen=True, slots=True)
class SaslLogin:
    """Who logs in, and how; of any number of connections. `tokens`: instead of a password. They
    are prepared by whoever opens a connection."""

    mechanism: str
    user: str
    password: str = field(repr=False)
    tokens: TokenSource | None = field(default=None, repr=False)

    is_slow: ClassVar[bool] = False
    """Whether `prepared` may wait for others; it is called off the loop then."""

    def prepared(self, host: str) -> SaslLogin:
        """For a connection to this host. Raises LoginRefused."""
        return self

    def begin(self) -> SaslExchange:
        """The login of one connection."""
        if self.tokens is not None:
            return SaslExchange(_oauth_bearer(self.tokens))
        return SaslExchange(_plain(self) if self.mechanism == PLAIN else _scram(self))


class SaslExchange:
    """Tokens of one login, in turn."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    def first(self) -> bytes:
        """What the client begins with. Raises LoginRefused."""
        token = self._advance(None)
        if token is None:
            raise LoginRefused("the login has ended before its first token")
        return token

    def answer(self, received: bytes) -> bytes | None:
        """What to send after this token of the server; None: the login is complete. Raises
        LoginRefused."""
        return self._advance(received)

    def _advance(self, received: bytes | None) -> bytes | None:
        try:
            return self._tokens.send(received)
        except StopIteration:
            return None
        except ValueError as error:  # also: no UTF-8, no base64
            raise LoginRefused(f"the login makes no sense: {error}") from None


Tokens = Generator[bytes, bytes | None, None]
"""Gives the client's tokens, takes the server's."""


def _plain(login: SaslLogin) -> Tokens:
    yield f"\0{login.user}\0{login.password}".encode()


def _scram(login: SaslLogin) -> Tokens:
    from scramp import ScramClient, ScramException  # a tenth of a second of CPU; few log in

    client = ScramClient([login.mechanism], login.user, login.password)
    try:
        received = yield client.get_client_first().encode()
        client.set_server_first(_text(received))
        received = yield client.get_client_final().encode()
        client.set_server_final(_text(received))
    except ScramException as error:
        raise ValueError(str(error)) from None


def _oauth_bearer(tokens: TokenSource) -> Tokens:
    reason = yield ClientFirstMessage(tokens.held()).encode()
    if reason:
        yield SEPARATOR.encode()  # it is read; the server then ends the login with an error
        raise LoginRefused(f"the token is not taken: {reason_of(reason)}")


def _text(received: bytes | None) -> str:
    return (received or b"").decode()
