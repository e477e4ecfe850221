"""`quorum`: describe, add, remove."""

from __future__ import annotations

import base64
from typing import Annotated, Any

import typer

from bus.cli.errors import report_errors, sync_client
from bus.cli.show import AsJson, Yes, print_json, show
from bus.client.admin import commands, queries
from bus.client.model import QuorumDescription, QuorumReplica
from bus.errors import BusError, ErrorCode

app = typer.Typer(
    help="The metadata quorum (KRaft): describe, add, remove.", no_args_is_help=True
)


def mount(root: typer.Typer) -> None:
    """Add `quorum` to the command line."""
    root.add_typer(app, name="quorum")


CLIENT_ID = "databus-quorum"
NO_DIRECTORY = bytes(16)


@app.command("describe")
@report_errors
def describe_quorum(ctx: typer.Context, as_json: AsJson = False) -> None:
    """The active controller, the voters and observers, and how far each is behind."""
    with sync_client(ctx, CLIENT_ID) as asked:
        quorum = queries.quorum(asked)
    rows = [_row(one, "voter", quorum) for one in quorum.voters]
    rows += [_row(one, "observer", quorum) for one in quorum.observers]
    if as_json:
        whole = {
            "leader_id": quorum.leader_id,
            "leader_epoch": quorum.leader_epoch,
            "high_watermark": quorum.high_watermark,
            "nodes": rows,
        }
        print_json(whole)
        return
    title = (
        f"active controller {quorum.leader_id}, epoch {quorum.leader_epoch}, "
        f"high watermark {quorum.high_watermark}"
    )
    columns = ["node", "role", "log end", "behind", "caught up", "directory", "listens on"]
    show(rows, columns, as_json=False, title=title)


def _row(one: QuorumReplica, role: str, quorum: QuorumDescription) -> dict[str, object]:
    leads = one.node_id == quorum.leader_id
    newest = max(voter.end_offset for voter in quorum.voters)
    caught_up_ago_ms = _ago_ms(quorum, one)
    return {
        "node": one.node_id,
        "role": "leader" if leads else role,
        "log end": one.end_offset,
        "behind": max(0, newest - one.end_offset),
        "caught up": "" if leads or caught_up_ago_ms is None else f"{caught_up_ago_ms} ms ago",
        "caught_up_ms_ago": caught_up_ago_ms,
        "directory": directory_text(one.directory_id),
        "listens on": [f"{n}://{h}:{p}" for n, h, p in quorum.endpoints.get(one.node_id, ())],
    }


def _ago_ms(quorum: QuorumDescription, one: QuorumReplica) -> int | None:
    """Against the leader's own clock: its row is as new as the answer."""
    leader = [voter for voter in quorum.voters if voter.node_id == quorum.leader_id]
    if not leader or min(one.last_caught_up_ms, leader[0].last_caught_up_ms) < 0:
        return None
    return max(0, leader[0].last_caught_up_ms - one.last_caught_up_ms)


@app.command("add")
@report_errors
def add_voter(
    ctx: typer.Context,
    node: Annotated[int, typer.Argument(help="The node's id; it runs already, as an observer.")],
    endpoint: Annotated[str, typer.Option(help="Where it listens: CONTROLLER://host:port.")],
    directory: Annotated[
        str | None, typer.Option(help="Its directory id; asked from the quorum if not given.")
    ] = None,
) -> None:
    """Make an observer that has caught up a voter (needs kraft.version 1)."""
    with sync_client(ctx, CLIENT_ID) as asked:
        quorum, cluster_id = queries.quorum(asked), queries.cluster(asked).cluster_id
        known = _directory(directory, node, [*quorum.observers, *quorum.voters])
        commands.add_voter(asked, cluster_id, node, known, [_listener(endpoint)])
    print(f"node {node} is a voter")


@app.command("remove")
@report_errors
def remove_voter(
    ctx: typer.Context,
    node: int,
    directory: Annotated[
        str | None, typer.Option(help="Its directory id; asked from the quorum if not given.")
    ] = None,
    yes: Yes = False,
) -> None:
    """Take a voter out of the quorum (needs kraft.version 1)."""
    with sync_client(ctx, CLIENT_ID) as asked:
        quorum, cluster_id = queries.quorum(asked), queries.cluster(asked).cluster_id
        known = _directory(directory, node, quorum.voters)
        left = len(quorum.voters) - 1
        if not yes:
            typer.confirm(f"Remove voter {node}? {left} voters remain.", abort=True)
        commands.remove_voter(asked, cluster_id, node, known)
    print(f"node {node} is no voter any more")


def directory_text(directory_id: bytes) -> str:
    """As Kafka writes ids: base64 for URLs without padding; empty for none."""
    if directory_id == NO_DIRECTORY:
        return ""
    return base64.urlsafe_b64encode(directory_id).decode().rstrip("=")


def _directory(given: str | None, node: int, known: Any) -> bytes:
    if given is not None:
        try:
            decoded = base64.urlsafe_b64decode(given + "=" * (-len(given) % 4))
        except ValueError:
            decoded = b""
        if len(decoded) != len(NO_DIRECTORY):
            raise typer.BadParameter(f"{given!r} is no directory id", param_hint="--directory")
        return decoded
    for one in known:
        if one.node_id == node:
            return bytes(one.directory_id)
    raise BusError(
        ErrorCode.VOTER_NOT_FOUND, f"node {node} is not seen by the quorum; is it running?"
    )


def _listener(text: str) -> tuple[str, str, int]:
    name, found, address = text.partition("://")
    host, colon, port = address.rpartition(":")
    if not found or not colon or not port.isdecimal():
        raise typer.BadParameter(f"{text!r} is not NAME://host:port", param_hint="--endpoint")
    return name, host.strip("[]"), int(port)
