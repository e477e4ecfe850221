"""New certificates for a running site: authority and nodes, while everybody goes on.

In: the folder of the site, the passphrase of the authority's key. Out: files, and what stands.
Never: a moment in which somebody trusts nobody who answers.

Authorities change in three steps, each of which may be given again after a crash:

    begin    a new authority; from now on whoever starts trusts both
    sign     every node has a certificate of the new one; brokers take theirs within seconds
    finish   the old one is trusted no longer

Without a new authority `sign` makes new certificates of the one that stands.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from cryptography.x509.oid import NameOID

from deploy.errors import OperatorError
from deploy.secure.authority import TlsIdentity, new_authority, new_leaf
from deploy.secure.layout import (
    AUTHORITY_CERTIFICATE,
    AUTHORITY_KEY,
    NEXT_AUTHORITY,
    NEXT_AUTHORITY_KEY,
    certificate_stores,
)
from deploy.secure.secret_files import replace_secret


@dataclass(frozen=True, slots=True)
class NodeCertificate:
    """Of a broker, or for ZooKeeper, and whether the authority that comes or stands alone has
    signed it."""

    node: str
    ends: datetime
    is_of_newest: bool


@dataclass(frozen=True, slots=True)
class CertificateState:
    """What stands in a folder. `trusted`: the authorities' ends, the old one first."""

    trusted: tuple[datetime, ...]
    is_changing: bool
    nodes: tuple[NodeCertificate, ...]

    @property
    def unsigned(self) -> tuple[str, ...]:
        """Nodes whose certificate is of an authority that is to go."""
        return tuple(one.node for one in self.nodes if not one.is_of_newest)


def certificate_state(folder: Path) -> CertificateState:
    """Raises OperatorError where a file cannot be read."""
    newest = _newest(folder)
    nodes = tuple(
        NodeCertificate(_whose(store), found.not_valid_after_utc, _has_signed(newest, found))
        for store, found in _node_certificates(folder)
    )
    trusted = tuple(one.not_valid_after_utc for one in _certificates(folder, AUTHORITY_CERTIFICATE))
    return CertificateState(trusted, (folder / NEXT_AUTHORITY).exists(), nodes)


def begin_authority(folder: Path, site: str, passphrase: str, now: datetime) -> None:
    """Raises OperatorError where a change is under way already, or the disk refuses."""
    if (folder / NEXT_AUTHORITY).exists():
        raise OperatorError(
            "authorities are changing already; go on with `./databus secure rotate certificates`,"
            " then `./databus secure rotate authority --finish`"
        )
    made = new_authority(f"databus authority of {site}", now)
    old = _certificates(folder, AUTHORITY_CERTIFICATE)
    # The key first, the mark that a change is under way last: what a crash leaves is begun anew.
    replace_secret(folder / NEXT_AUTHORITY_KEY, made.key_pem(passphrase))
    _trust(folder, [old[0], made.certificate])
    replace_secret(folder / NEXT_AUTHORITY, made.certificate_pem)


def sign_certificates(folder: Path, passphrase: str, now: datetime) -> list[str]:
    """A new key and certificate for every node of this folder, for the names that it had; the
    nodes. Raises OperatorError."""
    authority = TlsIdentity(_newest(folder), _newest_key(folder, passphrase))
    signed = []
    for store, old in _node_certificates(folder):
        name = old.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value
        made = new_leaf(authority, str(name), list(_places(old)), now)
        replace_secret(store, made.key_pem() + made.certificate_pem)
        signed.append(_whose(store))
    return signed


def finish_authority(folder: Path) -> None:
    """Raises OperatorError where a node still has a certificate of the old one."""
    if not (folder / NEXT_AUTHORITY).exists():
        raise OperatorError(
            "no change of authorities is under way; begin one with"
            " `./databus secure rotate authority`"
        )
    unsigned = certificate_state(folder).unsigned
    if unsigned:
        raise OperatorError(
            f"{', '.join(unsigned)} would be trusted by nobody: give them certificates of the new"
            " authority first, with `./databus secure rotate certificates`"
        )
    _trust(folder, [_newest(folder)])
    key = folder / NEXT_AUTHORITY_KEY
    if key.exists():  # it may have been taken away
        key.replace(folder / AUTHORITY_KEY)
    (folder / NEXT_AUTHORITY).unlink()


def _trust(folder: Path, authorities: Sequence[x509.Certificate]) -> None:
    pem = b"".join(one.public_bytes(Encoding.PEM) for one in authorities)
    replace_secret(folder / AUTHORITY_CERTIFICATE, pem)


def _newest(folder: Path) -> x509.Certificate:
    changing = (folder / NEXT_AUTHORITY).exists()
    return _certificates(folder, NEXT_AUTHORITY if changing else AUTHORITY_CERTIFICATE)[0]


def _newest_key(folder: Path, passphrase: str) -> ec.EllipticCurvePrivateKey:
    changing = (folder / NEXT_AUTHORITY).exists()
    path = folder / (NEXT_AUTHORITY_KEY if changing else AUTHORITY_KEY)
    try:
        key = load_pem_private_key(path.read_bytes(), passphrase.encode())
    except FileNotFoundError:
        raise OperatorError(
            f"there is no {path}: it was taken away; bring it back for this, or begin with a new"
            " authority: `./databus secure rotate authority`"
        ) from None
    except (OSError, ValueError, TypeError) as error:
        raise OperatorError(f"{path} is not opened by this passphrase: {error}") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise OperatorError(f"{path} is no key of ours; own authorities sign by their own tools")
    return key


def _node_certificates(folder: Path) -> Iterator[tuple[Path, x509.Certificate]]:
    for store in certificate_stores(folder):
        yield store, _certificates(folder, store.relative_to(folder))[0]


def _whose(store: Path) -> str:
    """A broker's own goes by its name, another one by its file, too."""
    node = store.parent.name
    return node if store.stem == "broker" else f"{node}/{store.stem}"


def _certificates(folder: Path, path: Path) -> list[x509.Certificate]:
    """At least one."""
    try:
        return x509.load_pem_x509_certificates((folder / path).read_bytes())
    except (OSError, ValueError) as error:
        raise OperatorError(f"{folder / path} has no certificate: {error}") from error


def _has_signed(authority: x509.Certificate, leaf: x509.Certificate) -> bool:
    try:
        leaf.verify_directly_issued_by(authority)
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True


def _places(leaf: x509.Certificate) -> Iterator[str]:
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    for one in names:
        yield str(one.value)
