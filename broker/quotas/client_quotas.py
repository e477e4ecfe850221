"""Quotas of clients, obeyed: what each has used, against what the newest metadata allow it. Pure.

In: the quotas of the metadata, what a client uses, the time. Out: how long it has to wait. Never: a
connection, a response.

Kafka's ClientQuotaManager and its kin. Who has been idle until nothing that was used counts any
more may be forgotten.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Generic, NamedTuple, Protocol, TypeVar

from broker.metadata.image import QuotaEntity
from broker.quotas.mutation_quota import ControllerMutationQuota
from broker.quotas.quota_index import NO_LIMIT, QuotaIndex, QuotaMatch
from broker.quotas.quota_rate import SECOND_MS, QuotaRate, QuotaWindows, TokenBucket

MOST_CLIENTS = 5_000
"""Users and client ids whose use is known at a time, of each kind of quota. One more pushes out the
one that was idle for longest: a client that invents names has a quota for each in any case."""


class QuotaKind(StrEnum):
    """What is limited; the value is the key in the metadata."""

    PRODUCE = "producer_byte_rate"
    FETCH = "consumer_byte_rate"
    REQUEST = "request_percentage"
    CONTROLLER_MUTATION = "controller_mutation_rate"


_RATES = tuple(kind for kind in QuotaKind if kind is not QuotaKind.CONTROLLER_MUTATION)


class Throttle(NamedTuple):
    """Somebody has to wait, in milliseconds."""

    kind: QuotaKind
    match: QuotaMatch
    wait_ms: int


class _Used(Protocol):
    over_ms: int


Used = TypeVar("Used", bound=_Used)


class RecentSensors(Generic[Used]):
    """What users and client ids have used lately, the longest idle first.

    Invariant: at most MOST_CLIENTS.
    """

    def __init__(
        self,
        windows: QuotaWindows,
        make: Callable[[QuotaWindows], Used],
        forgotten: Callable[[str, str], None],
    ) -> None:
        self.windows = windows
        self._make = make
        self._forgotten = forgotten
        self._known: OrderedDict[tuple[str, str], Used] = OrderedDict()

    def of(self, key: tuple[str, str], now_ms: int) -> Used:
        """What those have used who share a limit."""
        used = self._known.get(key)
        if used is not None:
            self._known.move_to_end(key)
            return used
        while self._known and (
            len(self._known) >= MOST_CLIENTS
            or next(iter(self._known.values())).over_ms <= now_ms
        ):
            gone, _ = self._known.popitem(last=False)
            self._forgotten(*gone)
        used = self._known[key] = self._make(self.windows)
        return used

    def clear(self) -> None:
        """Forget everything."""
        while self._known:
            gone, _ = self._known.popitem()
            self._forgotten(*gone)


class ClientQuotas:
    """Invariant: `limited` are the kinds of which `_index` has a quota, `limits_fetch` says whether
    FETCH is one; where there is none, nothing of that kind is known of anybody."""

    def __init__(
        self,
        windows: QuotaWindows,
        mutation_windows: QuotaWindows,
        throttled: Callable[[Throttle], None],
        forgotten: Callable[[QuotaKind, str, str], None],
        exempt_listeners: frozenset[str] = frozenset(),
    ) -> None:
        """`forgotten(kind, user, client id)`: what these have used is not known any more.
        `exempt_listeners`: those of brokers, controllers and the mirror, by name."""
        self.exempt_listeners = exempt_listeners
        self.limited: frozenset[QuotaKind] = frozenset()
        self.limits_fetch = False
        self.on_limited: list[Callable[[], None]] = []
        """Called when `limited` has changed."""
        self._throttled = throttled
        self._known: Mapping[QuotaEntity, Mapping[str, float]] = {}
        self._index = {kind: QuotaIndex({}, kind) for kind in QuotaKind}
        self._rates: dict[QuotaKind, RecentSensors[QuotaRate]] = {
            kind: RecentSensors(windows, QuotaRate, _named(forgotten, kind)) for kind in _RATES
        }
        self._buckets = RecentSensors(
            mutation_windows, TokenBucket, _named(forgotten, QuotaKind.CONTROLLER_MUTATION)
        )

    def follow(self, quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
        """The quotas of the newest metadata; the same object while none has changed. What was used
        before a change counts after it."""
        if quotas is self._known:
            return
        self._known = quotas
        self._index = {kind: QuotaIndex(quotas, kind) for kind in QuotaKind}
        limited = frozenset(kind for kind in QuotaKind if self._index[kind])
        for kind in self.limited - limited:
            (self._rates.get(kind) or self._buckets).clear()
        if limited != self.limited:
            self.limited, self.limits_fetch = limited, QuotaKind.FETCH in limited
            for act in self.on_limited:
                act()

    def has(self, kind: QuotaKind, user: str, client_id: str) -> bool:
        """Whether such a quota counts for this client."""
        return self._index[kind].find(user, client_id) is not None

    def record(
        self, kind: QuotaKind, user: str, client_id: str, amount: float, now_ms: int
    ) -> int:
        """The client has used so much more: for how many milliseconds it has to wait."""
        match = self._index[kind].find(user, client_id)
        if match is None:
            return 0
        use = self._rates[kind]
        rate = use.of(match.sharers, now_ms)
        rate.record(amount, now_ms)
        wait_ms = rate.wait_ms(match.limit, now_ms)
        if kind is QuotaKind.REQUEST:
            wait_ms = min(wait_ms, use.windows.window_ms)  # as Kafka bounds it
        if wait_ms:
            self._throttled(Throttle(kind, match, wait_ms))
        return wait_ms

    def take_back(
        self, kind: QuotaKind, user: str, client_id: str, amount: float, now_ms: int
    ) -> None:
        """What was recorded a moment ago is not used after all."""
        match = self._index[kind].find(user, client_id)
        if match is not None:
            self._rates[kind].of(match.sharers, now_ms).record(-amount, now_ms)

    def most_bytes(self, user: str, client_id: str) -> float:
        """How much a client may fetch at once: more could never be within its quota."""
        match = self._index[QuotaKind.FETCH].find(user, client_id)
        if match is None:
            return NO_LIMIT
        return match.limit * self._rates[QuotaKind.FETCH].windows.full_ms / SECOND_MS

    def mutations(
        self, user: str, client_id: str, now_ms: int, *, is_strict: bool
    ) -> ControllerMutationQuota | None:
        """For one request; None: the client has no such quota."""
        match = self._index[QuotaKind.CONTROLLER_MUTATION].find(user, client_id)
        if match is None:
            return None
        bucket = self._buckets.of(match.sharers, now_ms)
        kind = QuotaKind.CONTROLLER_MUTATION
        return ControllerMutationQuota(
            bucket,
            match.limit,
            lambda wait_ms: self._throttled(Throttle(kind, match, wait_ms)),
            is_strict=is_strict,
        )


def _named(
    forgotten: Callable[[QuotaKind, str, str], None], kind: QuotaKind
) -> Callable[[str, str], None]:
    return lambda user, client_id: forgotten(kind, user, client_id)
