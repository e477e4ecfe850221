"""What the three APIs about rules of access have in common.

Never: a response of an API.
"""

from __future__ import annotations

from broker.handlers.context import RequestContext

NO_AUTHORIZER = "No Authorizer is configured."
"""What Kafka says to who changes rules; to who asks for them it says it a little differently."""


def security_is_off(context: RequestContext) -> bool:
    """Whether this cluster has no authorizer at all."""
    return not context.services.config["authorizer.class.name"]
