"""Shared by the requests about delegation tokens (38–41): who may send them, and where they are
decided."""

from __future__ import annotations

from broker.controller.decisions.delegation_tokens import TokenLimits
from broker.handlers.connection_control import EnvelopeConnection
from broker.handlers.context import RequestContext
from broker.handlers.listener_type import ListenerType
from broker.security.principal import ANONYMOUS
from broker.security.security_protocol import SecurityProtocol

NO_TIME = -1
"""In place of times in an answer that refuses what the client may not ask for."""


def may_ask_for_tokens(context: RequestContext) -> bool:
    """Whether the client has proved who it is, and not by a token: from one token no other one may
    be made. What a broker has sent on, it has looked at itself."""
    session = context.session
    if session.principal.has_token:
        return False
    if isinstance(context.connection, EnvelopeConnection):
        return True
    if session.protocol is SecurityProtocol.PLAINTEXT:
        return False
    return session.protocol is not SecurityProtocol.SSL or session.principal != ANONYMOUS


def is_decided_elsewhere(context: RequestContext) -> bool:
    """Whether another node is the active controller, to which this one sends requests on."""
    return (
        context.listener_type is not ListenerType.CONTROLLER
        and not context.services.control_plane.controller.is_active
    )


def limits(context: RequestContext) -> TokenLimits:
    """By the configuration of this node."""
    config = context.services.metadata.config
    return TokenLimits(
        config["delegation.token.max.lifetime.ms"], config["delegation.token.expiry.time.ms"]
    )
