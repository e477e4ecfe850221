"""All of TLS in one process: of its listeners, and of its connections to brokers and controllers.

In: roles, configuration, OpenSSL. Out: a `TlsServer` for each listener that has TLS, `Connector`s.
Raises ConfigError. Never: a file that is looked at for each connection.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from broker.clock.port import Clock
from broker.config.key import ConfigError
from broker.config.views import BrokerConfig
from broker.network.client_log import ClientLog
from broker.network.port import Network, TlsPort
from broker.network.tls_connector import TlsConnector
from broker.server.listener_tls import ListenerTlsSettings
from broker.server.roles import Roles


class ProcessTls:
    """`servers` are by the name of their listener. A connector is None where the listeners of
    others have no TLS."""

    def __init__(
        self,
        config: Callable[[], BrokerConfig],
        roles: Roles,
        factory: TlsPort | None,
        network: Network,
        clock: Clock,
        client_log: ClientLog,
    ) -> None:
        self._settings: list[ListenerTlsSettings] = []

        def loaded(listener: str, *, is_server: bool) -> ListenerTlsSettings:
            if factory is None:
                raise ConfigError("listener.security.protocol.map", "there is no TLS here")
            one = ListenerTlsSettings(config, listener, factory, is_server=is_server)
            self._settings.append(one)
            return one

        def connector(listener: str | None) -> TlsConnector | None:
            if listener is None:
                return None
            one = loaded(listener, is_server=False)
            return TlsConnector(network, lambda: one.context, clock.call_later, client_log)

        self.servers: Mapping[str, ListenerTlsSettings] = {
            one.name: loaded(one.name, is_server=True)
            for one in (*roles.broker_listeners, *roles.controller_listeners)
            if one.protocol.has_tls
        }
        self.peer_connector = connector(roles.peer_tls)
        self.controller_connector = (
            self.peer_connector
            if roles.controller_tls == roles.peer_tls
            else connector(roles.controller_tls)
        )

    @property
    def is_used(self) -> bool:
        """Whether there is anything to `refresh`."""
        return bool(self._settings)

    def refresh(self) -> None:
        """Take what has changed in the files and the keys, for new connections. Reads files."""
        for one in self._settings:
            one.refresh()
