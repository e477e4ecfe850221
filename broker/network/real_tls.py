"""OpenSSL's contexts, and the files that they are made of.

In: paths, keys and certificates. Out: bytes, `ssl.SSLContext`s. Raises KeyStoreError. Never: a key
on a disk: OpenSSL reads it by a name, so that it is in an anonymous file in memory for a moment.
"""

from __future__ import annotations

import os
import socket
import ssl
from pathlib import Path

from broker.network.port import TlsKeys
from broker.security.key_stores import KeyStore, KeyStoreError

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
MOST_FILE_BYTES = 1 << 20


class RealTls:
    """Implements `TlsPort`."""

    def read(self, path: str) -> bytes:
        """A store of more than a megabyte is none."""
        try:
            with Path(path).open("rb") as file:
                data = file.read(MOST_FILE_BYTES + 1)
        except OSError as error:
            raise KeyStoreError(f"it cannot be read: {error.strerror}") from None
        if len(data) > MOST_FILE_BYTES:
            raise KeyStoreError("it has more than a megabyte")
        return data

    def stamp(self, path: str) -> tuple[int, ...]:
        """Of the file that the name leads to, also by links that are replaced."""
        try:
            found = Path(path).stat()
        except OSError:
            return ()
        return found.st_ino, found.st_dev, found.st_size, found.st_mtime_ns

    def server_context(self, material: TlsKeys) -> ssl.SSLContext:
        """It resumes no session: a certificate is looked at on every connection."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.num_tickets = 0
        context.options |= (
            ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
        )
        context.verify_mode = _CLIENT_AUTH[material.client_auth]
        return _completed(context, material)

    def client_context(self, material: TlsKeys) -> ssl.SSLContext:
        """Without a store of authorities it trusts those of the system."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = material.checks_name
        if material.trust_store is None:
            context.load_default_certs(ssl.Purpose.SERVER_AUTH)
        return _completed(context, material)

    def connect(
        self,
        context: ssl.SSLContext,
        address: tuple[str, int],
        server_name: str,
        timeout_s: float | None,
    ) -> ssl.SSLSocket:
        """One whose handshake is done."""
        plain = socket.create_connection(address, timeout_s)
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return context.wrap_socket(plain, server_hostname=server_name)
        except BaseException:
            plain.close()
            raise


def _completed(context: ssl.SSLContext, material: TlsKeys) -> ssl.SSLContext:
    versions = sorted(_VERSIONS[one] for one in material.versions)
    context.minimum_version, context.maximum_version = versions[0], versions[-1]
    try:
        if material.ciphers:
            context.set_ciphers(":".join(material.ciphers))
    except ssl.SSLError:
        raise KeyStoreError("ssl.cipher.suites names none that OpenSSL offers") from None
    if material.trust_store is not None:
        context.load_verify_locations(cadata=material.trust_store.authorities)
    if material.key_store is not None:
        _load(context, material.key_store)
    return context


def _load(context: ssl.SSLContext, store: KeyStore) -> None:
    descriptor = os.memfd_create("tls-key", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, store.key + store.chain)
        context.load_cert_chain(f"/proc/self/fd/{descriptor}")
    except ssl.SSLError as error:
        raise KeyStoreError(f"OpenSSL does not take the key: {error.reason}") from None
    finally:
        os.close(descriptor)
