"""TLS of the listeners of this process, and of its connections to those of others, by the settings.

In: configuration, the files that it names. Out: `TlsServer`s, `ClientTls`. Raises ConfigError,
which names the key and has no secret. Never: new files that cannot be used in the place of those in
force.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable
from dataclasses import dataclass

from cryptography.x509 import load_der_x509_certificate

from broker.config.key import ConfigError
from broker.config.keys_security import LISTENER_PREFIX
from broker.config.keys_tls import NAMES
from broker.config.views import BrokerConfig
from broker.network.port import TlsKeys, TlsPort
from broker.security.cipher_suites import CipherError, served_of_tls_1_3
from broker.security.distinguished_name import distinguished_name
from broker.security.key_stores import KeyStoreError
from broker.security.principal import ANONYMOUS, Principal
from broker.security.principal_rules import MappingRuleError, PrincipalRules, parse_principal_rules
from broker.server.tls_stores import TlsStores
from bus.errors import CloseConnection

log = logging.getLogger("broker.network")

NONE = "none"


class ListenerStores(TlsStores):
    """Reads what the keys of one listener name."""

    def __init__(self, config: BrokerConfig, listener: str, factory: TlsPort) -> None:
        super().__init__(self.value, self.error, factory)
        self._config, self._listener = config, listener

    def value(self, name: str) -> str | None:
        """Of this listener; None and empty are the same for all keys of stores."""
        found: str | None = self._config.of_listener(self._listener, name)
        return found or None

    def material(self, *, is_server: bool) -> TlsKeys:
        """Everything that a context needs. Raises ConfigError."""
        versions: tuple[str, ...] = self._config.of_listener(
            self._listener, "ssl.enabled.protocols"
        )
        suites: tuple[str, ...] = self._config.of_listener(self._listener, "ssl.cipher.suites")
        versions, ciphers = self.suites(versions, suites)
        try:
            served = served_of_tls_1_3(suites) if is_server else frozenset[str]()
        except CipherError as error:
            raise self.error("ssl.cipher.suites", str(error)) from None
        client_auth: str = self._config.of_listener(self._listener, "ssl.client.auth")
        key_store, trust_store = self.key_store(), self.trust_store()
        if is_server and key_store is None:
            raise self.error("ssl.keystore.location", "a listener with TLS needs a certificate")
        if is_server and client_auth != NONE and trust_store is None:
            raise self.error(
                "ssl.truststore.location",
                f"ssl.client.auth is {client_auth}, but nothing says whose certificates are good",
            )
        return TlsKeys(
            key_store,
            trust_store,
            versions,
            ciphers,
            client_auth,
            bool(self.value("ssl.endpoint.identification.algorithm")),
            served,
        )

    def rules(self) -> PrincipalRules:
        """Raises ConfigError."""
        name = "ssl.principal.mapping.rules"
        try:
            return parse_principal_rules(self._config.of_listener(self._listener, name))
        except MappingRuleError as error:
            raise self.error(name, str(error)) from None

    def error(self, name: str, reason: str) -> ConfigError:
        """Which listener's key it is, and what is wrong with it."""
        return ConfigError(name, f"{LISTENER_PREFIX}{self._listener.lower()}.{name}: {reason}")


@dataclass(frozen=True, slots=True)
class ReadTls:
    """What is in force."""

    context: ssl.SSLContext
    rules: PrincipalRules
    suites: frozenset[str]


class ListenerTlsSettings:
    """TLS of one listener as its newest keys and files say. Implements `TlsServer`.

    Invariant: `_loaded` was made of settings without a fault; `_values` and `_stamps` are those
    that were looked at last, with or without one.
    """

    def __init__(
        self,
        config: Callable[[], BrokerConfig],
        listener: str,
        factory: TlsPort,
        *,
        is_server: bool,
    ) -> None:
        """Raises ConfigError."""
        self._config, self._listener, self._factory = config, listener, factory
        self._is_server = is_server
        self._values: list[object] = []
        self._stamps: dict[str, tuple[int, ...]] = {}
        self._loaded = self._load()

    @property
    def context(self) -> ssl.SSLContext:
        """Of the next connection."""
        return self._loaded.context

    @property
    def suites(self) -> frozenset[str]:
        """Of TLS 1.3 those that may be spoken, with the next connection."""
        return self._loaded.suites

    def principal_of(self, certificate: bytes | None) -> Principal:
        """Whose certificate (DER) it is."""
        if certificate is None:
            return ANONYMOUS
        subject = load_der_x509_certificate(certificate).subject
        name = distinguished_name(subject.public_bytes())
        user = self._loaded.rules.user(name)
        if user is None:
            raise CloseConnection(f"ssl.principal.mapping.rules has none for {name}")
        return Principal(ANONYMOUS.kind, user)

    def refresh(self) -> None:
        """Take what has changed since the last time, for connections from now on."""
        stamp = self._factory.stamp
        if self._values == self._current_values() and all(
            stamp(path) == seen for path, seen in self._stamps.items()
        ):
            return
        try:
            self._loaded = self._load()
        except ConfigError as error:
            log.error("the former certificates of the listener %s stay in force: %s",
                      self._listener, error)  # fmt: skip

    def _current_values(self) -> list[object]:
        config = self._config()
        values: list[object] = []
        for name in sorted(NAMES):
            try:
                values.append(config.of_listener(self._listener, name))
            except ConfigError as error:
                values.append(str(error))
        return values

    def _load(self) -> ReadTls:
        self._values = self._current_values()
        stores = ListenerStores(self._config(), self._listener, self._factory)
        try:
            material = stores.material(is_server=self._is_server)
            make = self._factory.server_context if self._is_server else self._factory.client_context
            loaded = ReadTls(make(material), stores.rules(), material.suites)
        except KeyStoreError as error:
            raise stores.error("ssl.keystore.location", str(error)) from None
        finally:
            self._stamps = stores.stamps
        if material.key_store is not None and self._is_server:
            log.info("the listener %s shows a certificate that ends at %s", self._listener,
                     material.key_store.ends)  # fmt: skip
        return loaded
