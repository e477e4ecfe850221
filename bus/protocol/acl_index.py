"""What a set of ACLs allows, with the meaning that Kafka's StandardAuthorizer gives them. Pure.

In: ACLs, one by one; a principal, a host, an operation on a resource. Out: an `AclDecision`, with
the ACL that decides. The cost of a decision does not grow with the number of ACLs: they are found
by resource, principal and host. Never: how a principal has proved who it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import NamedTuple

from bus.protocol.acls import AclBinding, Operation, Pattern, Permission

ANY_NAME = ANY_HOST = "*"
ANY_PRINCIPAL = "User:*"
_IMPLIES: dict[int, tuple[int, ...]] = {
    Operation.DESCRIBE: (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER),
    Operation.DESCRIBE_CONFIGS: (Operation.ALTER_CONFIGS,),
}
"""An ACL that allows one of these allows the key as well; one that denies it denies itself only."""
_UNNAMED = "hardcode"
"""Kafka asks for a resource of this name to find out whether everything of a kind is allowed."""
_LEADING_ZEROS = re.compile(r"(?<![0-9A-Fa-f])0+(?=[0-9A-Fa-f])")

Block = IPv4Network | IPv6Network
Allowances = dict[tuple[int, int], list[AclBinding]]
"""ACLs of one client by operation and permission."""


class AclDecision(NamedTuple):
    """`acl`: the one that decides; None where a super user asks or none is about the resource."""

    is_allowed: bool
    acl: AclBinding | None
    reason: str


class _ResourceAcls:
    """Those of one name or prefix. Invariant: `blocks` are the hosts of `by_client` with a slash;
    no list is empty. Two ACLs stand in one list where they spell one address in two ways."""

    __slots__ = ("blocks", "by_client")

    def __init__(self) -> None:
        self.by_client: dict[tuple[str, str], Allowances] = {}
        self.blocks: dict[str, Block] = {}

    def add(self, acl: AclBinding) -> None:
        host = _canonical(acl.host)
        of_client = self.by_client.setdefault((acl.principal, host), {})
        of_client.setdefault((acl.operation, acl.permission), []).append(acl)
        if (block := _block(host)) is not None:
            self.blocks[host] = block

    def discard(self, acl: AclBinding) -> None:
        host = _canonical(acl.host)
        client, kind = (acl.principal, host), (acl.operation, acl.permission)
        of_client = self.by_client.get(client, {})
        if acl not in of_client.get(kind, ()):
            return
        of_client[kind].remove(acl)
        if not of_client[kind]:
            del of_client[kind]
        if not of_client:
            del self.by_client[client]
            if host in self.blocks and not any(other == host for _, other in self.by_client):
                del self.blocks[host]

    def of_client(
        self, principal: str, host: str, address: IPv4Address | IPv6Address | None
    ) -> Iterator[Allowances]:
        """Of this principal or of all, from this host or from all."""
        hosts = [ANY_HOST, host]
        if address is not None:
            hosts += [text for text, block in self.blocks.items() if address in block]
        for named in (principal, ANY_PRINCIPAL):
            for one in hosts:
                if (found := self.by_client.get((named, one))) is not None:
                    yield found


class AclIndex:
    """Invariant: `_literal` and `_prefixed` hold no resource without ACLs, `_lengths` are those of
    the names of `_prefixed`, longest first."""

    def __init__(
        self, super_users: frozenset[str] = frozenset(), *, allows_without_acls: bool = False
    ) -> None:
        """`super_users`: as texts, `User:admin`. `allows_without_acls`: whether everybody may do
        what no ACL is about (`allow.everyone.if.no.acl.found`)."""
        self._super_users = super_users
        self._allows_without_acls = allows_without_acls
        self._literal: dict[tuple[int, str], _ResourceAcls] = {}
        self._prefixed: dict[tuple[int, str], _ResourceAcls] = {}
        self._lengths: tuple[int, ...] = ()

    def add(self, acls: Iterable[AclBinding]) -> None:
        """ACLs that are there from now on."""
        for acl in acls:
            table = self._table(acl)
            table.setdefault((acl.resource, acl.name), _ResourceAcls()).add(acl)
        self._lengths = self._prefix_lengths()

    def discard(self, acls: Iterable[AclBinding]) -> None:
        """ACLs that are there no longer."""
        for acl in acls:
            table, key = self._table(acl), (acl.resource, acl.name)
            if (found := table.get(key)) is not None:
                found.discard(acl)
                if not found.by_client:
                    del table[key]
        self._lengths = self._prefix_lengths()

    def decide(
        self, principal: str, host: str, operation: int, resource: int, name: str
    ) -> AclDecision:
        """A denial wins over whatever allows; without an ACL about the resource the default
        decides, else what is not allowed is denied."""
        if principal in self._super_users:
            return AclDecision(True, None, "super user")
        host, address = _canonical(host), _address(host)
        allowing: AclBinding | None = None
        has_acls = False
        for section in self._about(resource, name):
            has_acls = True
            for acls in section.of_client(principal, host, address):
                if (denying := _first(acls, Permission.DENY, operation)) is not None:
                    return AclDecision(False, denying, "an ACL denies it")
                if allowing is None:
                    allowing = _first(
                        acls, Permission.ALLOW, operation, *_IMPLIES.get(operation, ())
                    )
        if allowing is not None:
            return AclDecision(True, allowing, "an ACL allows it")
        if has_acls:
            return AclDecision(False, None, "no ACL of the resource allows it")
        allowed = self._allows_without_acls
        return AclDecision(allowed, None, "no ACL is about the resource")

    def decide_for_any(self, principal: str, host: str, operation: int, resource: int) -> bool:
        """Whether there can be any resource of this kind with which the principal may do it:
        Kafka's `Authorizer.authorizeByResourceType`. What implies the operation does not count."""
        if self.decide(principal, host, operation, resource, _UNNAMED).is_allowed:
            return True
        host, address = _canonical(host), _address(host)

        def names(
            table: dict[tuple[int, str], _ResourceAcls], permission: Permission
        ) -> Iterator[str]:
            for (kind, name), section in table.items():
                if kind == resource and any(
                    _first(acls, permission, operation) is not None
                    for acls in section.of_client(principal, host, address)
                ):
                    yield name

        denied = set(names(self._literal, Permission.DENY))
        if ANY_NAME in denied:
            return False
        allowed = set(names(self._literal, Permission.ALLOW))
        if ANY_NAME in allowed:
            return True
        denied_prefixes = set(names(self._prefixed, Permission.DENY))
        free = (allowed - denied) | set(names(self._prefixed, Permission.ALLOW))
        return any(
            not any(name[:length] in denied_prefixes for length in range(1, len(name) + 1))
            for name in free
        )

    def _table(self, acl: AclBinding) -> dict[tuple[int, str], _ResourceAcls]:
        return self._prefixed if acl.pattern == Pattern.PREFIXED else self._literal

    def _prefix_lengths(self) -> tuple[int, ...]:
        return tuple(sorted({len(name) for _, name in self._prefixed}, reverse=True))

    def _about(self, resource: int, name: str) -> Iterator[_ResourceAcls]:
        for named in (name, ANY_NAME) if name != ANY_NAME else (name,):
            if (found := self._literal.get((resource, named))) is not None:
                yield found
        for length in self._lengths:
            if length <= len(name):
                found = self._prefixed.get((resource, name[:length]))
                if found is not None:
                    yield found


def parse_super_users(text: str) -> frozenset[str]:
    """Of the key `super.users`: `User:a;User:b`."""
    return frozenset(one.strip() for one in text.split(";") if one.strip())


def _first(
    acls: Allowances, permission: Permission, *operations: int
) -> AclBinding | None:
    for operation in (Operation.ALL, *operations):
        if (found := acls.get((operation, permission))) is not None:
            return found[0]
    return None


@lru_cache(maxsize=4096)
def _canonical(host: str) -> str:
    """Addresses of IPv6 have many spellings: Java's and ours differ."""
    address = _address(host)
    return host if address is None else str(address)


@lru_cache(maxsize=4096)
def _address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(host)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return address if mapped is None else mapped


def _block(host: str) -> Block | None:
    """`10.0.0.0/8`; Kafka takes leading zeros. None for any other host."""
    address, slash, bits = host.partition("/")
    if not slash:
        return None
    try:
        return ip_network(f"{_LEADING_ZEROS.sub('', address)}/{int(bits)}", strict=False)
    except ValueError:
        return None
