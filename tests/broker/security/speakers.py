"""Clients that differ by their address, and ACLs about them.

Without a login every client has the same principal; what one may do is told apart by where it speaks
from. Nodes and the administrator speak from 127.0.0.1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from bus.protocol.acls import (
    CLUSTER_NAME,
    AclBinding,
    Operation,
    Pattern,
    Permission,
    Resource,
)
from bus.protocol.apis import APIS, ApiKey
from bus.protocol.generated.create_acls import AclCreation, CreateAclsRequest
from tests.broker.handlers.test_every_version import FrameSocket

ALLOW, DENY = Permission.ALLOW, Permission.DENY


class Speaker(NamedTuple):
    """Who sends: as what principal, and from where."""

    principal: str
    address: str


ADMIN, CLIENT = Speaker("User:ANONYMOUS", "127.0.0.1"), Speaker("User:ANONYMOUS", "127.0.0.2")


def acl(
    kind: Resource, word: str, permission: Permission = ALLOW, name: str = "*",
    who: Speaker = CLIENT, pattern: Pattern = Pattern.LITERAL,
) -> AclBinding:  # fmt: skip
    """One about an operation, of all resources of the kind unless `name` is given."""
    named = CLUSTER_NAME if kind is Resource.CLUSTER else name
    return AclBinding(kind, named, pattern, who.principal, who.address, Operation[word], permission)


def everything(who: Speaker = CLIENT, *but: Resource) -> list[AclBinding]:
    """Allows all that the registry knows, but for these kinds of resources."""
    kinds = (Resource.TOPIC, Resource.GROUP, Resource.CLUSTER)
    return [acl(kind, "ALL", who=who) for kind in kinds if kind not in but]


class Frames:
    """A connection of one speaker, opened again when the broker has closed it."""

    def __init__(
        self, address: str, who: Speaker, log_in: Callable[[FrameSocket], None] | None = None
    ) -> None:
        """`log_in`: says who it is, where that is asked for."""
        self.who = who
        self._address, self._log_in = address, log_in
        self._socket: FrameSocket | None = None

    def ask(self, key: int, version: int, fields: Any) -> Any:
        """`fields` of a request, or the request. Raises ConnectionError."""
        if isinstance(fields, dict):
            fields = msgspec.convert(fields, getattr(APIS[key].module, f"{APIS[key].name}Request"))
        if self._socket is None:
            self._socket = FrameSocket(self._address, self.who.address)
            if self._log_in is not None:
                self._log_in(self._socket)
        return self._socket.ask(key, version, fields)

    def create_acls(self, acls: Sequence[AclBinding]) -> set[int]:
        """The error codes of all."""
        request = CreateAclsRequest([AclCreation(*each) for each in acls])
        return {one.error_code for one in self.ask(ApiKey.CREATE_ACLS, 3, request).results}

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def acls_filter(**fields: Any) -> dict[str, Any]:
    """Fields of a filter that every ACL meets but for those given."""
    return {"resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1,
            "principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1,
            **fields}  # fmt: skip
