"""How often the listeners of one process take connections, each and all together (KIP-612). Pure.

In: their bounds, connections as they come. Out: how long a listener waits before it takes one.
Never: a socket; how often one address may connect (`connection_rates`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from broker.quotas.quota_rate import QuotaRate, QuotaWindows


class CreationRates:
    """Invariant: `_rates` has a rate of each listener that has taken a connection."""

    def __init__(self, windows: QuotaWindows, protected: Collection[str]) -> None:
        """`protected`: listeners that obey their own bound only, and count for no other's."""
        self._windows = windows
        self._protected = frozenset(protected)
        self._together = QuotaRate(windows)
        self._rates: dict[str, QuotaRate] = {}
        self._bound = 0.0
        self._bounds: Mapping[str, float] = {}

    def limit(self, together: float, by_listener: Mapping[str, float]) -> None:
        """Connections per second: of all listeners that are not protected, and of each one. Those
        that were taken before go on counting."""
        self._bound, self._bounds = together, by_listener

    def wait_ms(self, listener: str, now_ms: int) -> int:
        """A connection counts now: how long its listener waits before it takes it, no longer than
        one window."""
        wait_ms = self._recorded(self._rate_of(listener), self._bounds[listener], now_ms)
        if listener not in self._protected:
            wait_ms = max(wait_ms, self._recorded(self._together, self._bound, now_ms))
        return wait_ms

    def take_back(self, listener: str, now_ms: int) -> None:
        """A connection that counted is refused, because of its address: it counts no more."""
        self._rate_of(listener).record(-1, now_ms)
        if listener not in self._protected:
            self._together.record(-1, now_ms)

    def _rate_of(self, listener: str) -> QuotaRate:
        rate = self._rates.get(listener)
        if rate is None:
            rate = self._rates[listener] = QuotaRate(self._windows)
        return rate

    def _recorded(self, rate: QuotaRate, bound: float, now_ms: int) -> int:
        rate.record(1, now_ms)
        longest_ms = self._windows.window_ms
        if bound:
            return min(rate.wait_ms(bound, now_ms), longest_ms)
        return longest_ms if rate.per_second(now_ms) > 0 else 0
