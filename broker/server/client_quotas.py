"""The client quotas of a process by its configuration, and the metrics of who has to wait.

In: configuration, the newest metadata. Out: `ClientQuotas`; a count, and the newest wait of up to
`MOST_METRICS` users and client ids. Never: a metric for each name that a client invents.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from broker.config.views import BrokerConfig
from broker.metrics.registry import Metrics
from broker.quotas.client_quotas import ClientQuotas, QuotaKind, Throttle
from broker.quotas.connection_rates import ConnectionRates
from broker.quotas.quota_rate import SECOND_MS, QuotaWindows
from broker.server.roles import Roles

MOST_METRICS = 200
"""Users and client ids whose wait is a metric of its own, of all kinds of quotas together: the
first ones that have to wait, until they are idle."""

_RESOURCES = {
    QuotaKind.PRODUCE: "Produce",
    QuotaKind.FETCH: "Fetch",
    QuotaKind.REQUEST: "Request",
    QuotaKind.CONTROLLER_MUTATION: "ControllerMutation",
}
"""As Kafka's metrics name the kinds."""


def make_client_quotas(
    config: BrokerConfig, roles: Roles, metrics: Metrics, now_s: Callable[[], float]
) -> ClientQuotas:
    """Listeners of brokers alone, of controllers and of the mirror are exempt."""
    waits = QuotaMetrics(metrics, now_s)
    return ClientQuotas(
        quota_windows(config),
        QuotaWindows(
            config["controller.quota.window.num"],
            config["controller.quota.window.size.seconds"] * SECOND_MS,
        ),
        waits.on_throttled,
        waits.on_forgotten,
        exempt_listeners(config, roles),
    )


def make_connection_rates(config: BrokerConfig, metrics: Metrics) -> ConnectionRates:
    """How often addresses may connect to listeners that are not exempt."""
    throttled = metrics.meter("quota", "throttled", resource="Connection")
    return ConnectionRates(quota_windows(config), throttled.mark)


def quota_windows(config: BrokerConfig) -> QuotaWindows:
    """Of everything but changes of the cluster."""
    return QuotaWindows(
        config["quota.window.num"], config["quota.window.size.seconds"] * SECOND_MS
    )


def exempt_listeners(config: BrokerConfig, roles: Roles) -> frozenset[str]:
    """Names of the listeners where nobody is held back."""
    controllers = {one.name for one in roles.controller_listeners}
    others = {
        one.name
        for one in roles.broker_listeners
        if one.name == roles.mirror_listener or is_among_brokers(config, roles, one.name)
    }
    return frozenset(controllers | others)


def is_among_brokers(config: BrokerConfig, roles: Roles, name: str) -> bool:
    """Whether clients have another listener than this one, which the brokers use among
    themselves."""
    return name == config["inter.broker.listener.name"] and len(roles.broker_listeners) > 1


class QuotaMetrics:
    """Invariant: `_waits` has the newest wait (when it began in seconds, milliseconds) of everybody
    who has a metric."""

    def __init__(self, metrics: Metrics, now_s: Callable[[], float]) -> None:
        self._metrics = metrics
        self._now_s = now_s
        self._throttled = {
            kind: metrics.meter("quota", "throttled", resource=resource)
            for kind, resource in _RESOURCES.items()
        }
        self._waits: dict[tuple[QuotaKind, str, str], tuple[float, int]] = {}

    def on_throttled(self, wait: Throttle) -> None:
        """Count it; a metric for whoever waits for the first time."""
        self._throttled[wait.kind].mark()
        key = (wait.kind, wait.match.user, wait.match.client_id)
        if key not in self._waits:
            if len(self._waits) >= MOST_METRICS:
                return
            self._metrics.gauge(
                "quota", "throttle-time", partial(self._wait_ms, key), **_labels(*key)
            )
        self._waits[key] = (self._now_s(), wait.wait_ms)

    def on_forgotten(self, kind: QuotaKind, user: str, client_id: str) -> None:
        """It has been idle for long: it has no metric any more."""
        if self._waits.pop((kind, user, client_id), None) is not None:
            self._metrics.forget(**_labels(kind, user, client_id))

    def _wait_ms(self, key: tuple[QuotaKind, str, str]) -> float:
        since, wait_ms = self._waits[key]
        return wait_ms if (self._now_s() - since) * SECOND_MS < wait_ms else 0


def _labels(kind: QuotaKind, user: str, client_id: str) -> dict[str, str]:
    return {"resource": _RESOURCES[kind], "user": user, "clientId": client_id}
