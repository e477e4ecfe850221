"""What a handler gets beside its request: the client, the version, and the broker's services.

Never: sockets. A handler returns its response, or None when it calls `context.reply` later.
`reply` is the one place where `throttle_time_ms` is set, and the context the one place where a
handler asks for permission.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from copy import copy
from typing import Any, cast

from broker.clock.port import monotonic_ms
from broker.handlers.connection_control import Chunks, ConnectionControl, EnvelopeConnection
from broker.handlers.error_responses import error_response
from broker.handlers.listener_type import ListenerType
from broker.handlers.services import Services
from broker.quotas.client_quotas import QuotaKind
from broker.security.authorizer import Operation, Resource
from broker.security.session import Session
from bus.errors import ErrorCode

log = logging.getLogger("broker.handlers")

UNLIMITED = (1 << 31) - 1
"""Bytes of a response that no quota limits."""


class RequestContext:
    """The context of one request."""

    __slots__ = (
        "_encode",
        "_set_response",
        "_throttle_time_ms",
        "api_version",
        "client_id",
        "connection",
        "correlation_id",
        "listener_type",
        "services",
    )

    def __init__(
        self,
        services: Services,
        connection: ConnectionControl,
        listener_type: ListenerType,
        api_version: int,
        correlation_id: int,
        client_id: str | None,
        encode: Callable[[int, Any], Chunks],
        set_response: Callable[[Chunks], None],
    ) -> None:
        self.services = services
        self.connection = connection
        self.listener_type = listener_type
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self._encode = encode
        self._set_response = set_response
        self._throttle_time_ms = 0

    @property
    def session(self) -> Session:
        """Whose request it is. Its principal may be another one at the next look
        (re-authentication)."""
        return self.connection.session

    def throttle(self, throttle_time_ms: int) -> None:
        """The client has used more than its quota: its connection accepts nothing for this time,
        and the response says so. Of several throttles the longest counts."""
        if throttle_time_ms > self._throttle_time_ms:
            self._throttle_time_ms = throttle_time_ms
            self.connection.mute(throttle_time_ms)

    def charge(self, kind: QuotaKind, amount: float, *, is_refused: bool = False) -> int:
        """The client has used so much of a quota. Over it, it is throttled; the milliseconds, 0 if
        it is not. `is_refused`: it does not get then what it would have used."""
        services, session = self.services, self.connection.session
        quotas = services.client_quotas
        if session.listener in quotas.exempt_listeners:
            return 0
        user, client_id, now_ms = *self.quota_client, monotonic_ms(services.clock)
        throttle_time_ms = quotas.record(kind, user, client_id, amount, now_ms)
        if throttle_time_ms:
            if is_refused:
                quotas.take_back(kind, user, client_id, amount, now_ms)
            self.throttle(throttle_time_ms)
        return throttle_time_ms

    def has_quota(self, kind: QuotaKind) -> bool:
        """Whether `charge` counts anything."""
        quotas = self.services.client_quotas
        is_exempt = self.connection.session.listener in quotas.exempt_listeners
        return not is_exempt and quotas.has(kind, *self.quota_client)

    def most_fetched_bytes(self) -> int:
        """More in one response could never be within the client's quota."""
        quotas = self.services.client_quotas
        if self.connection.session.listener in quotas.exempt_listeners:
            return UNLIMITED
        return int(min(quotas.most_bytes(*self.quota_client), UNLIMITED))

    @property
    def quota_client(self) -> tuple[str, str]:
        """User and client id, for whom quotas are set."""
        return self.connection.session.principal.name, self.client_id or ""

    def reply(self, response: object) -> None:
        """Send the response, now or later; exactly once.

        A response that cannot be encoded is caused by this client's request. Later no caller could
        close the connection: an error would end a timer, and so the process.
        """
        if self._throttle_time_ms:
            response = throttled(response, self._throttle_time_ms)
        try:
            chunks = self._encode(self.correlation_id, response)
        except Exception:
            log.exception("the response to %s cannot be written", self.session.host)
            self.connection.abort("its request cannot be answered")
            return
        self._set_response(chunks)

    def reply_frame(self, chunks: Chunks) -> None:
        """Respond with a whole frame that another node made for this request."""
        self._set_response(chunks)

    def reply_error(self, key: int, request: object, error: ErrorCode) -> None:
        """Respond that nothing of the request could be done. In an envelope, NOT_CONTROLLER goes to
        the broker that forwards it."""
        if error is ErrorCode.NOT_CONTROLLER and isinstance(self.connection, EnvelopeConnection):
            self.connection.refuse(error)
            return
        self.reply(error_response(key, request, error))

    def no_reply(self) -> None:
        """The protocol allows no response (acks=0)."""
        self._set_response(())

    def is_authorized(
        self, operation: Operation, resource: Resource, name: str, *, is_reported: bool = True
    ) -> bool:
        """Whether the client may perform this operation. A refusal is reported, unless the client
        has not named the resource, or another permission does as well."""
        session = self.connection.session
        return self.services.authorizer.authorize(
            session.principal, session.host, operation, resource, name, is_reported=is_reported
        )

    def is_authorized_for_any(self, operation: Operation, resource: Resource) -> bool:
        """Whether the client may perform this operation on any resource of this kind at all."""
        session = self.connection.session
        return self.services.authorizer.authorize_by_resource_type(
            session.principal, session.host, operation, resource
        )

    def allowed_operations(self, resource: Resource, name: str) -> int:
        """Bit field of what the client may do with the resource (KIP-430)."""
        session = self.connection.session
        return self.services.authorizer.allowed_operations(
            session.principal, session.host, resource, name
        )


def throttled(response: Any, throttle_time_ms: int) -> object:
    """The response with the time the client is to wait, where it can say it. A copy: some handlers
    return the same object to many clients."""
    if not hasattr(response, "throttle_time_ms"):
        return response
    throttled_response = copy(response)
    throttled_response.throttle_time_ms = throttle_time_ms
    return cast(object, throttled_response)
