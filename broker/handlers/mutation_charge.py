"""The controller's quota of a client, for one request that makes or removes partitions (KIP-599).

A client of a version that knows THROTTLING_QUOTA_EXCEEDED is refused while it owes; an older one is
served and has to wait. Free are requests of brokers and of the mirror, and whoever speaks to a
controller without a broker between.
"""

from __future__ import annotations

from broker.clock.port import monotonic_ms
from broker.controller.decisions.decision import RefusedError
from broker.handlers.connection_control import EnvelopeConnection
from broker.handlers.context import RequestContext
from bus.errors import ErrorCode


class MutationCharge:
    """Called for each topic with the number of partitions that are made or removed."""

    def __init__(self, context: RequestContext, strict_since: int) -> None:
        """`strict_since`: the first version of the API that is refused."""
        self._context = context
        services, session = context.services, context.session
        quotas = services.client_quotas
        quotas.follow(services.metadata.image.client_quotas)  # no broker does it in a controller
        is_forwarded = isinstance(context.connection, EnvelopeConnection)
        self._quota = None
        if is_forwarded or session.listener not in quotas.exempt_listeners:
            self._quota = quotas.mutations(
                *context.quota_client,
                monotonic_ms(services.clock),
                is_strict=context.api_version >= strict_since,
            )

    def __call__(self, partitions: int) -> None:
        """Raises RefusedError where they are too many for now."""
        quota = self._quota
        if quota is not None and not quota.allows(
            partitions, monotonic_ms(self._context.services.clock)
        ):
            raise RefusedError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, None)

    def finish(self) -> None:
        """All is decided: the client waits if it has to."""
        if self._quota is not None:
            self._context.throttle(self._quota.finish())
