"""What the three APIs about rules of access have in common.

Never: a response of an API.
"""

from __future__ import annotations

from broker.handlers.context import RequestContext


def security_is_off(context: RequestContext) -> bool:
    """Whether this cluster has no authorizer at all."""
    return not context.services.config["authorizer.class.name"]
