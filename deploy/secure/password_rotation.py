"""New passwords for the accounts of a running site: for a while each has two.

In: the folder of the site, a client that may set users. Out: the account's file has the new one,
the cluster knows both; then, on demand, the new one alone. Never: a password in a file that the
cluster does not know yet.

Kafka keeps one password of a user for each mechanism, so that the new one is of the mechanism that
the old one is not of.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path

from bus.client.admin.scram_users import ScramLogin, delete_scram_user, set_scram_users
from bus.client.wire.sync_client import SyncClient
from bus.contracts.access import ACCOUNTS
from bus.security.sasl_server import SCRAM_BY_TITLE
from deploy.errors import OperatorError
from deploy.secure.layout import MECHANISMS, SECRET_BYTES, account_path
from deploy.secure.secret_files import replace_secret
from deploy.secure.secret_tables import read_tables
from deploy.settings.sources import unknown


def chosen_accounts(folder: Path, names: Sequence[str]) -> list[str]:
    """Those, or all whose file this machine has. Raises OperatorError."""
    on_bus = [name for name, right in ACCOUNTS.items() if right.on_bus]
    for name in names:
        if name not in on_bus:
            raise OperatorError(unknown("account", name, on_bus))
    return list(names) or [name for name in on_bus if account_path(folder, name).exists()]


def begin_passwords(folder: Path, client: SyncClient, names: Sequence[str]) -> None:
    """A new one for each; the old ones count as well. What was begun before and not finished is
    begun anew. Raises BusError, OperatorError."""
    for name in names:
        path = account_path(folder, name)
        login = read_tables(path)["bus"]["librdkafka"]
        mechanism = _other(login["sasl.mechanism"])
        password = secrets.token_urlsafe(SECRET_BYTES)
        changed = _with(path, {"sasl.mechanism": mechanism, "sasl.password": password})
        user = ScramLogin(login["sasl.username"], SCRAM_BY_TITLE[mechanism], password)
        set_scram_users(client, [user])
        replace_secret(path, changed)


def finish_passwords(folder: Path, client: SyncClient, names: Sequence[str]) -> list[str]:
    """Take the passwords away that no file has; whose were. Raises BusError, OperatorError."""
    withdrawn = []
    for name in names:
        login = read_tables(account_path(folder, name))["bus"]["librdkafka"]
        former = SCRAM_BY_TITLE[_other(login["sasl.mechanism"])]
        if delete_scram_user(client, login["sasl.username"], former):
            withdrawn.append(name)
    return withdrawn


def _other(mechanism: str) -> str:
    return next(one for one in MECHANISMS if one != mechanism)


def _with(path: Path, changed: Mapping[str, str]) -> bytes:
    """The file with these values; whatever else somebody has written there stays. Raises
    OperatorError where a key does not stand in a line of its own."""
    text = path.read_text(encoding="utf-8")
    for key, value in changed.items():
        line = re.compile(rf'^"?{re.escape(key)}"? *=.*$', re.MULTILINE)
        text, found = line.subn(f"{json.dumps(key)} = {json.dumps(value)}", text)
        if found != 1:
            raise OperatorError(f"{path}: write {key} in one line of its own, then try again")
    return text.encode()
