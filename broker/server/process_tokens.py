"""The keys of the tokens of all listeners of one process.

In: settings of the listeners, the ports. Out: whose token it is. Raises ConfigError at the start,
TokenRefused. Never: what tokens need (joserfc) in a process that takes none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from broker.clock.port import Clock
from broker.config.key import ConfigError
from broker.config.views import BrokerConfig
from broker.disk.port import Disk
from broker.network.port import HttpsPort, TlsPort
from broker.security.logins import LoginSettings
from broker.server.listener_tokens import JWKS_URL
from bus.security.oauth_bearer import BearerToken

if TYPE_CHECKING:
    from broker.server.listener_token_keys import ListenerTokenKeys

POLL_S = 1.0
"""How often is asked whether keys are due, or their file is another one."""


class ProcessTokens:
    """The keys by listener."""

    def __init__(
        self,
        config: BrokerConfig,
        logins: Mapping[str, LoginSettings],
        tls: TlsPort | None,
        https: HttpsPort | None,
        clock: Clock,
        disk: Disk,
    ) -> None:
        """Reads files. Raises ConfigError."""
        self._clock, self._disk = clock, disk
        self._keys: dict[str, ListenerTokenKeys] = {}
        for listener, login in logins.items():
            if login.bearer_tokens is None:
                continue
            if tls is None or https is None:
                raise ConfigError(JWKS_URL, "there is no TLS here")
            from broker.server.listener_token_keys import ListenerTokenKeys

            self._keys[listener] = ListenerTokenKeys(
                config, listener, login.bearer_tokens, tls, https, clock
            )

    @property
    def listeners(self) -> tuple[str, ...]:
        """Those that take tokens."""
        return tuple(self._keys)

    def judge(self, listener: str, token: str) -> BearerToken:
        """Whose token it is, at one of `listeners`. Raises TokenRefused."""
        return self._keys[listener].judge(token)

    async def load(self) -> None:
        """Fetch all keys once; those that cannot be fetched now, `refresh_always` fetches."""
        await asyncio.gather(*(one.refresh(self._disk) for one in self._keys.values()))

    async def refresh_always(self, listener: str) -> None:
        """Take newer keys, until it is cancelled."""
        keys = self._keys[listener]
        while True:
            await self._clock.sleep(POLL_S)
            await keys.refresh(self._disk)
