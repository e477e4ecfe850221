"""Keys and certificates of TLS in their stores: PEM and PKCS#12. Pure.

In: a store's bytes, its password. Out: `KeyStore`, `TrustStore`. Raises KeyStoreError, whose text
has no secret. Never: JKS, which only Java reads; the error has the command that converts it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12

PEM, PKCS12, JKS = "PEM", "PKCS12", "JKS"
_JAVA_MAGICS = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
MOST_RSA_BITS = 4096
"""A signature of such a key takes 3 ms, for which all clients wait; one of twice the length, 20."""


class KeyStoreError(Exception):
    """The store cannot be used; the text is for an operator and has no secret."""


@dataclass(frozen=True, slots=True)
class KeyStore:
    """A key and its certificate, first of `chain`, each in PEM."""

    key: bytes = field(repr=False)
    chain: bytes
    ends: str
    """When the certificate ends, YYYY-MM-DD HH:MM:SS UTC."""


@dataclass(frozen=True, slots=True)
class TrustStore:
    """Authorities, in PEM."""

    authorities: str


def keytool_line(path: str, store: str) -> str:
    """The command that makes PKCS#12 of a store of Java."""
    return (
        f"keytool -importkeystore -srckeystore {path} -destkeystore {path}.p12 "
        f"-deststoretype PKCS12 (then ssl.{store}.type=PKCS12)"
    )


def pem_key_store(key: bytes, chain: bytes, password: str | None) -> KeyStore:
    """Of texts; both may be the same one."""
    secret = password.encode() if password is not None else None
    try:
        private = load_pem_private_key(key, secret)
    except TypeError:
        wanted = "has no password" if secret is not None else "is encrypted; set ssl.key.password"
        raise KeyStoreError(f"the key {wanted}") from None
    except (ValueError, UnsupportedAlgorithm):
        raise KeyStoreError(
            "there is no key in PEM (PKCS#8) that can be read, or its password is wrong"
        ) from None
    return _key_store(private, _certificates(chain))


def pkcs12_key_store(data: bytes, password: str | None) -> KeyStore:
    """Of a file's bytes."""
    private, certificate, others = _pkcs12(data, password)
    if private is None or certificate is None:
        raise KeyStoreError("there is no key with a certificate in it")
    return _key_store(private, [certificate, *_chain(certificate, others)])


def pem_trust_store(certificates: bytes) -> TrustStore:
    """Of a text."""
    return _trust_store(_certificates(certificates))


def pkcs12_trust_store(data: bytes, password: str | None) -> TrustStore:
    """Of a file's bytes."""
    _, certificate, others = _pkcs12(data, password)
    return _trust_store([one for one in (certificate, *others) if one is not None])


def is_of_java(data: bytes) -> bool:
    """Whether it is a store that only Java reads."""
    return data.startswith(_JAVA_MAGICS)


def _pkcs12(
    data: bytes, password: str | None
) -> tuple[object | None, x509.Certificate | None, list[x509.Certificate]]:
    try:
        store = load_pkcs12(data, password.encode() if password is not None else None)
    except (ValueError, UnsupportedAlgorithm):
        raise KeyStoreError("it is no PKCS#12, or its password is wrong") from None
    certificate = store.cert.certificate if store.cert is not None else None
    return store.key, certificate, [one.certificate for one in store.additional_certs]


def _certificates(text: bytes) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(text)
    except ValueError:
        raise KeyStoreError("there is no certificate in PEM that can be read") from None


def _chain(
    certificate: x509.Certificate, others: Sequence[x509.Certificate]
) -> list[x509.Certificate]:
    """A store has no order: those between the certificate and its authority, in theirs."""
    found, left = [], list(others)
    issued = certificate
    while issued.issuer != issued.subject:
        issuer = next((one for one in left if one.subject == issued.issuer), None)
        if issuer is None:
            break
        left.remove(issuer)
        found.append(issuer)
        issued = issuer
    return found


def _key_store(private: object, chain: list[x509.Certificate]) -> KeyStore:
    if isinstance(private, RSAPrivateKey) and private.key_size > MOST_RSA_BITS:
        raise KeyStoreError(
            f"a key of RSA may have {MOST_RSA_BITS} bits, or every handshake would hold up all "
            "clients; take P-256"
        )
    public = private.public_key()  # type: ignore[attr-defined]
    own = chain[0]
    if _spki(public) != _spki(own.public_key()):
        raise KeyStoreError("the first certificate is not that of the key")
    ends = own.not_valid_after_utc
    return KeyStore(
        key=private.private_bytes(  # type: ignore[attr-defined]
            Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
        ),
        chain=b"".join(one.public_bytes(Encoding.PEM) for one in chain),
        ends=f"{ends:%Y-%m-%d %H:%M:%S} UTC",
    )


def _spki(public: object) -> bytes:
    encoded: bytes = public.public_bytes(  # type: ignore[attr-defined]
        Encoding.DER, PublicFormat.SubjectPublicKeyInfo
    )
    return encoded


def _trust_store(authorities: Sequence[x509.Certificate]) -> TrustStore:
    if not authorities:
        raise KeyStoreError("there is no certificate in it")
    return TrustStore("".join(one.public_bytes(Encoding.PEM).decode() for one in authorities))
