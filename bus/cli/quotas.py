"""`quotas`: list, set, unset how much of the brokers a client may use.

Whose they are: `--user`, `--client-id` or both, or `--ip`; `*` is the default, for all that have
none of their own. Keys and what they mean: docs/quotas.md.
"""

from __future__ import annotations

from typing import Annotated

import typer

from bus.cli.errors import report_errors, sync_client
from bus.cli.show import AsJson, print_json, show
from bus.client.admin.client_quotas import Entity, alter_client_quotas_of, client_quotas
from bus.protocol.quota_entities import CLIENT_ID, IP, USER

app = typer.Typer(
    help="How much of the brokers a client may use: list, set, unset.", no_args_is_help=True
)


def mount(root: typer.Typer) -> None:
    """Add `quotas` to the command line."""
    root.add_typer(app, name="quotas")


OUR_CLIENT_ID = "databus-quotas"
DEFAULT = "*"
COLUMNS = [USER, CLIENT_ID, IP, "key", "value"]

User = Annotated[str, typer.Option(help="A user's name; * is the default.")]
ClientId = Annotated[str, typer.Option(help="What clients call themselves; * is the default.")]
Ip = Annotated[str, typer.Option(help="An address; * is the default. Without the other two.")]


@app.command("list")
@report_errors
def list_quotas(ctx: typer.Context, as_json: AsJson = False) -> None:
    """All quotas, one line for each limit."""
    with sync_client(ctx, OUR_CLIENT_ID) as asked:
        found = client_quotas(asked)
    rows = [
        _row(quota.entity, key, value)
        for quota in found
        for key, value in sorted(quota.values.items())
    ]
    if not rows and not as_json:
        print("no quotas")
        return
    show(rows, COLUMNS, as_json)


@app.command("set")
@report_errors
def set_quotas(
    ctx: typer.Context,
    limits: Annotated[
        list[str], typer.Argument(metavar="KEY=VALUE...", help="producer_byte_rate=1000000")
    ],
    user: User = "",
    client_id: ClientId = "",
    ip: Ip = "",
    as_json: AsJson = False,
) -> None:
    """Limits of one entity; they count at once, on every broker within a second."""
    entity = _entity(user, client_id, ip)
    values = dict(_limit(word) for word in limits)
    with sync_client(ctx, OUR_CLIENT_ID) as asked:
        alter_client_quotas_of(asked, entity, values)
    _show_done("set", [_row(entity, key, value) for key, value in values.items()], as_json)


@app.command("unset")
@report_errors
def unset_quotas(
    ctx: typer.Context,
    keys: Annotated[list[str], typer.Argument(metavar="KEY...", help="producer_byte_rate")],
    user: User = "",
    client_id: ClientId = "",
    ip: Ip = "",
    as_json: AsJson = False,
) -> None:
    """Take limits of one entity back."""
    entity = _entity(user, client_id, ip)
    with sync_client(ctx, OUR_CLIENT_ID) as asked:
        there = {quota.entity: quota.values for quota in client_quotas(asked)}.get(entity, {})
        missing = [key for key in keys if key not in there]
        if missing:
            typer.echo(
                f"there is no such quota: {', '.join(missing)}; `databus quotas list` shows all",
                err=True,
            )
            raise typer.Exit(1)
        alter_client_quotas_of(asked, entity, dict.fromkeys(keys))
    _show_done("unset", [_row(entity, key, there[key]) for key in keys], as_json)


def _entity(user: str, client_id: str, ip: str) -> Entity:
    given = {CLIENT_ID: client_id, USER: user, IP: ip}
    entity = tuple(
        sorted((kind, None if name == DEFAULT else name) for kind, name in given.items() if name)
    )
    if not entity or (ip and len(entity) > 1):
        raise typer.BadParameter("say whose it is: --user, --client-id or both, or --ip")
    return entity


def _limit(word: str) -> tuple[str, float]:
    key, equals, text = word.partition("=")
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not (key and equals) or not 0 < value < float("inf"):
        raise typer.BadParameter(
            f"{word!r}: write KEY=VALUE, with a number above 0", param_hint="KEY=VALUE"
        )
    return key, value


def _row(entity: Entity, key: str, value: float) -> dict[str, object]:
    named = {kind: DEFAULT if name is None else name for kind, name in entity}
    return {**{kind: named.get(kind, "") for kind in COLUMNS[:3]}, "key": key, "value": value}


def _show_done(what: str, rows: list[dict[str, object]], as_json: bool) -> None:
    if as_json:
        print_json(rows)
        return
    for row in rows:
        whose = ", ".join(f"{kind} {row[kind]}" for kind in COLUMNS[:3] if row[kind])
        print(f"{what}: {row['key']}={row['value']:.15g} of {whose}")
