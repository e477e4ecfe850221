"""Users of SCRAM, set by a program that knows their passwords.

In: a `SyncClient`, users with passwords. Out: credentials in the cluster's metadata. Raises
BusError with the cluster's own code. Never: a password on the wire; what is sent cannot be logged
in with.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field

from bus.client.admin.queries import raise_for_error
from bus.client.wire.sync_client import SyncClient
from bus.errors import BusError, ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.generated.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from bus.security.sasl_server import LEAST_ITERATIONS, ScramMechanism, salted

_SALT_BYTES = 16


@dataclass(frozen=True, slots=True)
class ScramLogin:
    """One password of a user; it may have one for each mechanism."""

    name: str
    mechanism: ScramMechanism
    password: str = field(repr=False)


def set_scram_users(client: SyncClient, users: Iterable[ScramLogin]) -> None:
    """Give each user this password for this mechanism, whatever was there; one of random
    characters needs no more than the fewest rounds. Raises BusError where one is refused."""
    upsertions = []
    for user in users:
        salt = os.urandom(_SALT_BYTES)
        made = salted(user.mechanism, user.password, salt, LEAST_ITERATIONS)
        upsertions.append(
            ScramCredentialUpsertion(user.name, int(user.mechanism), LEAST_ITERATIONS, salt, made)
        )
    _alter(client, AlterUserScramCredentialsRequest(upsertions=upsertions))


def delete_scram_user(client: SyncClient, name: str, mechanism: ScramMechanism) -> bool:
    """Take the password for this mechanism away; whether there was one. Raises BusError."""
    deletion = ScramCredentialDeletion(name, int(mechanism))
    try:
        _alter(client, AlterUserScramCredentialsRequest(deletions=[deletion]))
    except BusError as error:
        if error.code is ErrorCode.RESOURCE_NOT_FOUND:
            return False
        raise
    return True


def _alter(client: SyncClient, request: AlterUserScramCredentialsRequest) -> None:
    answer = client.request_controller(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, request)
    for result in answer.results:
        raise_for_error(result.error_code, result.error_message)
