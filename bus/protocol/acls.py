"""Kafka's numbers of ACLs: what they are about, and what they allow. Pure."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

CLUSTER_NAME = "kafka-cluster"
"""Of the one resource of its kind."""


class Operation(IntEnum):
    """Kafka's AclOperation."""

    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14


class Resource(IntEnum):
    """Kafka's ResourceType."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class Pattern(IntEnum):
    """Kafka's PatternType. ACLs are LITERAL or PREFIXED; the others are for finding them."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Permission(IntEnum):
    """Kafka's AclPermissionType, of ACLs that are set."""

    DENY = 2
    ALLOW = 3


class AclBinding(NamedTuple):
    """One ACL, in Kafka's numbers."""

    resource: int
    name: str
    pattern: int
    principal: str
    host: str
    operation: int
    permission: int

    @property
    def text(self) -> str:
        """For a person."""
        permission = word_of(Permission, self.permission)
        operation = word_of(Operation, self.operation)
        pattern = "…" if self.pattern == Pattern.PREFIXED else ""
        where = f"{word_of(Resource, self.resource)} {self.name}{pattern}"
        return f"{permission} {operation} {where}: {self.principal}, host {self.host}"


def word_of(kind: type[IntEnum], number: int) -> str:
    """Kafka's word for a number; the number where there is none."""
    try:
        return kind(number).name
    except ValueError:
        return str(number)
