"""The command `accounts`: who may use the console. Passwords are never arguments, because the list
of processes shows those."""

from __future__ import annotations

import getpass
import json
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager

import typer
from rich.table import Table

from bus.cli.show import screen
from monitor.accounts.errors import AccountError, AccountsUnavailable
from monitor.accounts.passwords import WeakPassword
from monitor.accounts.roles import AccountRole
from monitor.accounts.store import AccountStore

_ROLES_HELP = "May be given several times: viewer, operator, approver, operations."


def mount(app: typer.Typer) -> None:
    """Add the commands of this package."""
    accounts = typer.Typer(help="Accounts of the console and its API.", no_args_is_help=True)
    accounts.command("list")(list_accounts)
    accounts.command("add")(add_account)
    accounts.command("passwd")(change_password)
    accounts.command("roles")(change_roles)
    accounts.command("remove")(remove_account)
    app.add_typer(accounts, name="accounts")


def list_accounts(
    ctx: typer.Context, as_json: bool = typer.Option(False, "--json", help="For scripts.")
) -> None:
    """Show names and roles."""
    with _account_store(ctx) as store:
        rows = [{"name": a.name, "roles": [r.value for r in a.roles]} for a in store.accounts()]
    if as_json:
        typer.echo(json.dumps(rows, ensure_ascii=False))
        return
    table = Table("name", "roles")
    for row in rows:
        table.add_row(str(row["name"]), ", ".join(row["roles"]))
    screen().print(table if rows else "no accounts yet; add one: databus accounts add NAME")


def add_account(
    ctx: typer.Context,
    name: str = typer.Argument(help="The name to log in with."),
    role: list[AccountRole] = typer.Option([AccountRole.VIEWER], "--role", help=_ROLES_HELP),
) -> None:
    """Add an account; asks for the password, or reads it from a pipe."""
    with _account_store(ctx) as store:
        store.add(name, _password(), role)
    typer.echo(f"{name} may log in now")


def change_password(
    ctx: typer.Context, name: str = typer.Argument(help="Whose password to replace.")
) -> None:
    """Replace a password; sessions of this account end."""
    with _account_store(ctx) as store:
        store.set_password(name, _password())
    typer.echo(f"the password of {name} is replaced")


def change_roles(
    ctx: typer.Context,
    name: str = typer.Argument(help="Whose roles to replace."),
    role: list[AccountRole] = typer.Option(..., "--role", help=_ROLES_HELP),
) -> None:
    """Replace the roles of an account; they count from its next request on."""
    with _account_store(ctx) as store:
        store.set_roles(name, role)
    typer.echo(f"{name} has these roles now: {', '.join(one.value for one in role)}")


def remove_account(ctx: typer.Context, name: str = typer.Argument(help="Whom to remove.")) -> None:
    """Remove an account; its sessions end."""
    with _account_store(ctx) as store:
        store.remove(name)
    typer.echo(f"{name} is removed")


@contextmanager
def _account_store(ctx: typer.Context) -> Iterator[AccountStore]:
    """The store of the data directory; what it refuses ends the command with a sentence."""
    try:
        with closing(AccountStore(ctx.obj.site.data_path)) as store:
            yield store
    except (AccountError, AccountsUnavailable, WeakPassword) as error:
        typer.echo(f"databus: {error}", err=True)
        raise typer.Exit(1) from error


def _password() -> str:
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\n")
    first = getpass.getpass("password: ")
    if getpass.getpass("once more: ") != first:
        raise AccountError("the two passwords differ")
    return first
