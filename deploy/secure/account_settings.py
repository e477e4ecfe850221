"""The settings of one process of a secured site: those of all, and what its account's file says.

In: settings, an account's name. Out: settings that only this process has. Never: a secret that
leaves it: neither arguments nor environment of a child hold what is read here.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from bus.contracts.access import ACCOUNTS, BACKUP, OPERATOR, STREAMS
from deploy.errors import OperatorError
from deploy.secure.broker_keys import ConversionStage, converted, with_ensemble_of
from deploy.secure.conversion_file import is_converting, read_stage
from deploy.secure.layout import DEFAULT_FOLDER, account_path, node_name, node_path
from deploy.secure.other_site import pair_tables
from deploy.secure.secret_tables import read_tables
from deploy.settings.composed import Settings, own_broker, with_account
from deploy.settings.sources import SettingsError

PATH_ENDINGS = (".location", "_pem")
"""Of keys whose values are files of the site's folder."""
_ACCOUNTS_OF_ROLES = {"streams-watchlist": STREAMS}
BROKER_COMMANDS, ENSEMBLE_KEYS = "broker", "zookeeper."
_ACCOUNTS_OF_COMMANDS = {"backup": BACKUP}


def as_account(settings: Settings, name: str) -> Settings:
    """The same settings with the tables of this account laid over, and what it needs of the other
    site of a mirrored pair; where the site is open, or its processes do not log in yet, those of an
    open one. Raises OperatorError where a file of them cannot be used."""
    folder = settings.security.folder_path(settings.site)
    if folder is None:
        return settings
    if read_stage(folder) < ConversionStage.PROCESSES:
        return as_open(settings)
    return as_logged_in(settings, folder, name)


def as_logged_in(settings: Settings, folder: Path, name: str) -> Settings:
    """With this account, whatever stage the site is at. Raises OperatorError."""
    tables = read_tables(account_path(folder, name))
    if is_converting(folder):
        tables.pop("console", None)  # what it shows to ZooKeeper, which asks for nothing
    for section, keys in pair_tables(folder, settings.mirror, name).items():
        tables[section] = {**tables.get(section, {}), **keys}
    return _laid_over(settings, folder, tables)


def as_command(settings: Settings, command: str) -> Settings:
    """What a command of the command line is run with: the operator's account, mostly; those about
    brokers also with what this machine's broker shows to ZooKeeper."""
    found = as_account(settings, _ACCOUNTS_OF_COMMANDS.get(command, OPERATOR))
    return _with_ensemble(found) if command == BROKER_COMMANDS else found


def _with_ensemble(settings: Settings) -> Settings:
    """A tree whose entries are to be closed lies in an ensemble that lets only brokers in."""
    folder = settings.security.folder_path(settings.site)
    if folder is None or not node_path(folder, own_broker(settings)).is_dir():
        return settings
    broker = _as_broker(settings, folder, own_broker(settings)).broker
    keys = {name: value for name, value in broker.items() if name.startswith(ENSEMBLE_KEYS)}
    return msgspec.structs.replace(settings, broker={**keys, **settings.broker})


def site_folder(settings: Settings) -> Path:
    """Where the folder of this site is or will be."""
    usual = settings.site.data_path / DEFAULT_FOLDER
    return settings.security.folder_path(settings.site) or usual


def check_nodes(settings: Settings, brokers: int) -> None:
    """Raises OperatorError where the site's folder has certificates for fewer brokers."""
    folder = site_folder(settings)
    missing = [n for n in range(1, brokers + 1) if not node_path(folder, n).is_dir()]
    if missing:
        raise OperatorError(
            f"{folder} has no certificate for {node_name(missing[0])}; make a folder for all in"
            f" another place: ./databus --set security.folder=… secure init --brokers {brokers}"
        )


def as_role(settings: Settings, role: str) -> Settings:
    """What a role is run with: its account's settings, or its node's if it is a broker."""
    folder = settings.security.folder_path(settings.site)
    if folder is None:
        return settings
    if role == "broker":
        return _as_broker(settings, folder, own_broker(settings))
    name = _ACCOUNTS_OF_ROLES.get(role, role)
    return as_account(settings, name if name in ACCOUNTS else OPERATOR)


def _as_broker(settings: Settings, folder: Path, number: str) -> Settings:
    stage = read_stage(folder)
    if stage is ConversionStage.OPEN:
        return as_open(settings)
    tables = read_tables(node_path(folder, number) / "broker.toml")
    if stage is not ConversionStage.CLOSED:
        # Processes that are not moved yet have no token for the broker's page.
        tables = {"broker": tables["broker"]}
    own = _laid_over(settings, folder, tables)
    broker = converted(own.broker, stage)
    if is_converting(folder):
        broker = with_ensemble_of(broker, settings.broker)
    return msgspec.structs.replace(own, broker=broker)


def as_open(settings: Settings) -> Settings:
    """As if there were no folder yet."""
    security = msgspec.structs.replace(settings.security, folder="")
    return msgspec.structs.replace(settings, security=security)


def _laid_over(
    settings: Settings, folder: Path, tables: Mapping[str, Mapping[str, Any]]
) -> Settings:
    """With the folder's files named from the root: the folder may be moved as a whole."""
    try:
        return with_account(settings, {name: _rooted(folder, t) for name, t in tables.items()})
    except SettingsError as error:
        raise OperatorError(f"{folder}: {error}") from error


def _rooted(folder: Path, table: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, Mapping):
            found[key] = _rooted(folder, value)
        elif key.endswith(PATH_ENDINGS):
            found[key] = str(folder / value)
        else:
            found[key] = value
    return found
