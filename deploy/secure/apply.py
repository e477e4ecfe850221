"""Puts users, rights and topics of a secured site in force, as a broker of it.

In: the settings of a broker, its accounts' files. Out: the cluster has them all. Never: a right
or a user taken away; what an operator has added stays.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from bus.client.admin import queries
from bus.client.admin.cluster_admin import ClusterAdmin
from bus.client.admin.scram_users import ScramLogin, set_scram_users
from bus.contracts.access import ACCOUNTS, all_acls
from bus.errors import BusError
from bus.protocol.acls import AclBinding
from bus.protocol.apis import ApiKey
from bus.protocol.generated.describe_acls import DescribeAclsRequest
from bus.security.sasl_server import SCRAM_BY_TITLE
from bus.settings import BusSettings
from deploy.errors import OperatorError
from deploy.secure.broker_keys import brokers_address
from deploy.secure.layout import IN_FORCE, account_path
from deploy.secure.other_site import own_site
from deploy.secure.secret_tables import read_tables
from deploy.settings.composed import Settings, own_broker
from deploy.topics import make_topics

APPLY_TIMEOUT_S = 120.0
PAUSE_S = 0.2
CLIENT_ID = "databus-secure"


def apply(settings: Settings) -> str:
    """Do it, waiting for the cluster to come up; a sentence. `settings`: a broker's own. Raises
    OperatorError."""
    folder = settings.security.folder_path(settings.site)
    address = brokers_address(settings.broker)
    if folder is None or not address:
        raise OperatorError(
            "the site is open, or its broker has no listener BROKERS: there is nothing to put in"
            " force; make a secured one with `./databus secure init`"
        )
    users = stored_users(folder)
    bus = _as_node(settings, address)
    deadline_s = time.monotonic() + APPLY_TIMEOUT_S
    while True:
        try:
            _put_in_force(bus, users, int(own_broker(settings)), deadline_s)
            break
        except BusError as error:
            if time.monotonic() > deadline_s:
                raise OperatorError(f"users and rights could not be set: {error}") from error
            time.sleep(PAUSE_S)
    make_topics(bus, settings.mirror, own_site(folder, settings.mirror))
    return f"{IN_FORCE}: {len(users)} users, {len(all_acls())} rights"


def _put_in_force(
    bus: BusSettings, users: Sequence[ScramLogin], node_id: int, deadline_s: float
) -> None:
    """Users first: a broker that has the rights has the users too, under KRaft. Raises BusError."""
    admin = ClusterAdmin(bus, CLIENT_ID)
    try:
        set_scram_users(admin.client, users)
        wanted = set(all_acls())
        missing = wanted - known_acls(admin, node_id)
        if missing:
            admin.create_acls(sorted(missing))
        while wanted - known_acls(admin, node_id):
            if time.monotonic() > deadline_s:
                raise OperatorError(f"broker {node_id} does not take the rights over")
            time.sleep(PAUSE_S)
    finally:
        admin.close()


def known_acls(admin: ClusterAdmin, node_id: int) -> set[AclBinding]:
    """The rights that this very broker knows. Raises BusError."""
    request = DescribeAclsRequest(
        queries.ANY, None, queries.ANY, principal_filter=None, host_filter=None,
        operation=queries.ANY, permission_type=queries.ANY,
    )  # fmt: skip
    answer = admin.client.request_node(node_id, ApiKey.DESCRIBE_ACLS, request)
    queries.raise_for_error(answer.error_code, answer.error_message)
    return set(queries.listed_acls(answer))


def stored_users(folder: Path) -> list[ScramLogin]:
    """Of the accounts whose files this machine has, by the mechanism that each file names. Raises
    OperatorError."""
    found = []
    for name, right in ACCOUNTS.items():
        path = account_path(folder, name)
        if right.on_bus and path.exists():
            login = read_tables(path).get("bus", {}).get("librdkafka", {})
            mechanism = SCRAM_BY_TITLE[login["sasl.mechanism"]]
            found.append(ScramLogin(login["sasl.username"], mechanism, login["sasl.password"]))
    return found


def _as_node(settings: Settings, address: str) -> BusSettings:
    """How a broker reaches the others: with its certificate, ahead of any user."""
    store = settings.broker["ssl.keystore.location"]
    return msgspec.structs.replace(
        settings.bus,
        bootstrap_servers=address,
        librdkafka={
            "security.protocol": "ssl",
            "ssl.ca.location": settings.broker["ssl.truststore.location"],
            "ssl.certificate.location": store,
            "ssl.key.location": store,
        },
    )
