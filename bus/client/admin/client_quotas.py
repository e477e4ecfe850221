"""Quotas of clients: which there are, and changes.

In: a `SyncClient`. Out: quotas by entity. Raises BusError with the cluster's own code and words.
Never: which of them counts for a client.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bus.client.admin.queries import raise_for_error
from bus.client.wire.sync_client import SyncClient
from bus.protocol.apis import ApiKey
from bus.protocol.generated import alter_client_quotas, describe_client_quotas

Entity = tuple[tuple[str, str | None], ...]
"""Kinds and names; None is the default of a kind, for all that have no quota of their own."""


@dataclass(frozen=True, slots=True)
class ClientQuota:
    """One entity and its limits."""

    entity: Entity
    values: Mapping[str, float]


def client_quotas(client: SyncClient) -> list[ClientQuota]:
    """All, by entity."""
    request = describe_client_quotas.DescribeClientQuotasRequest(components=[], strict=False)
    answer = client.request(ApiKey.DESCRIBE_CLIENT_QUOTAS, request)
    raise_for_error(answer.error_code, answer.error_message)
    found = [
        ClientQuota(
            tuple(sorted((one.entity_type, one.entity_name) for one in entry.entity)),
            {one.key: one.value for one in entry.values},
        )
        for entry in answer.entries or ()
    ]
    return sorted(found, key=lambda one: [(kind, name or "") for kind, name in one.entity])


def alter_client_quotas_of(
    client: SyncClient, entity: Entity, values: Mapping[str, float | None]
) -> None:
    """Set limits of one entity; None takes one back."""
    request = alter_client_quotas.AlterClientQuotasRequest(
        entries=[
            alter_client_quotas.EntryDataInRequest(
                entity=[
                    alter_client_quotas.EntityDataInRequest(entity_type=kind, entity_name=name)
                    for kind, name in entity
                ],
                ops=[
                    alter_client_quotas.OpData(
                        key=key, value=0.0 if value is None else value, remove=value is None
                    )
                    for key, value in values.items()
                ],
            )
        ],
        validate_only=False,
    )
    answer = client.request_controller(ApiKey.ALTER_CLIENT_QUOTAS, request)
    for entry in answer.entries:
        raise_for_error(entry.error_code, entry.error_message)
