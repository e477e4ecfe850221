"""The JSON files of earlier versions: `accounts.json`, `console/sessions.json` and
`console/links.json` in the data directory.

In: the data directory. Out: their rows for `monitor.accounts.database`, which takes them over once;
then the files under another name. Never: deleting one; reading one again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from monitor.accounts.errors import AccountsUnavailable
from monitor.accounts.roles import AccountRole, roles_text

log = logging.getLogger(__name__)

ENDING = ".taken-over"

T = TypeVar("T", bound=msgspec.Struct)


class _Account(msgspec.Struct, frozen=True):
    name: str
    roles: tuple[AccountRole, ...]
    password: str


class _Accounts(msgspec.Struct, frozen=True):
    accounts: tuple[_Account, ...] = ()


class _Session(msgspec.Struct, frozen=True):
    id_hash: str
    name: str
    roles: tuple[AccountRole, ...]
    expires_at_ms: int
    account: bool = True
    credential: str = ""


class _Sessions(msgspec.Struct, frozen=True):
    sessions: tuple[_Session, ...] = ()


class _Link(msgspec.Struct, frozen=True):
    token_hash: str
    name: str
    roles: tuple[AccountRole, ...]
    expires_at_ms: int


class _Links(msgspec.Struct, frozen=True):
    links: tuple[_Link, ...] = ()


@dataclass(frozen=True, slots=True)
class OldFiles:
    """Rows in the order of the columns of the tables of the same names."""

    accounts: list[tuple[object, ...]]
    sessions: list[tuple[object, ...]]
    links: list[tuple[object, ...]]


def old_files(data_path: Path) -> list[Path]:
    """Those that are there under their old names."""
    return [path for path in _paths(data_path) if path.exists()]


def read_old_files(data_path: Path, database: Path) -> OldFiles:
    """What the old files hold; nothing where there is none. Raises `AccountsUnavailable` for one
    that cannot be read.
    """
    accounts, sessions, links = _paths(data_path)
    return OldFiles(
        accounts=[
            (a.name, roles_text(a.roles), a.password)
            for a in _decode(accounts, _Accounts, database).accounts
        ],
        sessions=[
            (s.id_hash, s.name, roles_text(s.roles), s.expires_at_ms, s.account, s.credential)
            for s in _decode(sessions, _Sessions, database).sessions
        ],
        links=[
            (x.token_hash, x.name, roles_text(x.roles), x.expires_at_ms)
            for x in _decode(links, _Links, database).links
        ],
    )


def rename_old_files(data_path: Path, database: Path) -> None:
    """Give old files another name, so that no version reads them. A process that was killed after
    it had taken them over leaves this to the next one.
    """
    for path in old_files(data_path):
        for name in _free_names(path):
            try:
                path.rename(name)
                log.warning("%s is now called %s; %s is read instead of it", path, name, database)
            except FileNotFoundError:  # another process renamed it
                pass
            break


def _paths(data_path: Path) -> tuple[Path, Path, Path]:
    console = data_path / "console"
    return data_path / "accounts.json", console / "sessions.json", console / "links.json"


def _decode(path: Path, model: type[T], database: Path) -> T:
    try:
        return msgspec.json.decode(path.read_bytes(), type=model)
    except FileNotFoundError:
        return model()
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError, OSError) as error:
        raise AccountsUnavailable(
            f"{path} cannot be read ({error}), so nobody can log in: repair it, put back a copy of"
            f" it or move it away; then it is taken over into {database}"
        ) from error


def _free_names(path: Path) -> Iterator[Path]:
    """Names that no file has: a later file of the same name does not replace an earlier one."""
    number = 1
    while True:
        name = path.with_name(path.name + ENDING + (f"-{number}" if number > 1 else ""))
        if not name.exists():
            yield name
        number += 1
