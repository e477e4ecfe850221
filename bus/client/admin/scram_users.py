"""Users of SCRAM, set by a program that knows their passwords.

In: a `SyncClient`, names with passwords. Out: credentials in the cluster's metadata. Raises
BusError with the cluster's own code. Never: a password on the wire; what is sent cannot be logged
in with.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from bus.client.admin.queries import raise_for_error
from bus.client.wire.sync_client import SyncClient
from bus.protocol.apis import ApiKey
from bus.protocol.generated.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from bus.security.sasl_server import LEAST_ITERATIONS, ScramMechanism, salted

_SALT_BYTES = 16


def set_scram_users(client: SyncClient, passwords: Mapping[str, str]) -> None:
    """Give each user this password for SCRAM-SHA-512, whatever was there; a password of random
    characters needs no more than the fewest rounds. Raises BusError where one is refused."""
    mechanism = ScramMechanism.SCRAM_SHA_512
    upsertions = []
    for name, password in passwords.items():
        salt = os.urandom(_SALT_BYTES)
        made = salted(mechanism, password, salt, LEAST_ITERATIONS)
        upsertions.append(
            ScramCredentialUpsertion(name, int(mechanism), LEAST_ITERATIONS, salt, made)
        )
    request = AlterUserScramCredentialsRequest(upsertions=upsertions)
    answer = client.request_controller(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, request)
    for result in answer.results:
        raise_for_error(result.error_code, result.error_message)
