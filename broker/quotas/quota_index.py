"""Which quota counts for a client: Kafka's eight levels, the most special one first. Pure.

In: the quotas of the metadata, one kind of them; a user and a client id. Out: the limit, and who
shares it: a limit for a user is used up by all clients of that user together, one for a client id
by all users, one for both by that pair alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from broker.metadata.image import QuotaEntity
from bus.protocol.quota_entities import CLIENT_ID, USER

NO_LIMIT = float("inf")
SHARED = ""
"""In the place of a user or a client id that a limit does not tell apart."""


class QuotaMatch(NamedTuple):
    """The limit of a client, a second, and whose use of it is counted together."""

    limit: float
    user: str
    client_id: str

    @property
    def sharers(self) -> tuple[str, str]:
        """User and client id of those whose use is counted together."""
        return self.user, self.client_id


class QuotaIndex:
    """The quotas of one kind (`producer_byte_rate`, …)."""

    def __init__(self, quotas: Mapping[QuotaEntity, Mapping[str, float]], key: str) -> None:
        self._limits = {
            entity: values[key] for entity, values in quotas.items() if key in values
        }

    def __bool__(self) -> bool:
        """Whether there is any quota of this kind."""
        return bool(self._limits)

    def find(self, user: str, client_id: str) -> QuotaMatch | None:
        """The limit of this client; None: it has none."""
        limits = self._limits
        for of_user in (user, None):
            for of_client in (client_id, None):
                limit = limits.get(((CLIENT_ID, of_client), (USER, of_user)))
                if limit is not None:
                    return QuotaMatch(limit, user, client_id)
            limit = limits.get(((USER, of_user),))
            if limit is not None:
                return QuotaMatch(limit, user, SHARED)
        for of_client in (client_id, None):
            limit = limits.get(((CLIENT_ID, of_client),))
            if limit is not None:
                return QuotaMatch(limit, SHARED, client_id)
        return None
