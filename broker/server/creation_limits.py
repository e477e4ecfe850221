"""How often the listeners of one kind take connections, by the newest configuration.

In: configuration, connections as they come. Out: how long each waits. A change that cannot be used
changes nothing and is a line of the log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence

from broker.config.key import ConfigError
from broker.config.views import BrokerConfig
from broker.quotas.creation_rates import CreationRates
from broker.server.client_quotas import quota_windows
from broker.server.listeners import ListenerAddress, inter_broker_listener
from broker.server.roles import Roles

KEY = "max.connection.creation.rate"
log = logging.getLogger("broker.config")


class CreationLimits:
    """Implements `CreationBounds`.

    Invariant: the rates have the bounds of `_known`, or of a configuration before it whose bounds
    could be used."""

    def __init__(
        self,
        config: Callable[[], BrokerConfig],
        listeners: Sequence[ListenerAddress],
        protected: Collection[str],
        throttled: Callable[[], None],
    ) -> None:
        """`throttled()`: a connection has to wait. Raises ConfigError."""
        self._config, self._throttled = config, throttled
        self._names = [one.name for one in listeners]
        self._known = config()
        self._rates = CreationRates(quota_windows(self._known), protected)
        self._follow(self._known)

    def wait_ms(self, listener: str, now_ms: int) -> int:
        """A connection has come; how long it waits until it is taken."""
        config = self._config()
        if config is not self._known:
            self._known = config
            try:
                self._follow(config)
            except ConfigError as error:
                log.error("the former bounds of new connections stay in force: %s", error)
        wait_ms = self._rates.wait_ms(listener, now_ms)
        if wait_ms:
            self._throttled()
        return wait_ms

    def take_back(self, listener: str, now_ms: int) -> None:
        """A connection that counted is refused, because of its address."""
        self._rates.take_back(listener, now_ms)

    def _follow(self, config: BrokerConfig) -> None:
        self._rates.limit(
            config[KEY], {name: config.of_listener(name, KEY) for name in self._names}
        )


def protected_listeners(config: BrokerConfig, roles: Roles) -> frozenset[str]:
    """Those that obey their own bound only: the brokers' and the mirror's, where clients have
    another one."""
    if len(roles.broker_listeners) < 2:
        return frozenset()
    among = inter_broker_listener(roles.broker_listeners, config)
    names = (None if among is None else among.name, roles.mirror_listener)
    return frozenset(name for name in names if name)
