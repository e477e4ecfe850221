"""Bytes per second of each broker, from the counters on its /metrics (pure).

In: pages as brokers show them, and when. Out: rates. Never: a request; see `poller`.
A counter that fell is a broker that restarted: its rate is unknown until the next page.
"""

from __future__ import annotations

import msgspec

BYTES_IN = "kafka_server_brokertopicmetrics_bytesin_total"
BYTES_OUT = "kafka_server_brokertopicmetrics_bytesout_total"


class Rates(msgspec.Struct, frozen=True):
    """Per second; None: not known."""

    bytes_in: float | None = None
    bytes_out: float | None = None


def metrics_urls(setting: str) -> dict[int, str]:
    """`1=URL, 2=URL` by broker id; what is not of this form is left out, it only costs rates."""
    words = [word.strip().partition("=") for word in setting.split(",")]
    return {int(broker): url for broker, _, url in words if broker.isdecimal() and url}


def totals(page: str) -> dict[str, float]:
    """The two counters over all topics: the lines without labels."""
    found = {}
    for line in page.splitlines():
        name, space, value = line.partition(" ")
        if space and name in (BYTES_IN, BYTES_OUT):
            try:
                found[name] = float(value.split()[0])
            except (ValueError, IndexError):
                continue
    return found


class BrokerTraffic:
    """The counters of the last page of each broker."""

    def __init__(self) -> None:
        self._last: dict[int, tuple[float, dict[str, float]]] = {}
        self.rates: dict[int, Rates] = {}

    def update(self, broker_id: int, page: str | None, at_s: float) -> None:
        """The next page of a broker; None: it did not answer."""
        if page is None:
            self._last.pop(broker_id, None)
            self.rates.pop(broker_id, None)
            return
        now = totals(page)
        was_s, was = self._last.get(broker_id, (at_s, {}))
        self._last[broker_id] = (at_s, now)
        self.rates[broker_id] = Rates(
            *(_rate(was.get(name), now.get(name), at_s - was_s) for name in (BYTES_IN, BYTES_OUT))
        )


def _rate(was: float | None, now: float | None, seconds: float) -> float | None:
    if was is None or now is None or seconds <= 0 or now < was:
        return None
    return (now - was) / seconds
