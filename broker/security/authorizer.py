"""Authorization: whether a principal may perform an operation on a resource.

Today everything is allowed, as in Kafka without `authorizer.class.name`; enforced ACLs will change
no handler.
"""

from __future__ import annotations

from broker.security.principal import Principal
from bus.protocol.acls import Operation, Resource

__all__ = ["CLUSTER_NAME", "NOT_ASKED", "Authorizer", "Operation", "Resource"]

CLUSTER_NAME = "kafka-cluster"

_SUPPORTED = {
    Resource.TOPIC: (3, 4, 5, 6, 7, 8, 10, 11),
    Resource.GROUP: (3, 6, 8, 10, 11),
    Resource.CLUSTER: (5, 7, 8, 9, 10, 11, 12),
}

NOT_ASKED = -(1 << 31)
"""The value of authorized operations in a response if the request did not ask for them."""


class Authorizer:
    """The ACLs of this broker."""

    def authorize(
        self,
        principal: Principal,
        host: str,
        operation: Operation,
        resource: Resource,
        name: str,
    ) -> bool:
        """Whether `principal`, whose client is at the address `host`, may perform `operation` on
        the named resource."""
        return True

    def authorize_by_resource_type(
        self, principal: Principal, host: str, operation: Operation, resource: Resource
    ) -> bool:
        """Whether `principal` may perform `operation` on any resource of this kind at all."""
        return True

    def allowed_operations(
        self, principal: Principal, host: str, resource: Resource, name: str
    ) -> int:
        """Bit field of the operations that the principal may perform from there (KIP-430)."""
        return sum(
            1 << operation
            for operation in _SUPPORTED[resource]
            if self.authorize(principal, host, Operation(operation), resource, name)
        )
