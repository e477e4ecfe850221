"""Nodes under `/config` with quotas: users with their credentials, clients, addresses.

Pure. A write of quotas never changes a credential: it keeps everything else in the node verbatim.
Kafka's paths: `users/<u>`, `clients/<c>`, `users/<u>/clients/<c>`, `ips/<ip>`; names are
percent-encoded (Sanitizer), `<default>` is the entity that stands for all without their own.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote

from broker.controller.decisions.quotas import WHOLE_NUMBERS
from broker.controller.zk import znodes
from broker.metadata.image import MetadataImage, QuotaEntity
from bus.protocol.generated.metadata_records import (
    ClientQuotaRecord,
    EntityData,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from bus.protocol.quota_entities import CLIENT_ID, IP, USER
from bus.security.sasl_server import SCRAM_BY_TITLE, ScramMechanism

FOLDERS = {"users": USER, "clients": CLIENT_ID, "ips": IP}
"""Below `/config`, and which kind of name its children are."""

CLIENTS = "clients"
"""Below a user: clients of that user."""


@dataclass(frozen=True, slots=True)
class QuotaNode:
    """The content of one entity's node. `other_keys` is what a write of quotas must not change;
    `faults` name malformed values, which are kept too."""

    quotas: Mapping[str, float] = field(default_factory=dict)
    credentials: tuple[UserScramCredentialRecord, ...] = ()
    other_keys: Mapping[str, str] = field(default_factory=dict)
    faults: tuple[str, ...] = ()


# -- paths ----------------------------------------------------------------------------------


def entity_path(entity: QuotaEntity) -> str:
    """Below `/config`, as notifications name it."""
    parts = dict(entity)
    if IP in parts:
        return f"ips/{_node(parts[IP])}"
    if USER not in parts:
        return f"clients/{_node(parts[CLIENT_ID])}"
    user = f"users/{_node(parts[USER])}"
    return f"{user}/{CLIENTS}/{_node(parts[CLIENT_ID])}" if CLIENT_ID in parts else user


def entity_of(path: str) -> QuotaEntity | None:
    """The entity of such a path, None if it is not one of quotas."""
    match path.split("/"):
        case [folder, name] if folder in FOLDERS:
            return ((FOLDERS[folder], _name(name)),)
        case ["users", user, "clients", client]:
            return ((CLIENT_ID, _name(client)), (USER, _name(user)))
    return None


def _node(name: str | None) -> str:
    return znodes.DEFAULT_ENTITY if name is None else znodes.sanitized(name)


def _name(node: str) -> str | None:
    return None if node == znodes.DEFAULT_ENTITY else unquote(node)


# -- content --------------------------------------------------------------------------------


def decode_node(path: str, entity: QuotaEntity, data: bytes) -> QuotaNode:
    """Quotas are numbers, credentials belong to users with a name; everything else is kept."""
    try:
        values = znodes.decode_config(path, data)
    except znodes.ZnodeError as error:
        return QuotaNode(faults=(str(error),))
    user = dict(entity).get(USER) if len(entity) == 1 else None
    quotas: dict[str, float] = {}
    credentials: list[UserScramCredentialRecord] = []
    other_keys: dict[str, str] = {}
    faults: list[str] = []
    for key, text in values.items():
        try:
            if key not in SCRAM_BY_TITLE:
                quotas[key] = float(text)
                continue
            other_keys[key] = text
            if user is not None:
                credentials.append(_credential(user, key, text))
        except (KeyError, ValueError):
            other_keys[key] = text
            faults.append(f"{path}: {key} cannot be understood")
    return QuotaNode(quotas, tuple(credentials), other_keys, tuple(faults))


def _credential(user: str, mechanism: str, text: str) -> UserScramCredentialRecord:
    parts = dict(part.split("=", 1) for part in text.split(","))
    return UserScramCredentialRecord(
        name=user,
        mechanism=SCRAM_BY_TITLE[mechanism],
        salt=base64.b64decode(parts["salt"]),
        stored_key=base64.b64decode(parts["stored_key"]),
        server_key=base64.b64decode(parts["server_key"]),
        iterations=int(parts["iterations"]),
    )


def credential_texts(
    image: MetadataImage, changed: Iterable[tuple[int, str]]
) -> dict[str, dict[str, str | None]]:
    """By the path of its user, the text of each of these credentials (mechanism, user) by the name
    of its mechanism; None: it is to be removed."""
    texts: dict[str, dict[str, str | None]] = {}
    for mechanism, user in changed:
        held = image.scram.get((mechanism, user))
        text = None if held is None else _credential_text(held)
        title = ScramMechanism(mechanism).title
        texts.setdefault(entity_path(((USER, user),)), {})[title] = text
    return texts


def _credential_text(held: UserScramCredentialRecord) -> str:
    """As Kafka writes it."""
    keys = {"salt": held.salt, "stored_key": held.stored_key, "server_key": held.server_key}
    parts = [f"{name}={base64.b64encode(value).decode()}" for name, value in keys.items()]
    return ",".join((*parts, f"iterations={held.iterations}"))


def encode_node(quotas: Mapping[str, float], other_keys: Mapping[str, str]) -> bytes:
    """As Kafka writes it: whole numbers without a point; the node stays when it is empty."""
    texts = {
        key: str(int(value)) if key in WHOLE_NUMBERS else repr(float(value))
        for key, value in quotas.items()
    }
    return znodes.encode_config({**other_keys, **texts})


# -- records --------------------------------------------------------------------------------


def records_of(entity: QuotaEntity, node: QuotaNode) -> list[object]:
    """What a node says, to an image that knows nothing of it."""
    records: list[object] = [_quota(entity, key, node.quotas[key]) for key in sorted(node.quotas)]
    return [*node.credentials, *records]


def difference(image: MetadataImage, entity: QuotaEntity, node: QuotaNode) -> list[object]:
    """Records from what the image holds of an entity to what its node says."""
    held = image.client_quotas.get(entity, {})
    records: list[object] = [
        _quota(entity, key, value)
        for key, value in sorted(node.quotas.items())
        if held.get(key) != value
    ]
    records += [_quota(entity, key, None) for key in sorted(held) if key not in node.quotas]
    user = dict(entity).get(USER) if len(entity) == 1 else None
    if user is not None:
        records += _credential_difference(image, user, node)
    return records


def _credential_difference(image: MetadataImage, user: str, node: QuotaNode) -> list[object]:
    stand = {one.mechanism: one for one in node.credentials}
    records: list[object] = []
    for mechanism in ScramMechanism:
        held, there = image.scram.get((mechanism, user)), stand.get(mechanism)
        if there is not None and there != held:
            records.append(there)
        elif there is None and held is not None:
            records.append(RemoveUserScramCredentialRecord(name=user, mechanism=mechanism))
    return records


def _quota(entity: QuotaEntity, key: str, value: float | None) -> ClientQuotaRecord:
    return ClientQuotaRecord(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
        key=key,
        value=0.0 if value is None else value,
        remove=value is None,
    )
