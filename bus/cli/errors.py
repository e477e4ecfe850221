"""Errors of the bus as an operator sees them: what happened, and what to do about it."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, ParamSpec

import typer

from bus.client.admin.assignment import NotAssignable
from bus.client.admin.reassignment_json import InvalidPlan
from bus.errors import BusError, ErrorCode

if TYPE_CHECKING:
    from bus.client.kafka.admin import Admin
    from bus.client.wire.sync_client import SyncClient

P = ParamSpec("P")

RESPONSE_WAIT_S = 5.0
"""How long a person waits to be told that no broker answers."""

_UNAVAILABLE = "No broker answers. Start one with `databus up`, or set bus.bootstrap_servers."
_REMEDIES: dict[ErrorCode, str] = {
    ErrorCode.NETWORK_EXCEPTION: _UNAVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: "No broker answered in time. Start one with `databus up`, or set "
    "bus.bootstrap_servers; if `databus brokers list` shows that they are alive, start the servers "
    "of the quorum, or of ZooKeeper, until a majority runs: nothing is decided before.",
    ErrorCode.LEADER_NOT_AVAILABLE: "Its brokers are starting or away; repeat in a few seconds, "
    "`databus topics describe` shows who leads.",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "`databus topics list` shows the topics there are.",
    ErrorCode.TOPIC_ALREADY_EXISTS: "`databus topics describe` shows it; delete it first.",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "Names have letters, digits, dot, hyphen, underscore.",
    ErrorCode.GROUP_ID_NOT_FOUND: "`databus groups list` shows the groups there are.",
    ErrorCode.NON_EMPTY_GROUP: "Stop its members first; `databus groups describe` names them.",
    ErrorCode.INVALID_REPLICATION_FACTOR: "Ask for no more replicas than there are brokers.",
    ErrorCode.INVALID_PARTITIONS: "Partitions can only be added; name the new total.",
    ErrorCode.INVALID_REPLICA_ASSIGNMENT: "`databus brokers list` shows the brokers there are.",
    ErrorCode.BROKER_NOT_AVAILABLE: "`databus brokers list` shows which brokers are alive.",
    ErrorCode.NOT_CONTROLLER: "The controller is moving; repeat in a few seconds.",
    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS: "`databus reassign list` shows what moves now.",
    ErrorCode.UNSUPPORTED_VERSION: "This cluster cannot do that: in ZooKeeper mode there is no "
    "metadata quorum; an older cluster lacks newer requests.",
    ErrorCode.INVALID_CONFIG: "`databus broker configs` (or `--topic`) lists every key.",
    ErrorCode.POLICY_VIOLATION: "The cluster's policy forbids it; its text says why.",
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: "The first replica is not alive or not in sync; "
    "`databus topics describe --under-replicated` shows what is missing.",
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE: "No replica in sync is alive: start the brokers that "
    "hold them; only if they are lost for good, `databus leaders elect --unclean` (loses records).",
    ErrorCode.VOTER_NOT_FOUND: "`databus quorum describe` shows the voters.",
    ErrorCode.DUPLICATE_VOTER: "`databus quorum describe` shows the voters.",
    ErrorCode.SECURITY_DISABLED: "No ACL is obeyed here: set authorizer.class.name (docs/acls.md) "
    "on every broker and controller, super.users first, and restart them one by one.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "A super user may give the right: "
    "`databus acl add YOU ALTER cluster`; `databus acl explain YOU ALTER cluster` says which rule "
    "decides (DESCRIBE is enough to look).",
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: "Set delegation.token.secret.key, the same on every "
    "broker and controller (docs/security.md).",
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: "Log in by a password or a certificate first "
    "([bus.librdkafka], docs/security.md): over a plain listener or by a token nobody makes any.",
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: "A super user may give the right: "
    "`databus acl add YOU CREATE_TOKENS user:OWNER`.",
    ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH: "Its owner and its renewers may do that; "
    "`databus tokens list` names them.",
    ErrorCode.DELEGATION_TOKEN_EXPIRED: "Make another one: `databus tokens create`.",
    ErrorCode.MESSAGE_TOO_LARGE: "Raise the topic's max.message.bytes, or send less at once.",
}


def admin(ctx: typer.Context, client_id: str) -> Admin:
    """An administration client of a bus that answers, closed with the verb; else BusError."""
    from bus.client.kafka.admin import Admin  # librdkafka; help and wrong words need none

    client = Admin(ctx.obj.bus, client_id=client_id)
    ctx.call_on_close(client.close)
    client.wait_until_up(RESPONSE_WAIT_S)
    return client


def sync_client(ctx: typer.Context, client_id: str) -> SyncClient:
    """A client that can ask certain nodes; nothing is connected yet."""
    from bus.client.wire.sync_client import SyncClient

    return SyncClient.of(ctx.obj.bus, client_id)


def report_errors(verb: Callable[P, None]) -> Callable[P, None]:
    """A verb that ends with exit status 1 and two lines, instead of a traceback."""

    @functools.wraps(verb)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        logging.getLogger("bus.client").setLevel(logging.CRITICAL)  # the error itself says enough
        try:
            verb(*args, **kwargs)
        except BusError as error:
            typer.echo(str(error), err=True)
            if error.code in _REMEDIES:
                typer.echo(_REMEDIES[error.code], err=True)
            raise typer.Exit(1) from None
        except (InvalidPlan, NotAssignable) as error:
            typer.echo(str(error), err=True)
            raise typer.Exit(1) from None

    return run
