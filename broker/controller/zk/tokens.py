"""Nodes of delegation tokens, as Kafka 3.9 keeps them.

Pure. `/delegation_token/tokens/<id>` says who owns a token and how long it lasts, and nothing that
one could log in with; each change leaves a numbered notification for the brokers.
"""

from __future__ import annotations

from urllib.parse import unquote

from broker.controller.zk import znodes
from broker.metadata.image import MetadataImage
from broker.security.principal import Principal
from bus.protocol.generated.metadata_records import (
    DelegationTokenRecord,
    RemoveDelegationTokenRecord,
)

ROOT = "/delegation_token"
TOKENS = f"{ROOT}/tokens"
CHANGES = f"{ROOT}/token_changes"
CHANGE_PREFIX = f"{CHANGES}/token_change_"

PERSISTENT = (ROOT, CHANGES, TOKENS)
"""What a broker with a secret key for tokens makes sure of at its start, parents first."""

VERSION = 3
FIRST_WITH_REQUESTER = 3


def token_path(token_id: str) -> str:
    """Where a token stands."""
    return f"{TOKENS}/{token_id}"


def encode_token(token: DelegationTokenRecord) -> bytes:
    """As Kafka writes it."""
    return znodes.dump({
        "version": VERSION,
        "owner": znodes.sanitized(token.owner),
        "tokenRequester": znodes.sanitized(token.requester),
        "renewers": [znodes.sanitized(one) for one in token.renewers],
        "issueTimestamp": token.issue_timestamp,
        "maxTimestamp": token.max_timestamp,
        "expiryTimestamp": token.expiration_timestamp,
        "tokenId": token.token_id,
    })  # fmt: skip


def decode_token(token_id: str, data: bytes) -> DelegationTokenRecord:
    """Of the node with this id. Raises `ZnodeError`."""
    path = token_path(token_id)
    value = znodes.load(path, data)
    try:
        version = int(value["version"])
        if not 0 < version <= VERSION:
            raise ValueError(f"version {version} is not known here")
        owner = _principal(value["owner"])
        times = [int(value[name]) for name in ("issueTimestamp", "maxTimestamp", "expiryTimestamp")]
        if value["tokenId"] != token_id or not all(0 <= one < 1 << 63 for one in times):
            raise ValueError("the id is another one's, or a time is none")
        requester = value["tokenRequester"] if version >= FIRST_WITH_REQUESTER else value["owner"]
        return DelegationTokenRecord(
            owner, _principal(requester), [_principal(one) for one in value["renewers"]],
            times[0], times[1], times[2], token_id,
        )  # fmt: skip
    except (KeyError, TypeError, ValueError) as error:
        raise znodes.malformed(path, data, error) from error


def _principal(text: object) -> str:
    """Raises ValueError."""
    return str(Principal.parse(unquote(str(text))))


def id_of_notification(data: bytes) -> str | None:
    """The token that a notification names; None if it names none."""
    try:
        token_id = data.decode()
    except UnicodeDecodeError:
        return None
    is_one = token_id.isascii() and token_id.replace("-", "").replace("_", "").isalnum()
    return token_id if is_one else None


def difference(
    image: MetadataImage, token_id: str, token: DelegationTokenRecord | None
) -> list[object]:
    """Records from what the image holds of a token to what its node says; None: there is none."""
    held = image.delegation_tokens.get(token_id)
    if token == held:
        return []
    return [RemoveDelegationTokenRecord(token_id=token_id) if token is None else token]
