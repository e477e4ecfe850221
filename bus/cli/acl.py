"""`acl`: list, add, remove the rules of who may do what on the bus; explain which of them decides.

A resource is one word: `topic:data.vehicle`, `topic:data.*` (all whose names begin so), `topic:*`,
`group:streams`, `transactional-id:x`, `cluster`, `user:alice`, `delegation-token:ID`. Formats:
docs/acls.md.
"""

from __future__ import annotations

from typing import Annotated

import typer

from bus.cli.errors import report_errors, sync_client
from bus.cli.show import AsJson, print_json, show
from bus.client.admin import commands, queries
from bus.client.admin.config_resources import BROKER
from bus.client.wire.sync_client import SyncClient
from bus.protocol.acl_index import ANY_HOST, ANY_NAME, AclIndex, parse_super_users
from bus.protocol.acls import (
    CLUSTER_NAME,
    AclBinding,
    Operation,
    Pattern,
    Permission,
    Resource,
    word_of,
)

app = typer.Typer(
    help="Who may do what on the bus: list, add, remove, explain.", no_args_is_help=True
)


def mount(root: typer.Typer) -> None:
    """Add `acl` to the command line."""
    root.add_typer(app, name="acl")


CLIENT_ID = "databus-acl"
_KINDS = {
    "topic": Resource.TOPIC,
    "group": Resource.GROUP,
    "transactional-id": Resource.TRANSACTIONAL_ID,
    "cluster": Resource.CLUSTER,
    "user": Resource.USER,
    "delegation-token": Resource.DELEGATION_TOKEN,
}
_WORDS: dict[int, str] = {kind: word for word, kind in _KINDS.items()}
COLUMNS = ["principal", "may", "operation", "resource", "host"]
RESOURCE_HELP = (
    "topic:NAME, topic:BEGINNING*, topic:*, group:…, transactional-id:…, cluster, user:NAME, "
    "delegation-token:ID."
)

PrincipalArgument = Annotated[
    str, typer.Argument(metavar="PRINCIPAL", help="alice or User:alice; User:* is everybody.")
]
OperationArgument = Annotated[
    str,
    typer.Argument(
        metavar="OPERATION", help=", ".join(one.name for one in Operation) + "; any case."
    ),
]
ResourceArgument = Annotated[str, typer.Argument(metavar="RESOURCE", help=RESOURCE_HELP)]
Deny = Annotated[bool, typer.Option("--deny", help="A denial; it wins over whatever allows.")]
Host = Annotated[str, typer.Option(help="A client's address or block (10.0.0.0/8); * is any.")]


@app.command("list")
@report_errors
def list_acls(
    ctx: typer.Context,
    principal: Annotated[str, typer.Option(help="Only of this one.")] = "",
    resource: Annotated[str, typer.Option(help="Only of exactly this resource.")] = "",
    as_json: AsJson = False,
) -> None:
    """All rules, by resource."""
    wanted = _resource(resource) if resource else None
    with sync_client(ctx, CLIENT_ID) as asked:
        acls = queries.acls(asked)
    rows = [
        _row(acl)
        for acl in sorted(acls)
        if principal in ("", acl.principal, acl.principal.removeprefix("User:"))
        and wanted in (None, (acl.resource, acl.name, acl.pattern))
    ]
    if not rows and not as_json:
        print("no ACLs")
        return
    show(rows, COLUMNS, as_json)


@app.command("add")
@report_errors
def add_acl(
    ctx: typer.Context,
    principal: PrincipalArgument,
    operation: OperationArgument,
    resource: ResourceArgument,
    deny: Deny = False,
    host: Host = ANY_HOST,
    as_json: AsJson = False,
) -> None:
    """One rule more; every broker obeys it within a second."""
    acl = _acl(principal, operation, resource, deny=deny, host=host)
    with sync_client(ctx, CLIENT_ID) as asked:
        commands.create_acls(asked, [acl])
    _show_done("added", acl, as_json)


@app.command("remove")
@report_errors
def remove_acl(
    ctx: typer.Context,
    principal: PrincipalArgument,
    operation: OperationArgument,
    resource: ResourceArgument,
    deny: Deny = False,
    host: Host = ANY_HOST,
    as_json: AsJson = False,
) -> None:
    """Exactly this rule, as `acl list` shows it."""
    acl = _acl(principal, operation, resource, deny=deny, host=host)
    with sync_client(ctx, CLIENT_ID) as asked:
        was_there = commands.delete_acl(asked, acl)
    if not was_there:
        typer.echo(f"there is no such ACL: {acl.text}; `databus acl list` shows all", err=True)
        raise typer.Exit(1)
    _show_done("removed", acl, as_json)


@app.command("explain")
@report_errors
def explain(
    ctx: typer.Context,
    principal: PrincipalArgument,
    operation: OperationArgument,
    resource: Annotated[
        str, typer.Argument(metavar="RESOURCE", help="One: topic:NAME, group:NAME, cluster.")
    ],
    host: Annotated[str, typer.Option(help="From which address it asks.")] = "127.0.0.1",
    as_json: AsJson = False,
) -> None:
    """Whether a client is allowed, and which rule decides."""
    kind, name, pattern = _resource(resource)
    if pattern != Pattern.LITERAL or name == ANY_NAME:
        raise typer.BadParameter("name one resource, without *", param_hint="RESOURCE")
    wanted, who = _operation(operation), _principal(principal)
    with sync_client(ctx, CLIENT_ID) as asked:
        index, is_known = _index(asked)
    decision = index.decide(who, host, wanted, kind, name)
    row = None if decision.acl is None else _row(decision.acl)
    if as_json:
        print_json({
            "allowed": decision.is_allowed, "reason": decision.reason, "acl": row,
            "super_users_known": is_known,
        })  # fmt: skip
        return
    because = decision.reason if decision.acl is None else decision.acl.text
    print(f"{'allowed' if decision.is_allowed else 'denied'}: {because}")
    if not is_known:
        print(
            "The broker does not show its super.users and allow.everyone.if.no.acl.found; "
            "a super user may do everything."
        )


def _index(asked: SyncClient) -> tuple[AclIndex, bool]:
    """With all ACLs and the keys of the authorizer of the first broker; whether it shows them."""
    broker = min(one.broker_id for one in queries.cluster(asked).brokers)
    values = {one.name: one.value for one in queries.configs(asked, BROKER, str(broker))}
    users, by_default = (
        values.get(key, "") for key in ("super.users", "allow.everyone.if.no.acl.found")
    )
    index = AclIndex(
        parse_super_users(users or ""),
        allows_without_acls=(by_default or "").strip().lower() == "true",
    )
    index.add(queries.acls(asked))
    return index, users is not None and by_default is not None


def _acl(principal: str, operation: str, resource: str, *, deny: bool, host: str) -> AclBinding:
    kind, name, pattern = _resource(resource)
    permission = Permission.DENY if deny else Permission.ALLOW
    return AclBinding(
        kind, name, pattern, _principal(principal), host, _operation(operation), permission
    )


def _resource(word: str) -> tuple[Resource, str, Pattern]:
    kind_word, colon, name = word.partition(":")
    kind = _KINDS.get(kind_word)
    if kind is None or (kind is Resource.CLUSTER) == bool(colon) or (colon and not name):
        raise typer.BadParameter(f"{word!r}: write {RESOURCE_HELP}", param_hint="RESOURCE")
    if kind is Resource.CLUSTER:
        return kind, CLUSTER_NAME, Pattern.LITERAL
    if kind is Resource.USER and name != ANY_NAME:
        name = _principal(name)
    if name.endswith("*") and name != ANY_NAME:
        return kind, name[:-1], Pattern.PREFIXED
    return kind, name, Pattern.LITERAL


def _principal(word: str) -> str:
    kind, colon, name = word.partition(":")
    if not word or (colon and not (kind and name)):
        raise typer.BadParameter(f"{word!r}: write NAME or User:NAME", param_hint="PRINCIPAL")
    return word if colon else f"User:{word}"


def _operation(word: str) -> Operation:
    name = word.upper().replace("-", "_")
    if name not in Operation.__members__:
        known = ", ".join(Operation.__members__)
        raise typer.BadParameter(f"{word!r} is none of {known}", param_hint="OPERATION")
    return Operation[name]


def _row(acl: AclBinding) -> dict[str, object]:
    return {
        "principal": acl.principal,
        "may": "DENY" if acl.permission == Permission.DENY else "ALLOW",
        "operation": word_of(Operation, acl.operation),
        "resource": _resource_word(acl),
        "host": acl.host,
    }


def _resource_word(acl: AclBinding) -> str:
    if acl.resource == Resource.CLUSTER:
        return "cluster"
    suffix = "*" if acl.pattern == Pattern.PREFIXED else ""
    return f"{_WORDS.get(acl.resource, acl.resource)}:{acl.name}{suffix}"


def _show_done(what: str, acl: AclBinding, as_json: bool) -> None:
    if as_json:
        print_json(_row(acl))
    else:
        print(f"{what}: {acl.text}")
