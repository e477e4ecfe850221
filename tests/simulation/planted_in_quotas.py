"""Bugs to plant in quotas: each lets a client have too much, or too little, in one way.

In: a pytest monkeypatch. Out: a broker that is wrong in one place. Never: used outside of tests of
the checkers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.quota_index import QuotaIndex, QuotaMatch
from broker.quotas.quota_rate import QuotaRate

Plant = Callable[[pytest.MonkeyPatch], None]


def only_the_first_quotas_count(patch: pytest.MonkeyPatch) -> None:
    """A change is not followed."""
    follow = ClientQuotas.follow

    def once(self: ClientQuotas, quotas: Mapping[Any, Any]) -> None:
        if not self.limited:
            follow(self, quotas)

    patch.setattr(ClientQuotas, "follow", once)


def a_client_id_counts_before_its_user(patch: pytest.MonkeyPatch) -> None:
    """The last two of the eight levels come first."""
    find = QuotaIndex.find

    def reversed_levels(self: QuotaIndex, user: str, client_id: str) -> QuotaMatch | None:
        return find(self, "nobody who has one", client_id) or find(self, user, client_id)

    patch.setattr(QuotaIndex, "find", reversed_levels)


def nothing_is_ever_over(patch: pytest.MonkeyPatch) -> None:
    """What was used once counts for ever."""
    init = QuotaRate.__init__

    def endless(self: QuotaRate, windows: Any) -> None:
        init(self, windows)
        self._samples = _Endless()  # type: ignore[assignment]

    patch.setattr(QuotaRate, "__init__", endless)


class _Endless(list[Any]):
    def popleft(self) -> None:
        self[0][1] = 1 << 62


PLANTS: Mapping[str, Plant] = {
    plant.__name__: plant
    for plant in (
        only_the_first_quotas_count, a_client_id_counts_before_its_user, nothing_is_ever_over,
    )
}  # fmt: skip
