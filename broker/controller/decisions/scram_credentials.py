"""Decisions about users' SCRAM credentials (51).

In: the image, what is asked. Out: records and a result per user. Never: a password, nor whether a
client that knows it is let in. Kafka: ScramControlManager.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from broker.controller.decisions.decision import Decision, Refusal
from broker.metadata.image import MetadataImage
from bus.errors import ErrorCode
from bus.protocol.generated.metadata_records import (
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from bus.security.sasl_server import (
    LEAST_ITERATIONS,
    MOST_ITERATIONS,
    ScramMechanism,
    credential_of_salted,
)

_TWICE = Refusal(
    ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"
)


@dataclass(frozen=True, slots=True)
class CredentialDeletion:
    """A credential that is to be removed."""

    user: str
    mechanism: int


@dataclass(frozen=True, slots=True)
class CredentialUpsertion:
    """A credential that is to be set."""

    user: str
    mechanism: int
    iterations: int
    salt: bytes = field(repr=False)
    salted_password: bytes = field(repr=False)


CredentialChange = CredentialDeletion | CredentialUpsertion


def alter_credentials(
    image: MetadataImage, changes: Sequence[CredentialChange]
) -> Decision[tuple[tuple[str, Refusal | None], ...]]:
    """The reply: each user once, and why it was refused. A user may have one change, whatever its
    mechanism, as with Kafka's controller."""
    asked: dict[str, list[CredentialChange]] = {}
    for change in changes:
        asked.setdefault(change.user, []).append(change)
    results: list[tuple[str, Refusal | None]] = []
    records: list[object] = []
    for user, (change, *others) in asked.items():
        refusal = _TWICE if others else _fault(image, change)
        results.append((user, refusal))
        if refusal is None:
            records.append(_record(change))
    return Decision(tuple(records), tuple(results))


def _fault(image: MetadataImage, change: CredentialChange) -> Refusal | None:
    if not change.user:
        return Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if change.mechanism not in list(ScramMechanism):
        return Refusal(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if isinstance(change, CredentialDeletion):
        if (change.mechanism, change.user) in image.scram:
            return None
        return Refusal(
            ErrorCode.RESOURCE_NOT_FOUND,
            "Attempt to delete a user credential that does not exist",
        )
    if change.iterations > MOST_ITERATIONS:
        return Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    if change.iterations < LEAST_ITERATIONS:
        return Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    return None


def _record(change: CredentialChange) -> object:
    if isinstance(change, CredentialDeletion):
        return RemoveUserScramCredentialRecord(name=change.user, mechanism=change.mechanism)
    made = credential_of_salted(
        ScramMechanism(change.mechanism), change.salt, change.salted_password, change.iterations
    )
    return UserScramCredentialRecord(
        name=change.user,
        mechanism=change.mechanism,
        salt=made.salt,
        stored_key=made.stored_key,
        server_key=made.server_key,
        iterations=made.iterations,
    )
