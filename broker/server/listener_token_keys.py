"""The keys of the tokens of one listener: read, fetched, in force.

In: its settings, a file, the endpoint of a token service. Out: whose token it is. Raises
ConfigError at the start, TokenRefused. Never: a fetch that the loop waits for, or keys that
are given up because their endpoint is down.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Mapping

from broker.clock.port import Clock
from broker.config.key import ConfigError
from broker.config.keys_tls import PROTOCOLS
from broker.config.views import JAAS, BrokerConfig
from broker.disk.port import Disk
from broker.network.port import HttpsPort, HttpsUnavailable, TlsKeys, TlsPort
from broker.security.key_stores import KeyStoreError
from broker.security.token_keys import FetchSchedule, TokenSettings
from broker.server.listener_tls import ListenerStores
from broker.server.listener_tokens import JWKS_URL, ListenerTokens
from bus.security.bearer_tokens import (
    IssuerKeys,
    KeySetError,
    UnknownKey,
    parse_key_set,
    validate_token,
)
from bus.security.oauth_bearer import BearerToken

log = logging.getLogger("broker.network")


class _EndpointStores(ListenerStores):
    """The authorities of a token service, of the options of its login module, as in Kafka."""

    def __init__(
        self, config: BrokerConfig, listener: str, factory: TlsPort, options: Mapping[str, str]
    ) -> None:
        super().__init__(config, listener, factory)
        self._options, self._tokens = options, ListenerTokens(config, listener)

    def value(self, name: str) -> str | None:
        return self._options.get(name) or None

    def error(self, name: str, reason: str) -> ConfigError:
        return self._tokens.error(JAAS, f"{name}: {reason}")


class ListenerTokenKeys:
    """Keys of one listener's tokens.

    Invariant: `_keys` are the newest ones that could be used; before the first ones are there it
    is empty, and no token counts.
    """

    def __init__(
        self,
        config: BrokerConfig,
        listener: str,
        settings: TokenSettings,
        tls: TlsPort,
        https: HttpsPort,
        clock: Clock,
    ) -> None:
        """Reads a file. Raises ConfigError."""
        self._listener, self._settings, self._clock = listener, settings, clock
        self._tls, self._https = tls, https
        self._error = ListenerTokens(config, listener).error
        self._schedule = FetchSchedule(settings)
        self._is_failing = False
        self._keys = IssuerKeys()
        self._stamp: tuple[int, ...] = ()
        self._context: ssl.SSLContext | None = None
        if settings.is_remote:
            self._context = self._endpoint_context(config)
        else:
            try:
                self._read()
            except (KeyStoreError, KeySetError) as error:
                raise self._error(JWKS_URL, f"{settings.url}: {error}") from None

    def judge(self, token: str) -> BearerToken:
        """Whose token it is. Raises TokenRefused."""
        try:
            return validate_token(token, self._keys, self._settings.rules, self._clock.now_ms())
        except UnknownKey:
            self._schedule.on_unknown_key(self._clock.monotonic())
            raise

    async def refresh(self, disk: Disk) -> None:
        """Take newer keys if they are due."""
        if self._context is None:
            await disk.run(self._refresh_file)
        elif self._clock.monotonic() >= self._schedule.due_at:
            await self._fetch(self._context)

    def _refresh_file(self) -> None:
        if self._tls.stamp(self._settings.url) == self._stamp:
            return
        try:
            self._read()
        except (KeyStoreError, KeySetError) as error:
            log.error("the former keys of tokens of the listener %s stay in force: %s: %s",
                      self._listener, self._settings.url, error)  # fmt: skip

    def _read(self) -> None:
        self._stamp = self._tls.stamp(self._settings.url)
        self._put(parse_key_set(self._tls.read(self._settings.url)))

    async def _fetch(self, context: ssl.SSLContext) -> None:
        try:
            keys = parse_key_set(await self._https.fetch(self._settings.url, context))
        except (HttpsUnavailable, KeySetError) as error:
            self._schedule.on_failed(self._clock.monotonic())
            if not self._is_failing:  # one line however long it lasts
                log.error("the former keys of tokens of the listener %s (%d) stay in force: %s: %s",
                          self._listener, len(self._keys), self._settings.url, error)  # fmt: skip
            self._is_failing = True
            return
        self._schedule.on_fetched(self._clock.monotonic())
        if self._is_failing:
            log.info("the keys of tokens of the listener %s can be fetched again", self._listener)
        self._is_failing = False
        self._put(keys)

    def _put(self, keys: IssuerKeys) -> None:
        if keys.key_ids != self._keys.key_ids or len(keys) != len(self._keys):
            log.info("the listener %s takes tokens signed with %d keys: %s",
                     self._listener, len(keys), ", ".join(keys.key_ids))  # fmt: skip
        self._keys = keys

    def _endpoint_context(self, config: BrokerConfig) -> ssl.SSLContext:
        stores = _EndpointStores(config, self._listener, self._tls, self._settings.trust_store)
        trusted = stores.trust_store()
        return self._tls.client_context(TlsKeys(None, trusted, PROTOCOLS, (), "none", True))
