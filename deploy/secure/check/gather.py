"""What `secure check` looks at: settings, the running brokers, files, certificates, accounts.

In: the settings of this machine. Out: `SiteFacts`. Never: a change, a wait without a bound, an
error: what could not be asked is said.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import pkcs12

from broker.config.properties import read_properties
from bus.client.admin import queries
from bus.client.admin.config_resources import BROKER
from bus.client.wire.sync_client import SyncClient
from bus.contracts.access import OPERATOR
from bus.errors import BusError, ErrorCode
from bus.protocol.acls import AclBinding
from bus.settings import BusSettings
from deploy.errors import OperatorError
from deploy.secure.account_settings import as_account, as_role, site_folder
from deploy.secure.check.facts import (
    OWN_BROKER,
    BrokerFacts,
    CertificateFacts,
    FileFacts,
    SiteFacts,
)
from deploy.secure.check.secret_checks import KAFKA_TABLES
from deploy.secure.conversion_file import is_converting
from deploy.secure.layout import AUTHORITY_CERTIFICATE, OTHER_SITES, certificate_stores
from deploy.settings.composed import SECRET_MASK, SECTION_CLASSES, Settings, as_tables
from deploy.settings.secret_fields import secrets_in, section_type
from deploy.settings.shown import is_secret_key, masked_tables
from monitor.accounts.errors import AccountsUnavailable
from monitor.accounts.passwords import MIN_PASSWORD_CHARACTERS, verify_password
from monitor.accounts.store import Account, AccountStore

CLIENT_ID = "databus-secure-check"
ASK_TIMEOUT_MS = 5_000
MAX_BROKERS = 100
MAX_FILES = 2_000
"""Of the site's folder; each certificate of a hundred nodes has a few."""
MAX_ACCOUNTS = 50
"""Whose passwords are tried: 60 ms of the processor for each try."""
FIRST_TRIES = ("password", "12345678", "123456789", "changeme", "admin123", "password123")
STORES = ("ssl.keystore.location", "ssl.key.location", "ssl.truststore.location",
          "ssl.certificate.location", "ssl.ca.location")  # fmt: skip
PRIVATE_STORES = (
    "ssl.keystore.location", "ssl.key.location", "java.security.auth.login.config",
)  # fmt: skip
PEM_CERTIFICATE = b"-----BEGIN CERTIFICATE-----"


def gather(settings: Settings) -> SiteFacts:
    """Look at everything once."""
    not_asked: list[str] = []
    operator = _operator(settings, not_asked)
    own_broker = _own_broker(settings, not_asked)
    running, acls = _asked(operator.bus, not_asked)
    stored = [own_broker.keys, *_kafka_tables(operator)]
    usual = site_folder(settings)
    folder = usual if settings.security.folder else None
    return SiteFacts(
        settings=operator,
        now=datetime.now(UTC),
        brokers=tuple(running) or (own_broker,),
        acls=acls,
        files=tuple(_files(settings, folder, stored)),
        owner=_owner(settings.site.data_path),
        certificates=tuple(_certificates(folder, stored, not_asked)),
        guessed_accounts=tuple(_guessed(settings.site.data_path, not_asked)),
        given_secrets=tuple(_given(settings)),
        spark_file=_spark_file(settings, not_asked),
        unused_folder=str(usual) if folder is None and usual.is_dir() else "",
        converted_folder=str(folder) if folder is not None and is_converting(folder) else "",
        not_asked=tuple(not_asked),
    )


def _operator(settings: Settings, not_asked: list[str]) -> Settings:
    try:
        return as_account(settings, OPERATOR)
    except OperatorError as error:
        not_asked.append(str(error))
        return settings


def _own_broker(settings: Settings, not_asked: list[str]) -> BrokerFacts:
    """As this machine's settings would start it."""
    try:
        return BrokerFacts(OWN_BROKER, as_role(settings, "broker").broker)
    except OperatorError as error:
        not_asked.append(str(error))
        return BrokerFacts(OWN_BROKER, settings.broker)


# -- the running brokers --------------------------------------------------------------------------


def _asked(
    bus: BusSettings, not_asked: list[str]
) -> tuple[list[BrokerFacts], tuple[AclBinding, ...] | None]:
    """What each broker that answers says of itself, and the ACLs."""
    brokers: list[BrokerFacts] = []
    acls: tuple[AclBinding, ...] | None = None
    try:
        with SyncClient.of(
            bus, CLIENT_ID, connect_timeout_ms=ASK_TIMEOUT_MS, request_timeout_ms=ASK_TIMEOUT_MS
        ) as client:
            for node in queries.cluster(client).alive[:MAX_BROKERS]:
                entries = queries.configs(client, BROKER, str(node.broker_id))
                keys = {one.name: one.value for one in entries if one.value is not None}
                brokers.append(BrokerFacts(f"broker {node.broker_id}", keys, node.host))
            acls = _acls(client)
    except (BusError, OSError, ValueError) as error:
        not_asked.append(
            f"the brokers at {bus.bootstrap_servers} were not asked for all they know: {error}"
        )
    return brokers, acls


def _acls(client: SyncClient) -> tuple[AclBinding, ...]:
    try:
        return tuple(queries.acls(client))
    except BusError as error:
        if error.code is ErrorCode.SECURITY_DISABLED:
            return ()  # what that means, the check of the authorizer says
        raise


# -- files ----------------------------------------------------------------------------------------


def _owner(folder: Path) -> int:
    """Whom the product's data belong to; where there are none yet, who asks."""
    try:
        return folder.stat().st_uid
    except OSError:
        return os.getuid()


def _files(
    settings: Settings, folder: Path | None, stored: Iterable[Mapping[str, str]]
) -> Iterator[FileFacts]:
    """What holds secrets, as far as it is there."""
    data_path = settings.site.data_path
    places = {data_path / "console" / "secret", data_path / "console" / "accounts.db"}
    for kind in ("*.json", "cluster.conf", "cluster.credentials"):
        places.update((data_path / "spark").glob(kind))
    if settings.streams.properties_file:
        places.add(Path(settings.streams.properties_file))
    words = settings.arguments
    if "--config" in words and SECRET_MASK in str(masked_tables(settings)):
        places.add(Path(words[words.index("--config") + 1]))
    places.update(Path(keys[key]) for keys in stored for key in _named(keys, PRIVATE_STORES))
    if folder is not None:
        inside = [path for path, _ in zip(folder.rglob("*"), range(MAX_FILES), strict=False)]
        places.update({folder, *inside} - {folder / AUTHORITY_CERTIFICATE})
    for path in sorted(places):
        try:
            found = path.stat()
        except OSError:
            continue
        yield FileFacts(str(path), found.st_mode & 0o777, found.st_uid, path.is_dir())


def _spark_file(settings: Settings, not_asked: list[str]) -> dict[str, str]:
    """Spark's own keys, where a file has them: its form is the one of Kafka's, too."""
    name = settings.streams.properties_file
    try:
        return read_properties(Path(name).read_text(encoding="utf-8")) if name else {}
    except (OSError, UnicodeDecodeError) as error:
        not_asked.append(f"the file of [streams] properties_file could not be read: {error}")
        return {}


def _kafka_tables(settings: Settings) -> list[Mapping[str, str]]:
    tables = as_tables(settings)
    return [tables[s][name] for s in SECTION_CLASSES for name in KAFKA_TABLES & set(tables[s])]


def _named(keys: Mapping[str, str], names: Iterable[str]) -> list[str]:
    """The keys of these names that are set, of single listeners, too."""
    return [key for key, value in keys.items() if value and key.endswith(tuple(names))]


# -- certificates ---------------------------------------------------------------------------------


def _certificates(
    folder: Path | None, stored: Iterable[Mapping[str, str]], not_asked: list[str]
) -> Iterator[CertificateFacts]:
    places: dict[Path, str] = {}
    for keys in stored:
        for key in _named(keys, STORES):
            password = keys.get(key.removesuffix("location") + "password", "")
            places.setdefault(Path(keys[key]), password)
    if folder is not None:
        for path in (folder / AUTHORITY_CERTIFICATE, *_certificates_in(folder)):
            places.setdefault(path, "")
    for path, password in sorted(places.items()):
        try:
            for one in _read(path.read_bytes(), password):
                name = one.subject.rfc4514_string()
                yield CertificateFacts(str(path), name, one.not_valid_after_utc)
        except (OSError, ValueError) as error:
            not_asked.append(f"the certificates of {path} could not be read: {error}")


def _certificates_in(folder: Path) -> Iterator[Path]:
    """Of brokers and ZooKeeper, and of the authority that another site has exported."""
    yield from certificate_stores(folder)
    yield from (folder / OTHER_SITES).glob("*/*.pem")


def _read(data: bytes, password: str) -> list[x509.Certificate]:
    """Of PEM or PKCS#12. Raises ValueError."""
    if PEM_CERTIFICATE in data:
        return x509.load_pem_x509_certificates(data)
    if data.lstrip().startswith(b"-----BEGIN"):
        return []  # a key alone
    found = pkcs12.load_pkcs12(data, password.encode() or None)
    held = [found.cert, *found.additional_certs]
    return [one.certificate for one in held if one is not None]


# -- secrets --------------------------------------------------------------------------------------


def _guessed(data_path: Path, not_asked: list[str]) -> Iterator[str]:
    """Accounts of the console that one of the first tries opens."""
    if not (data_path / "console" / "accounts.db").is_file():
        return
    try:
        accounts = AccountStore(data_path).accounts()
    except AccountsUnavailable as error:
        not_asked.append(f"the console's accounts were not tried: {error}")
        return
    if len(accounts) > MAX_ACCOUNTS:
        not_asked.append(f"passwords of {len(accounts) - MAX_ACCOUNTS} accounts were not tried")
    for one in accounts[:MAX_ACCOUNTS]:
        if any(verify_password(word, one.password) for word in _first_tries(one)):
            yield one.name


def _first_tries(account: Account) -> list[str]:
    """What anybody would try; an account's password cannot be shorter than some length."""
    words = [*FIRST_TRIES, account.name, f"{account.name}123"]
    return [word for word in words if len(word) >= MIN_PASSWORD_CHARACTERS]


def _given(settings: Settings) -> Iterator[str]:
    """Settings with a secret that stand on this command line."""
    words = settings.arguments
    flags = [words[at + 1] for at, word in enumerate(words[:-1]) if word == "--set"]
    tables = as_tables(settings)
    places = {
        ".".join((section, *place))
        for section, cls in SECTION_CLASSES.items()
        for place, secret in secrets_in(section_type(cls), tables[section])
        if secret and (place[0] not in KAFKA_TABLES or place[-1].endswith(("password", "config")))
    }
    places |= {f"broker.{key}" for key in settings.broker if is_secret_key(key)}
    for name in dict.fromkeys(flag.partition("=")[0] for flag in flags):
        if any(place == name or place.startswith(f"{name}.") for place in places):
            yield name
