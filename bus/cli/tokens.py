"""`tokens`: create, list, renew and expire delegation tokens, which log in without a password.

Commands name a token by its id: what it is logged in with stands in no command line, and is shown
once, by `create`. Keys of the brokers and logins: docs/security.md.
"""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import Annotated

import typer

from bus.cli.errors import report_errors, sync_client
from bus.cli.show import AsJson, print_json, show
from bus.client.admin.delegation_tokens import (
    AS_LONG_AS_POSSIBLE,
    DelegationToken,
    create_token,
    delegation_tokens,
    expire_token,
    renew_token,
)
from bus.client.wire.sync_client import SyncClient

app = typer.Typer(
    help="Tokens that log in without a password: create, list, renew, expire.",
    no_args_is_help=True,
)


def mount(root: typer.Typer) -> None:
    """Add `tokens` to the command line."""
    root.add_typer(app, name="tokens")


CLIENT_ID = "databus-tokens"
COLUMNS = ["token", "owner", "renewers", "until", "at_most_until"]
HOUR_MS = 3_600_000

TokenId = Annotated[str, typer.Argument(metavar="TOKEN", help="Its id; `tokens list` shows it.")]
Hours = Annotated[
    float | None, typer.Option(min=0.001, help="As long as the cluster allows, if not given.")
]


@app.command("create")
@report_errors
def create(
    ctx: typer.Context,
    owner: Annotated[str, typer.Option(help="Of another user, with CREATE_TOKENS on it.")] = "",
    renewer: Annotated[
        list[str] | None, typer.Option(help="A user who may renew and end it; several times.")
    ] = None,
    hours: Hours = None,
    as_json: AsJson = False,
) -> None:
    """A new token, and what it is logged in with: shown now and never again."""
    with sync_client(ctx, CLIENT_ID) as asked:
        made = create_token(asked, owner, renewer or (), _period_ms(hours))
    password = base64.b64encode(made.hmac).decode()
    if as_json:
        print_json({**_row(made), "password": password})
        return
    print(f"created: token {made.token_id} of {made.owner}, until {_time(made.ends_at_ms)}")
    print(f"password: {password}")


@app.command("list")
@report_errors
def list_tokens(
    ctx: typer.Context,
    owner: Annotated[str, typer.Option(help="Only of this user.")] = "",
    as_json: AsJson = False,
) -> None:
    """Those that you may see; never what they are logged in with."""
    with sync_client(ctx, CLIENT_ID) as asked:
        rows = [_row(one) for one in delegation_tokens(asked, owner)]
    if not rows and not as_json:
        print("no tokens")
        return
    show(rows, COLUMNS, as_json)


@app.command("renew")
@report_errors
def renew(
    ctx: typer.Context, token: TokenId, hours: Hours = None, as_json: AsJson = False
) -> None:
    """It ends later: so many hours from now, and never after its life."""
    with sync_client(ctx, CLIENT_ID) as asked:
        named = _named(asked, token)
        _show_done("renewed", named, renew_token(asked, named, _period_ms(hours)), as_json)


@app.command("expire")
@report_errors
def expire(ctx: typer.Context, token: TokenId, as_json: AsJson = False) -> None:
    """It ends now: nobody logs in with it any more, on any broker."""
    with sync_client(ctx, CLIENT_ID) as asked:
        named = _named(asked, token)
        _show_done("expired", named, expire_token(asked, named), as_json)


def _named(asked: SyncClient, token_id: str) -> DelegationToken:
    for one in delegation_tokens(asked):
        if one.token_id == token_id:
            return one
    typer.echo(
        f"there is no such token, or you may not see it: {token_id}; `databus tokens list` shows "
        "those that you may see",
        err=True,
    )
    raise typer.Exit(1)


def _period_ms(hours: float | None) -> int:
    return AS_LONG_AS_POSSIBLE if hours is None else max(int(hours * HOUR_MS), 1)


def _row(token: DelegationToken) -> dict[str, object]:
    return {
        "token": token.token_id,
        "owner": token.owner,
        "renewers": list(token.renewers),
        "until": _time(token.ends_at_ms),
        "at_most_until": _time(token.life_ends_at_ms),
    }


def _time(at_ms: int) -> str:
    """In UTC; a time that no calendar has is the end of it."""
    try:
        return datetime.fromtimestamp(at_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, OSError, ValueError):
        return "9999-12-31T23:59:59Z"


def _show_done(what: str, token: DelegationToken, ends_at_ms: int, as_json: bool) -> None:
    row = {**_row(token), "until": _time(ends_at_ms)}
    if as_json:
        print_json(row)
    else:
        print(f"{what}: token {token.token_id} of {token.owner}, until {row['until']}")
