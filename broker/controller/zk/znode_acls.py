"""Who may do what with a znode, as Kafka 3.9 (`ZkData`) sets it. Pure.

In: a path below the chroot. Out: the entries that a new node gets. Where the brokers log in, they
alone change anything, everybody reads, and nobody else reads what one could log in with. Never: the
ACLs of clients of the broker (`acls.py`).
"""

from __future__ import annotations

from broker.controller.zk import acls, tokens, znodes
from broker.controller.zk.port import ZnodeAcl

READ, ALL = 1, 31
"""Permissions are bits of ZooKeeper's: read, write, create, delete, administer."""

CONSUMERS = "/consumers"
"""Of consumers of the time before 0.9, which write there without a login."""

ZOOKEEPERS_OWN = "zookeeper"
"""The node that every ensemble has of itself, beside all chroots."""

SENSITIVE = (znodes.CONFIG_USERS, znodes.CONFIG_BROKERS, tokens.TOKENS)
"""Everything whose path begins so is for the brokers alone."""

SECURED_ROOTS = (
    "/admin", "/brokers", "/cluster", "/config", znodes.CONTROLLER, znodes.CONTROLLER_EPOCH,
    znodes.ISR_CHANGES, znodes.PRODUCER_IDS, znodes.LOG_DIR_EVENTS, tokens.ROOT,
    acls.ROOTS[acls.LITERAL], acls.CHANGES[acls.LITERAL],
    "/kafka-acl-extended", acls.CHANGES[acls.PREFIXED], znodes.MIGRATION, znodes.FEATURE,
)  # fmt: skip
"""What Kafka's zookeeper-security-migration goes through, each with all below it."""


_ROOT_NAMES = {
    ZOOKEEPERS_OWN,
    *(path.split("/")[1] for path in (*SECURED_ROOTS, *znodes.PERSISTENT)),
}

OPEN = (ZnodeAcl(ALL, "world", "anyone"),)
CREATOR_ALL = ZnodeAcl(ALL, "auth", "")
READ_BY_ALL = ZnodeAcl(READ, "world", "anyone")


def default_acls(path: str, *, is_secure: bool) -> tuple[ZnodeAcl, ...]:
    """What a node gets; `is_secure`: zookeeper.set.acl."""
    if not is_secure or path == CONSUMERS:
        return OPEN
    if path.startswith(SENSITIVE):
        return (CREATOR_ALL,)
    return (CREATOR_ALL, READ_BY_ALL)


def is_of_brokers_alone(names: list[str]) -> bool:
    """Whether nobody but brokers has anything in a root with these nodes."""
    return set(names) <= _ROOT_NAMES
