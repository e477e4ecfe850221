"""Key and authorities out of the stores that some keys of the settings name.

In: the values of `ssl.keystore.…` and `ssl.truststore.…`, the files. Out: `KeyStore`, `TrustStore`.
Raises ConfigError, which names the key and has no secret.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.config.key import ConfigError
from broker.network.port import TlsPort
from broker.security.cipher_suites import CipherError, openssl_names, versions_left
from broker.security.key_stores import (
    JKS,
    PEM,
    PKCS12,
    KeyStore,
    KeyStoreError,
    TrustStore,
    is_of_java,
    keytool_line,
    pem_key_store,
    pem_trust_store,
    pkcs12_key_store,
    pkcs12_trust_store,
)

KEY_STORE, TRUST_STORE = "keystore", "truststore"


class TlsStores:
    """Reads what the keys name. `value`: of a key, None where it is not set; `error`: of a key and
    what is wrong with it.

    Invariant: `stamps` has the files that were read, whether they can be used or not, as they were
    before.
    """

    def __init__(
        self,
        value: Callable[[str], str | None],
        error: Callable[[str, str], ConfigError],
        factory: TlsPort,
    ) -> None:
        self._value, self._error, self._factory = value, error, factory
        self.stamps: dict[str, tuple[int, ...]] = {}

    def key_store(self) -> KeyStore | None:
        """None: no key names one."""
        key, chain = self._value("ssl.keystore.key"), self._value("ssl.keystore.certificate.chain")
        password = self._value("ssl.key.password")
        kind, path = self._kind(KEY_STORE, has_text=bool(key or chain))
        if path is None and key is None:
            return None
        try:
            if path is None:
                if kind != PEM or chain is None or key is None:
                    raise KeyStoreError(
                        "it needs ssl.keystore.type=PEM and ssl.keystore.certificate.chain"
                    )
                return pem_key_store(key.encode(), chain.encode(), password)
            data = self._read(path, KEY_STORE)
            if kind == PEM:
                return pem_key_store(data, data, password)
            return pkcs12_key_store(data, self._value("ssl.keystore.password"))
        except KeyStoreError as error:
            name = "ssl.keystore.key" if path is None else "ssl.keystore.location"
            raise self._error(name, f"{path or ''}: {error}".removeprefix(": ")) from None

    def trust_store(self) -> TrustStore | None:
        """None: no key names one."""
        text = self._value("ssl.truststore.certificates")
        kind, path = self._kind(TRUST_STORE, has_text=bool(text))
        if path is None and text is None:
            return None
        try:
            if path is None:
                if kind != PEM:
                    raise KeyStoreError("it needs ssl.truststore.type=PEM")
                return pem_trust_store((text or "").encode())
            data = self._read(path, TRUST_STORE)
            if kind == PEM:
                return pem_trust_store(data)
            return pkcs12_trust_store(data, self._value("ssl.truststore.password"))
        except KeyStoreError as error:
            name = "ssl.truststore.certificates" if path is None else "ssl.truststore.location"
            raise self._error(name, f"{path or ''}: {error}".removeprefix(": ")) from None

    def suites(
        self, versions: tuple[str, ...], suites: tuple[str, ...]
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Versions that are left, and OpenSSL's names of the suites."""
        try:
            ciphers, left = openssl_names(suites), versions_left(versions, suites)
        except CipherError as error:
            raise self._error("ssl.cipher.suites", str(error)) from None
        if not left:
            raise self._error("ssl.enabled.protocols", "no version is left with a suite of its own")
        return left, ciphers

    def _kind(self, store: str, *, has_text: bool) -> tuple[str, str | None]:
        path = self._value(f"ssl.{store}.location")
        kind = (self._value(f"ssl.{store}.type") or JKS).upper()
        if path is None and not has_text:
            return kind, None
        if kind == JKS:
            raise self._error(
                f"ssl.{store}.type",
                "it is JKS (Kafka's default), which only Java reads; set PEM or PKCS12"
                + (f", and convert the file: {keytool_line(path, store)}" if path else ""),
            )
        if kind not in (PEM, PKCS12):
            raise self._error(f"ssl.{store}.type", f"{kind} is not served; PEM and PKCS12 are")
        return kind, path

    def _read(self, path: str, store: str) -> bytes:
        self.stamps[path] = self._factory.stamp(path)
        data = self._factory.read(path)
        if is_of_java(data):
            raise KeyStoreError(f"it is JKS, which only Java reads: {keytool_line(path, store)}")
        return data
