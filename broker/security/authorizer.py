"""Authorization: whether a principal may perform an operation on a resource. Pure.

`Authorizer` allows everything, as Kafka does without `authorizer.class.name`. `AclAuthorizer`
obeys the ACLs of the newest metadata, so that a changed one counts from the next request on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from broker.metadata.image import AclImage
from broker.security.principal import THIS_NODE, Principal
from bus.protocol.acl_index import AclDecision, AclIndex
from bus.protocol.acls import CLUSTER_NAME, AclBinding, Operation, Resource

__all__ = ["CLUSTER_NAME", "NOT_ASKED", "Authorizer", "Operation", "Resource"]

MOST_REMEMBERED = 20_000
"""Decisions that are kept until an ACL changes; beyond them all are made again."""

_SUPPORTED = {
    Resource.TOPIC: (3, 4, 5, 6, 7, 8, 10, 11),
    Resource.GROUP: (3, 6, 8, 10, 11),
    Resource.CLUSTER: (5, 7, 8, 9, 10, 11, 12),
}

NOT_ASKED = -(1 << 31)
"""The value of authorized operations in a response if the request did not ask for them."""


class Denial(NamedTuple):
    """A request that was refused, for the log."""

    principal: Principal
    host: str
    operation: Operation
    resource: Resource
    name: str
    decision: AclDecision


class Authorizer:
    """Allows everything."""

    def authorize(
        self,
        principal: Principal,
        host: str,
        operation: Operation,
        resource: Resource,
        name: str,
        *,
        is_reported: bool = True,
    ) -> bool:
        """Whether `principal`, whose client is at the address `host`, may perform `operation` on
        the named resource; `is_reported`: a refusal is."""
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
            if self.authorize(
                principal, host, Operation(operation), resource, name, is_reported=False
            )
        )


class AclAuthorizer(Authorizer):
    """Invariant: `_index` has the ACLs of `_known`, `_decisions` what it says of some requests.

    A node asks itself without a connection: that is always allowed.
    """

    def __init__(
        self,
        index: AclIndex,
        acls: Callable[[], Mapping[bytes, AclImage]],
        report: Callable[[Denial], None],
    ) -> None:
        """`acls`: those of the newest metadata, by id; the same object while none has changed."""
        self._index = index
        self._acls = acls
        self._report = report
        self._known: Mapping[bytes, AclImage] = {}
        self._decisions: dict[tuple[Principal, str, int, int, str], AclDecision] = {}

    def authorize(
        self,
        principal: Principal,
        host: str,
        operation: Operation,
        resource: Resource,
        name: str,
        *,
        is_reported: bool = True,
    ) -> bool:
        if principal is THIS_NODE:
            return True
        decision = self._decide(principal, host, operation, resource, name)
        if is_reported and not decision.is_allowed:
            self._report(Denial(principal, host, operation, resource, name, decision))
        return decision.is_allowed

    def authorize_by_resource_type(
        self, principal: Principal, host: str, operation: Operation, resource: Resource
    ) -> bool:
        self._follow()
        return principal is THIS_NODE or self._index.decide_for_any(
            str(principal), host, operation, resource
        )

    def _decide(
        self, principal: Principal, host: str, operation: Operation, resource: Resource, name: str
    ) -> AclDecision:
        self._follow()
        asked = (principal, host, operation, resource, name)
        decision = self._decisions.get(asked)
        if decision is None:
            if len(self._decisions) >= MOST_REMEMBERED:
                self._decisions.clear()
            decision = self._index.decide(str(principal), host, operation, resource, name)
            self._decisions[asked] = decision
        return decision

    def _follow(self) -> None:
        """Brings the index to the newest ACLs; costs what has changed, and a look at the ids."""
        now, before = self._acls(), self._known
        if now is before:
            return
        self._index.discard(_binding(before[key]) for key in before.keys() - now.keys())
        self._index.add(_binding(now[key]) for key in now.keys() - before.keys())
        self._known = now
        self._decisions.clear()


def _binding(acl: AclImage) -> AclBinding:
    return AclBinding(
        acl.resource_type, acl.resource_name, acl.pattern_type, acl.principal, acl.host,
        acl.operation, acl.permission_type,
    )  # fmt: skip
