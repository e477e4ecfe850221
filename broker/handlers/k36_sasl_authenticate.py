"""SaslAuthenticate (36).

Behaviour: one token of the mechanism that SaslHandshake chose, answered with the server's. With
the last one the client is authenticated, for `connections.max.reauth.ms` if that is set, and no
longer than what it has logged in with: a delegation token, whose owner it is then, or a token of
OAUTHBEARER. A client that could not prove who it is, or that wants to be another one when it renews
its session, gets SASL_AUTHENTICATION_FAILED after the delay for failed logins, and its connection
is closed.

Versions: 0-2. 1 says how long the session lasts.
"""

from __future__ import annotations

import math

from broker.handlers.context import RequestContext
from broker.handlers.failed_login import refuse_login
from broker.security.principal import Principal
from broker.security.session import Session
from bus.errors import ErrorCode
from bus.protocol.generated.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from bus.security.sasl_server import NotAuthenticated


def handle(
    request: SaslAuthenticateRequest, context: RequestContext
) -> SaslAuthenticateResponse | None:
    """Give the token to the exchange under way."""
    session = context.session
    exchange = session.exchange
    if exchange is None:
        return SaslAuthenticateResponse(
            ErrorCode.ILLEGAL_SASL_STATE,
            "SaslAuthenticate request received after successful authentication",
        )
    try:
        token = exchange.answer(bytes(request.auth_bytes))
        if exchange.user is not None:
            principal = Principal("User", exchange.user, exchange.has_token)
            return _succeed(principal, exchange.ends_at_ms, token, context)
    except NotAuthenticated as error:
        response = SaslAuthenticateResponse(
            ErrorCode.SASL_AUTHENTICATION_FAILED, error.text or _invalid(session)
        )
        refuse_login(context, response, str(error))
        return None
    return SaslAuthenticateResponse(error_message="", auth_bytes=token)


def _invalid(session: Session) -> str:
    done = "re-authentication" if session.is_known else "authentication"
    return (
        f"Authentication failed during {done} due to invalid credentials with SASL mechanism "
        f"{session.mechanism}"
    )


def _succeed(
    principal: Principal, ends_at_ms: int | None, token: bytes, context: RequestContext
) -> SaslAuthenticateResponse:
    """`ends_at_ms`: of what the client has logged in with, None: without an end. Raises
    NotAuthenticated for another principal than before."""
    session, services = context.session, context.services
    before = session.principal
    if session.is_known and principal != before:
        text = (
            f"Cannot change principals during re-authentication from {before.kind}.{before.name}: "
            f"{principal.kind}.{principal.name}"
        )
        raise NotAuthenticated("another principal than before", text)
    session.on_authenticated(principal)
    context.connection.on_authenticated()
    settings = services.logins.of(session.listener)
    lifetimes_ms = [settings.lifetime_ms] if settings is not None and settings.lifetime_ms else []
    if ends_at_ms is not None:
        lifetimes_ms.append(max(ends_at_ms - services.clock.now_ms(), 0))
    if not lifetimes_ms:
        session.expires_at = math.inf
        return SaslAuthenticateResponse(error_message="", auth_bytes=token)
    lifetime_ms = min(lifetimes_ms)
    session.expires_at = services.clock.monotonic() + lifetime_ms / 1000
    return SaslAuthenticateResponse(
        error_message="", auth_bytes=token, session_lifetime_ms=lifetime_ms
    )
