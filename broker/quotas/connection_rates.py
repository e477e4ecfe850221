"""How often an address may connect (KIP-612). Pure.

In: the quotas of the metadata, connections as they come. Out: whether one is too many for now, and
for how long. Never: a socket; how many connections an address has (`broker/network`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from ipaddress import ip_address

from broker.metadata.image import QuotaEntity
from broker.quotas.client_quotas import RecentSensors
from broker.quotas.quota_index import SHARED
from broker.quotas.quota_rate import QuotaRate, QuotaWindows
from bus.protocol.quota_entities import IP

KEY = "connection_creation_rate"
_MAPPED = "::ffff:"
"""Before an IPv4 address, on a socket for both kinds."""


class ConnectionRates:
    """Invariant: `_limits` are those of `_known`, None for any other address."""

    def __init__(self, windows: QuotaWindows, throttled: Callable[[], None]) -> None:
        """`throttled()`: a connection is too many."""
        self._throttled = throttled
        self._sensors = RecentSensors(windows, QuotaRate, lambda address, _: None)
        self._known: Mapping[QuotaEntity, Mapping[str, float]] = {}
        self._limits: dict[str | None, float] = {}

    def follow(self, quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
        """The quotas of the newest metadata; the same object while none has changed."""
        if quotas is self._known:
            return
        self._known = quotas
        self._limits = {
            _as_sockets_write(name): values[KEY]
            for ((kind, name), *_), values in quotas.items()
            if kind == IP and KEY in values
        }
        if not self._limits:
            self._sensors.clear()

    def wait_ms(self, address: str, now_ms: int) -> int:
        """The address connects: 0, or for how long it is to be kept waiting before its connection
        is closed; such a connection does not count."""
        if not self._limits:
            return 0
        address = address.removeprefix(_MAPPED)
        limit = self._limits.get(address, self._limits.get(None))
        if limit is None:
            return 0
        rate = self._sensors.of((address, SHARED), now_ms)
        rate.record(1, now_ms)
        wait_ms = min(rate.wait_ms(limit, now_ms), self._sensors.windows.window_ms)
        if wait_ms:
            rate.record(-1, now_ms)
            self._throttled()
        return wait_ms


def _as_sockets_write(name: str | None) -> str | None:
    """An address as a socket names its peer; what is none, which a node of ZooKeeper may hold,
    fits no connection."""
    try:
        return None if name is None else str(ip_address(name))
    except ValueError:
        return name
