"""Certificates for a test, made in memory: authorities, and what they have signed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.hazmat.primitives.serialization.pkcs12 import (
    PKCS12Certificate,
    serialize_java_truststore,
    serialize_key_and_certificates,
)
from cryptography.x509.oid import NameOID

PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
HERE = ("127.0.0.1",)
DAY = timedelta(days=1)


class KeyKind(Enum):
    """Of a certificate's key."""

    P_256 = "P-256"
    RSA_2048 = "RSA-2048"

    def make(self) -> PrivateKey:
        """A new one."""
        if self is KeyKind.P_256:
            return ec.generate_private_key(ec.SECP256R1())
        return rsa.generate_private_key(65537, 2048)


def named(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


@dataclass(frozen=True)
class Identity:
    """A certificate and its key."""

    certificate: x509.Certificate
    key: PrivateKey

    @property
    def chain_pem(self) -> bytes:
        return self.certificate.public_bytes(Encoding.PEM)

    def key_pem(self, password: str | None = None) -> bytes:
        """In PKCS#8, encrypted where there is a password."""
        secret = BestAvailableEncryption(password.encode()) if password else NoEncryption()
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, secret)

    def pkcs12(self, password: str, others: Sequence[x509.Certificate] = ()) -> bytes:
        return serialize_key_and_certificates(
            b"own", self.key, self.certificate, others, BestAvailableEncryption(password.encode())
        )

    def store(self, folder: Path, name: str) -> Path:
        """A file of PEM with both, as `ssl.keystore.location` takes it."""
        path = folder / f"{name}.pem"
        path.write_bytes(self.key_pem() + self.chain_pem)
        return path

    def files(self, folder: Path, name: str) -> tuple[Path, Path]:
        """One file of PEM for each, as clients take them."""
        certificate, key = folder / f"{name}.crt", folder / f"{name}.key"
        certificate.write_bytes(self.chain_pem)
        key.write_bytes(self.key_pem())
        return certificate, key


class Authority:
    """Signs certificates."""

    def __init__(self, name: str = "authority", kind: KeyKind = KeyKind.P_256) -> None:
        self._own = _signed(named(name), kind.make(), None, 3650 * DAY, (), is_authority=True)

    @property
    def certificate(self) -> x509.Certificate:
        return self._own.certificate

    @property
    def pem(self) -> bytes:
        return self._own.chain_pem

    def file(self, folder: Path, name: str = "authority") -> Path:
        path = folder / f"{name}.ca.pem"
        path.write_bytes(self.pem)
        return path

    def trust_pkcs12(self, password: str) -> bytes:
        """As keytool writes a store of authorities."""
        return serialize_java_truststore(
            [PKCS12Certificate(self.certificate, b"authority")],
            BestAvailableEncryption(password.encode()),
        )

    def signed(
        self,
        name: str | x509.Name,
        kind: KeyKind = KeyKind.P_256,
        *,
        places: Sequence[str] = HERE,
        left: timedelta = 2 * DAY,
    ) -> Identity:
        """`places` are the addresses and names of the server; `left`, below zero, that it has
        ended."""
        subject = named(name) if isinstance(name, str) else name
        return _signed(subject, kind.make(), self._own, left, places, is_authority=False)


def _signed(
    subject: x509.Name,
    key: PrivateKey,
    issuer: Identity | None,
    left: timedelta,
    places: Sequence[str],
    *,
    is_authority: bool,
) -> Identity:
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + min(left, timedelta()) - 2 * DAY)
        .not_valid_after(now + left)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
    )
    if places:
        names = [_general(one) for one in places]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    signer = key if issuer is None else issuer.key
    return Identity(builder.sign(signer, SHA256()), key)


def _general(place: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(place))
    except ValueError:
        return x509.DNSName(place)
