"""ACL nodes, as the authorizer of Kafka 3.9 keeps them.

Pure. `/kafka-acl/<Type>/<name>` holds all ACLs of one literal name,
`/kafka-acl-extended/prefixed/…` those of a prefix; each change leaves a numbered notification for
the brokers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import astuple

from broker.controller.zk import znodes
from broker.metadata.image import AclImage, MetadataImage
from broker.metadata.image_writer import acl_as_record
from bus.protocol.generated.metadata_records import (
    AccessControlEntryRecord,
    RemoveAccessControlEntryRecord,
)

LITERAL, PREFIXED = 3, 4
ROOTS: Mapping[int, str] = {LITERAL: "/kafka-acl", PREFIXED: "/kafka-acl-extended/prefixed"}
CHANGES: Mapping[int, str] = {
    LITERAL: "/kafka-acl-changes", PREFIXED: "/kafka-acl-extended-changes",
}  # fmt: skip
CHANGE_PREFIX = "acl_changes_"

KINDS: Mapping[str, int] = {
    "Topic": 2, "Group": 3, "Cluster": 4, "TransactionalId": 5, "DelegationToken": 6, "User": 7,
}  # fmt: skip
_KIND_NAMES = {number: name for name, number in KINDS.items()}
_ENUM_NAMES = {
    2: "TOPIC", 3: "GROUP", 4: "CLUSTER", 5: "TRANSACTIONAL_ID", 6: "DELEGATION_TOKEN", 7: "USER",
}  # fmt: skip
_KINDS_BY_ANY_NAME = {name.upper(): kind for name, kind in KINDS.items()} | {
    name: kind for kind, name in _ENUM_NAMES.items()
}
_OPERATIONS = (
    "Unknown", "Any", "All", "Read", "Write", "Create", "Delete", "Alter", "Describe",
    "ClusterAction", "DescribeConfigs", "AlterConfigs", "IdempotentWrite", "CreateTokens",
    "DescribeTokens",
)  # fmt: skip
_PERMISSIONS = {"Deny": 2, "Allow": 3}
_PERMISSION_NAMES = {number: name for name, number in _PERMISSIONS.items()}

PERSISTENT = (
    "/kafka-acl", *(f"/kafka-acl/{kind}" for kind in KINDS), "/kafka-acl-changes",
    "/kafka-acl-extended", ROOTS[PREFIXED], *(f"{ROOTS[PREFIXED]}/{kind}" for kind in KINDS),
    "/kafka-acl-extended-changes",
)  # fmt: skip
"""What a broker with an authorizer makes sure of at its start, parents first."""

ResourceKey = tuple[int, str, int]
"""Resource type, name, pattern type."""


def path_of(resource: ResourceKey) -> str:
    """The node with the ACLs of a resource."""
    kind, name, pattern = resource
    return f"{ROOTS[pattern]}/{_KIND_NAMES[kind]}/{name}"


def resource_of(acl: AclImage) -> ResourceKey:
    """The resource of an ACL."""
    return (acl.resource_type, acl.resource_name, acl.pattern_type)


def encode_rules(rules: Iterable[AclImage]) -> bytes:
    """All rules about one resource."""
    return znodes.dump({
        "version": 1,
        "acls": [
            {
                "principal": one.principal,
                "permissionType": _PERMISSION_NAMES[one.permission_type],
                "operation": _OPERATIONS[one.operation], "host": one.host,
            }
            for one in rules
        ],
    })  # fmt: skip


def decode_rules(resource: ResourceKey, data: bytes) -> tuple[AclImage, ...]:
    """The rules about one resource. Raises `ZnodeError`."""
    if not data:
        return ()
    path = path_of(resource)
    kind, name, pattern = resource
    try:
        return tuple(
            AclImage(
                kind, name, pattern, str(rule["principal"]), str(rule["host"]),
                _OPERATIONS.index(rule["operation"]), _PERMISSIONS[rule["permissionType"]],
            )
            for rule in znodes.load(path, data)["acls"]
        )  # fmt: skip
    except (KeyError, TypeError, ValueError) as error:
        raise znodes.ZnodeError(f"{path} cannot be understood ({error})") from error


def notification_of(resource: ResourceKey) -> tuple[str, bytes]:
    """The notification by which brokers read a resource's ACLs again: its path prefix, its data."""
    kind, name, pattern = resource
    path = f"{CHANGES[pattern]}/{CHANGE_PREFIX}"
    if pattern == LITERAL:
        return path, f"{_ENUM_NAMES[kind]}:{name}".encode()
    return path, znodes.dump(
        {"version": 1, "resourceType": _ENUM_NAMES[kind], "name": name, "patternType": "PREFIXED"}
    )


def resource_of_notification(folder: str, data: bytes) -> ResourceKey | None:
    """The resource a notification names, None if it is malformed. Old brokers wrote
    `Topic:name`."""
    try:
        if folder == CHANGES[LITERAL]:
            kind, _, name = data.decode().partition(":")
            pattern = LITERAL
        else:
            value = znodes.load(folder, data)
            kind, name, pattern = str(value["resourceType"]), str(value["name"]), PREFIXED
    except (KeyError, ValueError):
        return None
    number = _KINDS_BY_ANY_NAME.get(kind.upper())
    return None if number is None or not name else (number, name, pattern)


def difference(
    image: MetadataImage, resource: ResourceKey, rules: Iterable[AclImage]
) -> list[object]:
    """Records from the ACLs the image holds of a resource to those of its node."""
    held = {acl: key for key, acl in image.acls.items() if resource_of(acl) == resource}
    stand = dict.fromkeys(rules)
    gone: list[object] = [
        RemoveAccessControlEntryRecord(id=key) for acl, key in held.items() if acl not in stand
    ]
    return gone + [record_of(acl) for acl in stand if acl not in held]


def record_of(acl: AclImage) -> AccessControlEntryRecord:
    """An ACL read from a node. Its id is derived from its content, so that all readers of the nodes
    have the same records."""
    return acl_as_record(hashlib.sha256(znodes.dump(astuple(acl))).digest()[:16], acl)
