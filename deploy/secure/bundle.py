"""Makes the sealed file of one machine, and unpacks it there once.

In: the folder of the site, a machine's name, what runs there. Out: a file; on the other machine a
folder, whole or not at all. Raises OperatorError. Never: the authority's key; an account or a node
that was not asked for; a folder that stands, changed.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Sequence
from datetime import datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509

from bus.contracts.access import ACCOUNTS, CONSOLE
from bus.files.durable_file import sync_folder
from bus.files.lock_file import hold_lock_file
from deploy.errors import OperatorError
from deploy.secure.bundle_format import BundleError, SiteBundle, seal, unseal
from deploy.secure.layout import (
    AUTHORITY_CERTIFICATE,
    CONVERSION_FILE,
    ENSEMBLE_READER,
    account_path,
    ensemble_client_store,
    node_path,
    node_store,
)
from deploy.secure.other_site import pair_places
from deploy.secure.secret_files import write_secret
from deploy.settings.sources import unknown

VALID = timedelta(hours=24)
"""From its making until a bundle is opened."""
CODE_BYTES = 18
ID_BYTES = 9
FOLDER_MODE = 0o700


def new_code() -> str:
    """One that nobody has chosen."""
    return secrets.token_urlsafe(CODE_BYTES)


def make_bundle(
    folder: Path,
    host: str,
    *,
    brokers: Sequence[int],
    accounts: Sequence[str],
    now: datetime,
) -> SiteBundle:
    """What that machine needs. Raises OperatorError where the folder has no such node or account,
    or the node's certificate is not for that machine."""
    for name in accounts:
        if name not in ACCOUNTS:
            raise OperatorError(unknown("account", name, ACCOUNTS))
    wanted = [AUTHORITY_CERTIFICATE, *(account_path(Path(), name) for name in accounts)]
    if (folder / CONVERSION_FILE).exists():
        wanted.append(CONVERSION_FILE)
    for number in brokers:
        _check_place(node_store(folder, number), host)
        wanted += [node_store(Path(), number), node_path(Path(), number) / "broker.toml"]
        wanted.append(ensemble_client_store(Path(), number))
    if CONSOLE in accounts:
        wanted.append(ENSEMBLE_READER)
    wanted += pair_places(folder, accounts)
    files = {place.as_posix(): _read(folder / place) for place in wanted}
    return SiteBundle(
        host=host, bundle_id=secrets.token_urlsafe(ID_BYTES), made_at=now, ends_at=now + VALID,
        files=files,
    )  # fmt: skip


def write_bundle(path: Path, bundle: SiteBundle, code: str) -> None:
    """A file for its owner only, on the device when this returns. Raises OperatorError where there
    is one."""
    try:
        write_secret(path, seal(bundle, code))
        sync_folder(path.absolute().parent)
    except (OSError, BundleError) as error:
        raise OperatorError(f"{path} could not be made: {error}") from error


def open_bundle(path: Path, folder: Path, code: str, now: datetime) -> SiteBundle:
    """Unpack it as the folder of this machine, and delete it. Raises OperatorError."""
    try:
        bundle = unseal(_read(path), code)
    except BundleError as error:
        raise OperatorError(f"{path} cannot be opened: {error}") from None
    if now > bundle.ends_at:
        raise OperatorError(
            f"{path} was to be opened until {bundle.ends_at.isoformat(timespec='minutes')}; have"
            " another one made"
        )
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with hold_lock_file(folder.with_name(f"{folder.name}.lock")):
            _unpack(bundle, folder)
        path.unlink()
    except BlockingIOError:
        raise OperatorError(f"another command is making {folder}") from None
    except OSError as error:
        raise OperatorError(f"{folder} could not be made: {error}") from error
    return bundle


def _unpack(bundle: SiteBundle, folder: Path) -> None:
    """Beside its place, then renamed: a command that is killed leaves no half folder."""
    if folder.exists():
        raise OperatorError(
            f"{folder} stands; nothing is changed. A bundle is opened once, on a machine that has"
            " no folder yet"
        )
    fresh = folder.with_name(f"{folder.name}.new")
    if fresh.exists():  # of a process that was killed
        shutil.rmtree(fresh)
    names = {fresh, fresh / "nodes", fresh / "accounts"}
    for place in bundle.files:
        names.update(fresh / folder_of for folder_of in Path(place).parents)
    for name in sorted(names):
        name.mkdir(mode=FOLDER_MODE)
        name.chmod(FOLDER_MODE)
    for place, data in bundle.files.items():
        write_secret(fresh / place, data)
    for name in sorted(names, reverse=True):
        sync_folder(name)
    fresh.rename(folder)
    sync_folder(folder.parent)


def _check_place(store: Path, host: str) -> None:
    """Others check that name when they connect."""
    try:
        certificate = x509.load_pem_x509_certificates(_read(store))[0]
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, x509.ExtensionNotFound) as error:
        raise OperatorError(f"{store} has no certificate: {error}") from error
    if host not in [str(one.value) for one in names]:
        raise OperatorError(
            f"the certificate of {store.parent.name} is not for {_described(host)}, and nobody"
            " would connect to it there; make a folder with its name:"
            f" ./databus secure init --host {host}"
        )


def _described(host: str) -> str:
    try:
        return f"the address {ip_address(host)}"
    except ValueError:
        return f"the machine {host}"


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise OperatorError(f"{path} cannot be read: {error.strerror}") from error


def contents(bundle: SiteBundle) -> str:
    """For a person: names only."""
    nodes = sorted({place.split("/")[1] for place in bundle.files if place.startswith("nodes/")})
    accounts = sorted(
        Path(place).stem for place in bundle.files if place.startswith("accounts/")
    )
    return ", ".join([*nodes, *accounts]) or "no process"
