"""How clients of each listener with SASL log in. Pure.

In: the settings of the listeners, the credentials of the newest metadata, nonces. Out: handshakes,
and how long a session lasts. Never: messages of a mechanism (`bus.security.sasl_server`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from broker.security.delegation_tokens import DelegationTokens
from broker.security.token_keys import TokenSettings
from bus.errors import CloseConnection
from bus.security.gssapi_sasl import GSSAPI
from bus.security.oauth_bearer import BearerExchange, BearerToken
from bus.security.sasl_server import (
    OAUTHBEARER,
    PLAIN,
    SCRAM_BY_TITLE,
    PlainExchange,
    ScramCredential,
    ScramExchange,
    ScramMechanism,
    ServerExchange,
)

LEAST_RENEWAL_S = 1.0
"""Between two handshakes of one connection, as in Kafka."""


@dataclass(frozen=True, slots=True)
class LoginSettings:
    """Of one listener."""

    mechanisms: tuple[str, ...]
    passwords: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Of the users of PLAIN."""
    lifetime_ms: int = 0
    """Of a session; 0: as long as its connection, or as what its client logs in with."""
    bearer_tokens: TokenSettings | None = None
    """Of OAUTHBEARER, where the listener offers it."""
    gssapi: Callable[[], ServerExchange] | None = None
    """Begins a login by Kerberos, where it is offered."""


class Logins:
    """The listeners with SASL of one process, by name."""

    def __init__(
        self,
        settings: Mapping[str, LoginSettings],
        credential_of: Callable[[ScramMechanism, str], ScramCredential | None],
        tokens: DelegationTokens,
        new_nonce: Callable[[], str],
        failed_delay_ms: int,
        judge_token: Callable[[str, str], BearerToken],
    ) -> None:
        """`failed_delay_ms`: how long a client that is not let in waits for its answer.
        `judge_token`: whose token it is at a listener; raises TokenRefused."""
        self._settings = settings
        self._credential_of = credential_of
        self._tokens = tokens
        self._new_nonce = new_nonce
        self._secret = new_nonce().encode()
        self._judge_token = judge_token
        self.failed_delay_ms = failed_delay_ms

    def of(self, listener: str) -> LoginSettings | None:
        """The settings of a listener; None: it has no SASL."""
        return self._settings.get(listener)

    def begin(self, listener: str, mechanism: str) -> ServerExchange:
        """A handshake by a mechanism that the listener offers."""
        if mechanism == PLAIN:
            return PlainExchange(self._settings[listener].passwords)
        if mechanism == OAUTHBEARER:
            return BearerExchange(lambda token: self._judge_token(listener, token))
        if (begin := self._settings[listener].gssapi) is not None and mechanism == GSSAPI:
            return begin()
        scram = SCRAM_BY_TITLE[mechanism]
        return ScramExchange(
            scram,
            lambda user: self._credential_of(scram, user),
            self._new_nonce(),
            self._secret,
            lambda token_id, salt: self._tokens.credential(scram, token_id, salt),
        )


class ClosingExchange:
    """In the place of a handshake that renews a session by another mechanism than before."""

    user: str | None = None
    has_token = False
    ends_at_ms: int | None = None

    def answer(self, token: bytes) -> bytes:
        """Raises CloseConnection, whatever the token: Kafka does not answer it either."""
        raise CloseConnection("its session was to be renewed by another mechanism than before")
