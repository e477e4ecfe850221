"""The session of one connection: who its client is, and for how long it is throttled. Pure.

In: the listener's protocol and the client's address when the connection is accepted; the events of
a handshake; until when the client is to be throttled. Out: the principal of the next request,
whether an API is served yet. Never: sockets, the messages of a mechanism, a clock.

On a listener without SASL a session is AUTHENTICATED from the start. With SASL:

    HANDSHAKE       the client chooses a mechanism; ApiVersions may come before
    AUTHENTICATE    messages of this mechanism
    AUTHENTICATED   every API is served, in the name of `principal`
    REAUTHENTICATE  messages of a later handshake (KIP-368); the principal is set once more
    FAILED          nothing is served; the connection is to be closed
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from broker.security.principal import ANONYMOUS, Principal
from broker.security.security_protocol import SecurityProtocol
from bus.protocol.apis import ApiKey
from bus.security.sasl_server import ServerExchange


class AuthenticationState(Enum):
    """How far the client has proved who it is."""

    HANDSHAKE = "handshake"
    AUTHENTICATE = "authenticate"
    AUTHENTICATED = "authenticated"
    REAUTHENTICATE = "reauthenticate"
    FAILED = "failed"


class AuthenticationEvent(Enum):
    """What a handshake reports."""

    MECHANISM_CHOSEN = "mechanism chosen"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


_STATE, _EVENT = AuthenticationState, AuthenticationEvent

TRANSITIONS: Mapping[tuple[AuthenticationState, AuthenticationEvent], AuthenticationState] = {
    (_STATE.HANDSHAKE, _EVENT.MECHANISM_CHOSEN): _STATE.AUTHENTICATE,
    (_STATE.HANDSHAKE, _EVENT.FAILED): _STATE.FAILED,
    (_STATE.AUTHENTICATE, _EVENT.SUCCEEDED): _STATE.AUTHENTICATED,
    (_STATE.AUTHENTICATE, _EVENT.FAILED): _STATE.FAILED,
    (_STATE.AUTHENTICATED, _EVENT.MECHANISM_CHOSEN): _STATE.REAUTHENTICATE,
    (_STATE.AUTHENTICATED, _EVENT.FAILED): _STATE.FAILED,
    (_STATE.REAUTHENTICATE, _EVENT.SUCCEEDED): _STATE.AUTHENTICATED,
    (_STATE.REAUTHENTICATE, _EVENT.FAILED): _STATE.FAILED,
}
"""Every other event in a state is one that the state does not expect, and fails the session."""

_SERVED: Mapping[AuthenticationState, frozenset[int]] = {
    _STATE.HANDSHAKE: frozenset({ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE}),
    _STATE.AUTHENTICATE: frozenset({ApiKey.SASL_AUTHENTICATE}),
    _STATE.REAUTHENTICATE: frozenset({ApiKey.SASL_AUTHENTICATE}),
    _STATE.FAILED: frozenset(),
}
"""The APIs of a state; AUTHENTICATED is not among them, for it serves all."""

NO_BROKER = -1


@dataclass(slots=True)
class Session:
    """One connection's client.

    Invariant: `principal` is ANONYMOUS until the first success of a handshake.
    """

    host: str
    listener: str = "PLAINTEXT"
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    principal: Principal = ANONYMOUS
    client_id: str | None = None
    """What the newest request calls its client; the name quotas are set for."""
    software_name: str = "unknown"
    software_version: str = "unknown"
    broker_id: int = NO_BROKER
    """The broker that sends heartbeats here, for a probe when the connection is lost."""
    throttled_until: float = 0.0
    """In the broker's monotonic seconds: no request is accepted before."""
    mechanism: str = ""
    """Of the newest handshake."""
    exchange: ServerExchange | None = None
    """The handshake under way."""
    renewed_at: float = -math.inf
    """In the broker's monotonic seconds: when the newest handshake began."""
    expires_at: float = math.inf
    """In the broker's monotonic seconds: after it nothing but another handshake is served."""
    state: AuthenticationState = field(init=False)

    def __post_init__(self) -> None:
        self.state = _STATE.HANDSHAKE if self.protocol.has_sasl else _STATE.AUTHENTICATED

    def serves(self, api_key: int) -> bool:
        """Whether a request of this API may be answered now."""
        return self.state is _STATE.AUTHENTICATED or api_key in _SERVED[self.state]

    @property
    def is_known(self) -> bool:
        """Whether the client has proved who it is, or need not."""
        return self.state in (_STATE.AUTHENTICATED, _STATE.REAUTHENTICATE)

    def on_mechanism_chosen(self) -> None:
        """A handshake begins: the first one, or that of a client that renews its authentication."""
        self._advance(_EVENT.MECHANISM_CHOSEN)

    def on_authenticated(self, principal: Principal) -> None:
        """The handshake has succeeded: requests from now on are this principal's."""
        self._advance(_EVENT.SUCCEEDED)
        self.exchange = None
        if self.state is _STATE.AUTHENTICATED:
            self.principal = principal

    def on_failed(self) -> None:
        """The client could not prove who it is."""
        self._advance(_EVENT.FAILED)
        self.exchange = None

    def throttle(self, until: float) -> None:
        """Accept no request before; a shorter throttle never ends a longer one."""
        self.throttled_until = max(self.throttled_until, until)

    def _advance(self, event: AuthenticationEvent) -> None:
        if self.protocol.has_sasl:
            self.state = TRANSITIONS.get((self.state, event), _STATE.FAILED)
        else:
            self.state = _STATE.FAILED
