"""A site's certificate authority, and the certificates that it signs.

In: names, a time. Out: certificates and keys as PEM. Never: a file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_VALID = timedelta(days=3653)
LEAF_VALID = timedelta(days=1826)
CLOCKS_APART = timedelta(days=1)
"""So far behind may the clock of whoever checks a new certificate be."""


@dataclass(frozen=True, slots=True)
class TlsIdentity:
    """A certificate with its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey = field(repr=False)

    @property
    def certificate_pem(self) -> bytes:
        """The certificate alone, for whoever trusts it."""
        return self.certificate.public_bytes(Encoding.PEM)

    def key_pem(self, passphrase: str = "") -> bytes:
        """The key in PKCS#8, encrypted where there is a passphrase."""
        secret = BestAvailableEncryption(passphrase.encode()) if passphrase else NoEncryption()
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, secret)


def new_authority(name: str, now: datetime) -> TlsIdentity:
    """An authority that signs leaves and no further authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    usage = _usage(signs_certificates=True)
    builder = (
        _builder(_named(name), _named(name), key, now, AUTHORITY_VALID)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
    )
    return TlsIdentity(builder.sign(key, SHA256()), key)


def new_leaf(
    authority: TlsIdentity, name: str, places: Sequence[str], now: datetime
) -> TlsIdentity:
    """The certificate of a node that is server and client of others; `places`: the host names and
    addresses that it is reached by."""
    key = ec.generate_private_key(ec.SECP256R1())
    purposes = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    builder = (
        _builder(_named(name), authority.certificate.subject, key, now, LEAF_VALID)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()),
            critical=False,
        )
        .add_extension(
            x509.SubjectAlternativeName([_place(one) for one in places]), critical=False
        )
    )
    return TlsIdentity(builder.sign(authority.key, SHA256()), key)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    now: datetime,
    valid: timedelta,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCKS_APART)
        .not_valid_after(now + valid)
        .add_extension(
            x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
        )
    )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _place(place: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(place))
    except ValueError:
        return x509.DNSName(place)


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates, key_cert_sign=signs_certificates,
        crl_sign=signs_certificates, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip
