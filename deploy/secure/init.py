"""Makes the folder of a secured site: authority, nodes, accounts.

In: where, how many brokers, the names of this machine, a passphrase. Out: the whole folder or none:
it is made beside its place and then renamed. Never: a change of a folder that is there.
"""

from __future__ import annotations

import secrets
import shutil
import socket
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bus.contracts.access import ACCOUNTS, CONSOLE, principal_of
from bus.files.durable_file import sync_folder
from bus.files.lock_file import hold_lock_file
from deploy.errors import OperatorError
from deploy.secure.authority import TlsIdentity, new_authority, new_leaf
from deploy.secure.layout import (
    AUTHORITY_CERTIFICATE,
    AUTHORITY_KEY,
    ENSEMBLE_OWNER,
    ENSEMBLE_READER,
    ENSEMBLE_SERVER,
    MECHANISMS,
    SECRET_BYTES,
    account_path,
    ensemble_client_store,
    node_name,
    node_path,
    node_store,
)
from deploy.secure.secret_files import make_private_folder, toml_of, write_secret

PASSPHRASE_BYTES = 18
LOOPBACK = ("localhost", "127.0.0.1", "::1")
NOWHERE = ("192.0.2.1", 9)
"""An address of documentation: a datagram socket that is bound for it names our own address, and
sends nothing."""


@dataclass(frozen=True, slots=True)
class SiteDirectory:
    """What a folder holds, in names."""

    folder: Path
    nodes: tuple[str, ...]
    accounts: tuple[str, ...]
    has_authority_key: bool


def new_passphrase() -> str:
    """One that nobody has chosen."""
    return secrets.token_urlsafe(PASSPHRASE_BYTES)


def standing(folder: Path) -> SiteDirectory | None:
    """What stands there; None where there is no such folder. Raises OperatorError where it is
    something else."""
    if not folder.exists():
        return None
    if not (folder / AUTHORITY_CERTIFICATE).is_file():
        raise OperatorError(
            f"{folder} is there and is no folder of a secured site; move it away, or name another"
            " place: --set security.folder=…"
        )
    nodes = sorted(path.name for path in (folder / "nodes").iterdir())
    accounts = sorted(path.stem for path in (folder / "accounts").iterdir())
    has_key = (folder / AUTHORITY_KEY).is_file()
    return SiteDirectory(folder, tuple(nodes), tuple(accounts), has_key)


def check_standing(folder: Path) -> Path:
    """The folder itself. Raises OperatorError where there is none, or it is something else."""
    if standing(folder) is None:
        raise OperatorError(f"there is no {folder}; make it with `./databus secure init`")
    return folder


def init(
    folder: Path, *, site: str, brokers: int, places: Sequence[str], passphrase: str
) -> SiteDirectory:
    """Make the folder. Raises OperatorError where one stands there, another process makes one, or
    the disk refuses."""
    fresh = folder.with_name(f"{folder.name}.new")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with hold_lock_file(folder.with_name(f"{folder.name}.lock")):
            if standing(folder) is not None:
                raise OperatorError(f"{folder} stands; nothing is changed")
            if fresh.exists():  # of a process that was killed
                shutil.rmtree(fresh)
            _make(fresh, site, brokers, places, passphrase)
            fresh.rename(folder)
            sync_folder(folder.parent)
    except BlockingIOError:
        raise OperatorError(f"another `secure init` is making {folder}") from None
    except OSError as error:
        raise OperatorError(f"{folder} could not be made: {error}") from error
    made = standing(folder)
    assert made is not None
    return made


def own_places(more: Iterable[str] = ()) -> list[str]:
    """The names and addresses that this machine is reached by, as far as it knows, and `more`."""
    host = socket.gethostname()
    found = [*LOOPBACK, host, socket.getfqdn(), *_addresses(host), *more]
    return list(dict.fromkeys(filter(None, found)))


def _addresses(host: str) -> list[str]:
    found: list[str] = []
    try:
        for *_, address in socket.getaddrinfo(host, None):
            found.append(str(address[0]).partition("%")[0])
    except OSError:
        pass  # a machine whose name nobody resolves is reached by another one
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(NOWHERE)
            found.append(probe.getsockname()[0])
        except OSError:
            pass  # no route: loopback only
    return found


def _make(
    folder: Path, site: str, brokers: int, places: Sequence[str], passphrase: str
) -> None:
    now = datetime.now(UTC)
    authority = new_authority(f"databus authority of {site}", now)
    page_token = secrets.token_urlsafe(SECRET_BYTES)
    names = [node_name(number) for number in range(1, brokers + 1)]
    superusers = [
        *(principal_of(f"CN={name}") for name in names),
        *(principal_of(name) for name, right in ACCOUNTS.items() if right.superuser),
    ]
    make_private_folder(folder)
    for name in ("authority", "nodes", "accounts", "zookeeper"):
        make_private_folder(folder / name)
    write_secret(folder / AUTHORITY_CERTIFICATE, authority.certificate_pem)
    write_secret(folder / AUTHORITY_KEY, authority.key_pem(passphrase))
    for number, name in enumerate(names, start=1):
        _node(folder, number, new_leaf(authority, name, places, now), superusers, page_token)
        client = new_leaf(authority, ENSEMBLE_OWNER, places, now)
        write_secret(ensemble_client_store(folder, number), _store(client))
    for path, owner in ((ENSEMBLE_SERVER, "zookeeper"), (ENSEMBLE_READER, CONSOLE)):
        write_secret(folder / path, _store(new_leaf(authority, owner, places, now)))
    for name in ACCOUNTS:
        write_secret(account_path(folder, name), new_account(name, page_token))
    for path in (*(folder / "nodes").iterdir(), *folder.iterdir(), folder):
        sync_folder(path)


def new_account(name: str, page_token: str) -> bytes:
    """The file of an account, with a password that nobody has chosen."""
    right = ACCOUNTS[name]
    tables: dict[str, Mapping[str, str]] = {"security": {"page_token": page_token}}
    if right.on_bus:
        tables["bus.librdkafka"] = _login(name, secrets.token_urlsafe(SECRET_BYTES))
    if name == CONSOLE:
        tables["console"] = {
            "zookeeper_certificate_pem": str(ENSEMBLE_READER),
            "zookeeper_authority_pem": str(AUTHORITY_CERTIFICATE),
        }
    return toml_of(f"# {name}: {right.what}.", tables)


def _node(
    folder: Path, number: int, signed: TlsIdentity, superusers: Sequence[str], page_token: str
) -> None:
    home = node_path(folder, number)
    make_private_folder(home)
    store = node_store(folder, number)
    write_secret(store, _store(signed))
    keys = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(store.relative_to(folder)),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(AUTHORITY_CERTIFICATE),
        "super.users": ";".join(superusers),
        "zookeeper.ssl.keystore.location": str(
            ensemble_client_store(folder, number).relative_to(folder)
        ),
        "zookeeper.ssl.truststore.location": str(AUTHORITY_CERTIFICATE),
    }
    tables = {"broker": keys, "security": {"page_token": page_token}}
    title = f"# {home.name}: paths begin at the site's folder."
    write_secret(home / "broker.toml", toml_of(title, tables))


def _store(signed: TlsIdentity) -> bytes:
    return signed.key_pem() + signed.certificate_pem


def _login(name: str, password: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(AUTHORITY_CERTIFICATE),
        "sasl.mechanism": MECHANISMS[0],
        "sasl.username": name,
        "sasl.password": password,
    }
