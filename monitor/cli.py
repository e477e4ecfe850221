"""The commands `accounts`, who may use the console, and `questions`, who asked what. Passwords are
never arguments, because the list of processes shows those."""

from __future__ import annotations

import getpass
import json
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from zoneinfo import ZoneInfo

import msgspec
import typer
from rich.markup import escape
from rich.table import Table

from bus.cli.show import screen
from bus.domain.visibility import EVERYTHING
from monitor.accounts.errors import AccountError, AccountsUnavailable
from monitor.accounts.passwords import WeakPassword
from monitor.accounts.roles import AccountRole
from monitor.accounts.store import AccountStore
from monitor.questions.question_log import (
    MAX_PAGE,
    QuestionFilter,
    QuestionLog,
    QuestionsUnavailable,
)

_ROLES_HELP = "May be given several times: viewer, operator, approver, operations."


def mount(app: typer.Typer) -> None:
    """Add the commands of this package."""
    accounts = typer.Typer(help="Accounts of the console and its API.", no_args_is_help=True)
    accounts.command("list")(list_accounts)
    accounts.command("add")(add_account)
    accounts.command("passwd")(change_password)
    accounts.command("roles")(change_roles)
    accounts.command("unit")(change_unit)
    accounts.command("remove")(remove_account)
    app.add_typer(accounts, name="accounts")
    app.command("questions")(list_questions)


def list_questions(
    ctx: typer.Context,
    account: str = typer.Option("", help="Of this account alone."),
    case: str = typer.Option("", help="Of this case alone."),
    kind: str = typer.Option("", help="search, export, plates, trajectory, preview, evidence …"),
    text: str = typer.Option("", help="What was asked for contains this, a plate for example."),
    since: str = typer.Option("", "--from", help="Asked from 2026-11-30 or 2026-11-30T08:00 on."),
    until: str = typer.Option("", help="Asked before."),
    limit: int = typer.Option(50, min=1, max=MAX_PAGE, help="At most so many, the newest."),
    cursor: int = typer.Option(0, min=0, help="Go on where a list ended, as its last line says."),
    as_json: bool = typer.Option(False, "--json", help="One JSON object per line, for scripts."),
) -> None:
    """Who asked what of a plate or a face, when and why."""
    zone = ctx.obj.site.tz
    wanted = QuestionFilter(
        account=account, kind=kind, case=case, text=text,
        from_ms=_moment(since, zone, "--from"), until_ms=_moment(until, zone, "--until"),
    )  # fmt: skip
    kept = QuestionLog(ctx.obj.site.data_path, ctx.obj.policy.questions_days)
    try:
        found, following = kept.page(wanted, viewer=EVERYTHING, limit=limit, before_id=cursor)
    except QuestionsUnavailable as error:
        typer.echo(f"databus: {error}", err=True)
        raise typer.Exit(1) from error
    table = Table("asked", "account", "kind", "asked for", "case", "reason")
    for one in found:
        if as_json:
            typer.echo(msgspec.json.encode(one).decode())
            continue
        at = datetime.fromtimestamp(one.at_ms / 1000, zone).strftime("%Y-%m-%d %H:%M:%S")
        words = (one.account, one.kind, one.subject_text, one.case, one.reason)
        table.add_row(at, *map(escape, words))
    if not as_json:
        screen().print(table if found else "nobody has asked that")
    if following:
        typer.echo(f"more: --cursor {following}", err=as_json)


def _moment(text: str, zone: ZoneInfo, option: str) -> int:
    if not text:
        return 0
    try:
        found = datetime.fromisoformat(text)
        return int((found if found.tzinfo else found.replace(tzinfo=zone)).timestamp() * 1000)
    except (ValueError, OverflowError) as error:
        raise typer.BadParameter(f"{text!r}: write 2026-11-30T08:00", param_hint=option) from error


def list_accounts(
    ctx: typer.Context, as_json: bool = typer.Option(False, "--json", help="For scripts.")
) -> None:
    """Show names and roles."""
    with _account_store(ctx) as store:
        rows = [
            {
                "name": a.name, "roles": [r.value for r in a.roles], "unit": a.unit,
                "districts": list(a.districts),
            }
            for a in store.accounts()
        ]  # fmt: skip
    if as_json:
        typer.echo(json.dumps(rows, ensure_ascii=False))
        return
    table = Table("name", "roles", "unit", "districts")
    for row in rows:
        listed = (", ".join(row[part]) for part in ("roles", "districts"))
        roles, districts = listed
        table.add_row(str(row["name"]), roles, str(row["unit"]), districts or "all")
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


def change_unit(
    ctx: typer.Context,
    name: str = typer.Argument(help="Whose unit and districts to replace."),
    unit: str = typer.Option("", help="Whose rules the account sees; without it of no unit."),
    district: list[str] = typer.Option(
        [], help="An id of the register; several times. Whose alarms come first; without it: all."
    ),
) -> None:
    """Replace unit and districts of an account; they count from its next request on."""
    with _account_store(ctx) as store:
        store.set_unit(name, unit.strip(), district)
    where = f"the districts {', '.join(district)}" if district else "all districts"
    typer.echo(f"{name} is of {f'the unit {unit}' if unit else 'no unit'} now, and of {where}")


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
