"""SaslHandshake (17).

Behaviour: the client of a listener with SASL chooses a mechanism, once before everything else, and
again to renew its session where sessions end (KIP-368), at most once a second. A mechanism that is
not enabled is answered with those that are, after the delay for failed logins, and the connection
is closed; so it is, after the next token, if a session is renewed by another one. Where no login is
due the answer is ILLEGAL_SASL_STATE. Version 0, after which old clients send tokens outside of
requests, is not taken.

Versions: 0-1.
"""

from __future__ import annotations

from math import isfinite

from broker.handlers.context import RequestContext
from broker.handlers.failed_login import refuse_login
from broker.security.logins import LEAST_RENEWAL_S, ClosingExchange
from broker.security.session import AuthenticationState
from bus.errors import ErrorCode
from bus.protocol.generated.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

FIRST_VERSION_WITH_REQUESTS = 1


def handle(
    request: SaslHandshakeRequest, context: RequestContext
) -> SaslHandshakeResponse | None:
    """Begin the exchange of this mechanism."""
    session, logins = context.session, context.services.logins
    settings = logins.of(session.listener)
    if settings is None or not _is_due(context):
        return SaslHandshakeResponse(ErrorCode.ILLEGAL_SASL_STATE)
    offered = list(settings.mechanisms)
    if context.api_version < FIRST_VERSION_WITH_REQUESTS:
        response = SaslHandshakeResponse(ErrorCode.UNSUPPORTED_VERSION, offered)
        refuse_login(context, response, "SaslHandshake version 0 is not taken")
        return None
    if request.mechanism not in settings.mechanisms:
        response = SaslHandshakeResponse(ErrorCode.UNSUPPORTED_SASL_MECHANISM, offered)
        refuse_login(context, response, "the mechanism is not enabled")
        return None
    is_other = session.is_known and request.mechanism != session.mechanism
    if session.is_known:
        session.renewed_at = context.services.clock.monotonic()
    session.on_mechanism_chosen()
    if is_other:
        session.exchange = ClosingExchange()
    else:
        session.mechanism = request.mechanism
        session.exchange = logins.begin(session.listener, request.mechanism)
    return SaslHandshakeResponse(mechanisms=offered)


def _is_due(context: RequestContext) -> bool:
    session = context.session
    if session.state is AuthenticationState.HANDSHAKE:
        return True
    now = context.services.clock.monotonic()
    return isfinite(session.expires_at) and now - session.renewed_at >= LEAST_RENEWAL_S
