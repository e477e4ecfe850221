"""What of a site's folder is lost, and what makes up for it.

In: the folder. Out: lost accounts made again, each with a new password; sentences about the rest.
Raises OperatorError. Never: a file that is there and readable, changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bus.contracts.access import ACCOUNTS
from deploy.errors import OperatorError
from deploy.secure.init import new_account
from deploy.secure.layout import (
    AUTHORITY_KEY,
    NEXT_AUTHORITY,
    NEXT_AUTHORITY_KEY,
    account_path,
    node_path,
    node_store,
)
from deploy.secure.secret_files import replace_secret
from deploy.secure.secret_tables import read_tables


@dataclass(frozen=True, slots=True)
class LostFiles:
    """`accounts` and `nodes` by name; `has_key`: whether the authority's key is in the folder."""

    accounts: tuple[str, ...]
    nodes: tuple[str, ...]
    has_key: bool


def lost_files(folder: Path) -> LostFiles:
    """What is not there, or cannot be read any more. A file that others may read is not lost: that
    is said. Raises OperatorError."""
    accounts = [name for name in ACCOUNTS if _is_lost(account_path(folder, name))]
    numbers = sorted(path.name.removeprefix("broker-") for path in (folder / "nodes").iterdir())
    nodes = [
        node_path(folder, number).name
        for number in numbers
        if _is_lost(node_path(folder, number) / "broker.toml")
        or not node_store(folder, number).is_file()
    ]
    key = NEXT_AUTHORITY_KEY if (folder / NEXT_AUTHORITY).exists() else AUTHORITY_KEY
    return LostFiles(tuple(accounts), tuple(nodes), (folder / key).is_file())


def recover_accounts(folder: Path) -> tuple[str, ...]:
    """Make the lost accounts again; which they were. They count once a broker of this machine has
    started again: it sets all users from the folder."""
    lost = lost_files(folder).accounts
    if not lost:
        return ()
    page_token = _page_token(folder, lost)
    for name in lost:
        replace_secret(account_path(folder, name), new_account(name, page_token))
    return lost


def _is_lost(path: Path) -> bool:
    if not path.exists():
        return True
    if not path.stat().st_size:
        return True
    read_tables(path)  # what it says of a broken file is for an operator to decide
    return False


def _page_token(folder: Path, lost: tuple[str, ...]) -> str:
    """That of all processes, by any file that is left."""
    left = [account_path(folder, name) for name in ACCOUNTS if name not in lost]
    left += sorted((folder / "nodes").glob("*/broker.toml"))
    for path in left:
        token = read_tables(path).get("security", {}).get("page_token", "")
        if token:
            return str(token)
    raise OperatorError(
        f"{folder} has neither an account nor a node left: make a folder anew (`./databus secure"
        " init`) and start everything again with it"
    )
