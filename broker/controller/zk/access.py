"""Quotas, SCRAM credentials and ACLs as they stand in the znodes of Kafka 3.9, as records.

In: a session. Out: ClientQuotaRecord, UserScramCredentialRecord, AccessControlEntryRecord.
Never: a write. A controller in ZooKeeper mode leaves these nodes alone; the migration carries
them over.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from urllib.parse import unquote

from broker.controller.zk import znodes
from broker.controller.zk.load import children_or_none, get_or_none
from broker.controller.zk.port import ZooKeeperSession
from bus.protocol.generated.metadata_records import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    EntityData,
    UserScramCredentialRecord,
)

ACL = "/kafka-acl"
EXTENDED_ACL = "/kafka-acl-extended"

USER, CLIENT, IP = "user", "client-id", "ip"

_MECHANISMS = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
_RESOURCES = {
    "Topic": 2, "Group": 3, "Cluster": 4, "TransactionalId": 5, "DelegationToken": 6, "User": 7,
}  # fmt: skip
_OPERATIONS = (
    "Unknown", "Any", "All", "Read", "Write", "Create", "Delete", "Alter", "Describe",
    "ClusterAction", "DescribeConfigs", "AlterConfigs", "IdempotentWrite", "CreateTokens",
    "DescribeTokens",
)  # fmt: skip
_PERMISSIONS = {"Deny": 2, "Allow": 3}
_LITERAL, _PREFIXED = 3, 4

Entity = tuple[tuple[str, str | None], ...]


async def read_quotas_and_credentials(session: ZooKeeperSession) -> list[object]:
    """`/config/users` with its clients, `/config/clients`, `/config/ips`."""
    records: list[object] = []
    for user in await children_or_none(session, znodes.CONFIG_USERS):
        path = f"{znodes.CONFIG_USERS}/{user}"
        values = await _config(session, path)
        records += _credentials(path, _name(user), values)
        records += _quotas(((USER, _name(user)),), values)
        for client in await children_or_none(session, f"{path}/clients"):
            values = await _config(session, f"{path}/clients/{client}")
            records += _quotas(((CLIENT, _name(client)), (USER, _name(user))), values)
    for folder, kind in ((znodes.CONFIG_CLIENTS, CLIENT), (znodes.CONFIG_IPS, IP)):
        for name in await children_or_none(session, folder):
            records += _quotas(((kind, _name(name)),), await _config(session, f"{folder}/{name}"))
    return records


def _name(node: str) -> str | None:
    """Names are percent-encoded in paths; the default of a kind has none."""
    return None if node == znodes.DEFAULT_ENTITY else unquote(node)


async def _config(session: ZooKeeperSession, path: str) -> dict[str, str]:
    found = await get_or_none(session, path)
    return {} if found is None else znodes.decode_config(path, found[0])


def _quotas(entity: Entity, values: dict[str, str]) -> list[object]:
    parts = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
    try:
        return [
            ClientQuotaRecord(entity=parts, key=key, value=float(value), remove=False)
            for key, value in sorted(values.items())
            if key not in _MECHANISMS
        ]
    except ValueError as error:
        raise znodes.ZnodeError(f"a quota of {entity} is no number: {values}") from error


def _credentials(path: str, user: str | None, values: dict[str, str]) -> list[object]:
    records: list[object] = []
    for mechanism, number in _MECHANISMS.items():
        text = values.get(mechanism)
        if text is None or user is None:
            continue
        try:
            parts = dict(part.split("=", 1) for part in text.split(","))
            records.append(
                UserScramCredentialRecord(
                    name=user,
                    mechanism=number,
                    salt=base64.b64decode(parts["salt"]),
                    stored_key=base64.b64decode(parts["stored_key"]),
                    server_key=base64.b64decode(parts["server_key"]),
                    iterations=int(parts["iterations"]),
                )
            )
        except (KeyError, ValueError) as error:
            raise znodes.ZnodeError(f"{path}: {mechanism} cannot be understood") from error
    return records


async def read_acls(session: ZooKeeperSession) -> list[object]:
    """`/kafka-acl` (literal names) and `/kafka-acl-extended/prefixed`. A rule's id is made of what
    it says, so that every controller which reads the nodes writes the same records."""
    records: list[object] = []
    for root, pattern in ((ACL, _LITERAL), (f"{EXTENDED_ACL}/prefixed", _PREFIXED)):
        for kind in await children_or_none(session, root):
            for name in await children_or_none(session, f"{root}/{kind}"):
                records += await _acls(session, f"{root}/{kind}/{name}", kind, pattern)
    return records


async def _acls(
    session: ZooKeeperSession, path: str, kind: str, pattern: int
) -> list[object]:
    found = await get_or_none(session, path)
    if found is None or not found[0]:
        return []
    try:
        return [
            AccessControlEntryRecord(
                id=_id_of(path, rule),
                resource_type=_RESOURCES[kind],
                resource_name=unquote(path.rsplit("/", 1)[1]),
                pattern_type=pattern,
                principal=rule["principal"],
                host=rule["host"],
                operation=_OPERATIONS.index(rule["operation"]),
                permission_type=_PERMISSIONS[rule["permissionType"]],
            )
            for rule in znodes.load(path, found[0])["acls"]
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise znodes.ZnodeError(f"{path} cannot be understood ({error})") from error


def _id_of(path: str, rule: Mapping[str, object]) -> bytes:
    return hashlib.sha256(path.encode() + znodes.dump(rule)).digest()[:16]
