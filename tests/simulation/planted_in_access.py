"""Bugs to plant in what clients may do: each lets somebody in, or keeps somebody out, in one way.

In: a pytest monkeypatch. Out: a broker that is wrong in one place. Never: used outside of tests of
the checkers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from broker.handlers import k58_envelope
from broker.handlers.context import RequestContext
from broker.security.authorizer import AclAuthorizer, Operation, Resource
from broker.security.session import Session
from bus.protocol.acl_index import AclDecision, AclIndex
from bus.protocol.acls import Permission

Plant = Callable[[pytest.MonkeyPatch], None]


def an_api_without_a_check(patch: pytest.MonkeyPatch) -> None:
    """Records are deleted for whoever asks."""
    is_authorized = RequestContext.is_authorized

    def unchecked(
        self: RequestContext, operation: Operation, resource: Resource, name: str, **more: Any
    ) -> bool:
        if (operation, resource) == (Operation.DELETE, Resource.TOPIC):
            return True
        return is_authorized(self, operation, resource, name, **more)

    patch.setattr(RequestContext, "is_authorized", unchecked)


def a_denial_counts_only_where_nothing_allows(patch: pytest.MonkeyPatch) -> None:
    """The ACLs that allow are looked at first."""
    decide = AclIndex.decide

    def decide_by_what_allows(
        self: AclIndex, principal: str, host: str, operation: int, resource: int, name: str
    ) -> AclDecision:
        decision = decide(self, principal, host, operation, resource, name)
        if decision.acl is None or decision.is_allowed:
            return decision
        without = AclIndex()
        without.add(
            acl
            for section in self._about(resource, name)
            for of_client in section.by_client.values()
            for acls in of_client.values()
            for acl in acls
            if acl.permission == Permission.ALLOW
        )
        allowing = without.decide(principal, host, operation, resource, name)
        return allowing if allowing.is_allowed else decision

    patch.setattr(AclIndex, "decide", decide_by_what_allows)


def a_forwarded_request_has_its_forwarders_rights(patch: pytest.MonkeyPatch) -> None:
    """The envelope's principal is not looked at."""
    patch.setattr(
        k58_envelope, "_session",
        lambda request, context: Session(context.session.host, principal=context.session.principal),
    )  # fmt: skip


def a_decision_outlives_its_acls(patch: pytest.MonkeyPatch) -> None:
    """What was decided before an ACL changed is not decided again."""
    follow = AclAuthorizer._follow

    def follow_and_keep(self: AclAuthorizer) -> None:
        kept = dict(self._decisions)
        follow(self)
        self._decisions.update(kept)

    patch.setattr(AclAuthorizer, "_follow", follow_and_keep)


PLANTS: dict[str, Plant] = {
    plant.__name__: plant
    for plant in (
        an_api_without_a_check,
        a_denial_counts_only_where_nothing_allows,
        a_forwarded_request_has_its_forwarders_rights,
        a_decision_outlives_its_acls,
    )
}
