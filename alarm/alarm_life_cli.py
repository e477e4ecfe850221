"""The commands `alarms take`, `assign`, `confirm`, `false`, `comment`, `close` and `reopen`.

Each is a request to the site's decider, and done when that has answered so. A take that nobody
answers is kept in the file of acknowledgements, and the dispatcher says it later.
"""

from __future__ import annotations

import json
from contextlib import closing
from typing import Annotated

import msgspec
import typer

from alarm.asked_answer import answered, check_accepted, fail
from alarm.dispatch.reader import OperationsReader
from alarm.shell_asker import ISSUER, login_name
from bus.cli.show import AsJson
from bus.client.kafka.command_client import (
    CommandClient,
    CommandNotAcknowledged,
    new_command_id,
)
from bus.contracts.alarm_states import AlarmOp, AlarmRequest
from bus.contracts.commands import ANY_VERSION, CommandAnswer
from bus.domain.alarm_life import FALSE_REASONS, RESULTS, STAGES, check_request, is_over
from bus.domain.command_error import CommandError
from bus.domain.visibility import EVERYTHING
from bus.notify.acknowledgements import Acknowledgements, AcknowledgementsUnavailable
from bus.runtime import wall_clock
from ingest.store.port import StoreError

CLIENT_ID = "alarms"
TAKE_S = 2.0
FILTERS = (*STAGES, "unfinished")
STATE_HELP = ", ".join(FILTERS) + " (all but closed)."
SINCE_HELP = "Raised or changed in the last 30m, 12h, 7d."

IdArgument = Annotated[str, typer.Argument(metavar="ID", help="As `alarms list` shows it.")]
ByOption = Annotated[str, typer.Option("--by", help="In whose name; your log-in name without it.")]
TextOption = Annotated[str, typer.Option("--text", help="A remark.")]
SeenOption = Annotated[
    int, typer.Option("--seen", help="Only if the state has this number n, as --json shows it.")
]
WhyOption = Annotated[str, typer.Option("--why", help=f"One of {', '.join(FALSE_REASONS)}.")]
ResultOption = Annotated[str, typer.Option("--result", help=f"One of {', '.join(RESULTS)}.")]


def add_life_commands(alarms: typer.Typer) -> None:
    """To the group `alarms`."""
    for name, command in (
        ("take", take_alarm), ("assign", assign), ("confirm", confirm), ("false", false_alarm),
        ("comment", comment), ("close", close), ("reopen", reopen),
    ):  # fmt: skip
        alarms.command(name)(command)


def take_alarm(
    ctx: typer.Context, alarm_id: IdArgument, by: ByOption = "", as_json: AsJson = False
) -> None:
    """Take an alarm in hand; of two the first has it."""
    request = _request("take", alarm_id, by)
    _check_alarm(ctx, request)
    with closing(CommandClient(ctx.obj.bus, ctx.obj.site.name, CLIENT_ID)) as client:
        try:
            answer = client.begin(request).result(TAKE_S)
        except (CommandNotAcknowledged, TimeoutError):
            _take_here(ctx, request, as_json=as_json)
            return
    _report(ctx, answer, as_json=as_json)


def assign(
    ctx: typer.Context,
    alarm_id: IdArgument,
    to: Annotated[str, typer.Option("--to", help="The account that gets it.")],
    text: TextOption = "",
    by: ByOption = "",
    as_json: AsJson = False,
) -> None:
    """Give an alarm to an account."""
    _ask(ctx, _request("assign", alarm_id, by, to=to, text=text), as_json=as_json)


def confirm(
    ctx: typer.Context,
    alarm_id: IdArgument,
    text: TextOption = "",
    by: ByOption = "",
    seen: SeenOption = ANY_VERSION,
    as_json: AsJson = False,
) -> None:
    """Say that an alarm is right: the picture shows the target."""
    _ask(ctx, _request("confirm", alarm_id, by, text=text, seen_version=seen), as_json=as_json)


def false_alarm(
    ctx: typer.Context,
    alarm_id: IdArgument,
    why: WhyOption,
    text: TextOption = "",
    by: ByOption = "",
    seen: SeenOption = ANY_VERSION,
    as_json: AsJson = False,
) -> None:
    """Say that an alarm is false, and why."""
    if why not in FALSE_REASONS:
        raise typer.BadParameter(f"{why!r}: one of {', '.join(FALSE_REASONS)}", param_hint="--why")
    request = _request("false", alarm_id, by, why=why, text=text, seen_version=seen)
    _ask(ctx, request, as_json=as_json)


def comment(
    ctx: typer.Context,
    alarm_id: IdArgument,
    text: Annotated[str, typer.Argument(help="What there is to say.")],
    by: ByOption = "",
    as_json: AsJson = False,
) -> None:
    """Note something about an alarm, in any state."""
    _ask(ctx, _request("comment", alarm_id, by, text=text), as_json=as_json)


def close(
    ctx: typer.Context,
    alarm_id: IdArgument,
    result: ResultOption,
    text: TextOption = "",
    by: ByOption = "",
    seen: SeenOption = ANY_VERSION,
    as_json: AsJson = False,
) -> None:
    """End an alarm that was judged, with what came of it."""
    if result not in RESULTS:
        expected = f"{result!r}: one of {', '.join(RESULTS)}"
        raise typer.BadParameter(expected, param_hint="--result")
    request = _request("close", alarm_id, by, result=result, text=text, seen_version=seen)
    _ask(ctx, request, as_json=as_json)


def reopen(
    ctx: typer.Context,
    alarm_id: IdArgument,
    text: TextOption = "",
    by: ByOption = "",
    as_json: AsJson = False,
) -> None:
    """Take a closed alarm in hand again; it is to be judged anew."""
    _ask(ctx, _request("reopen", alarm_id, by, text=text), as_json=as_json)


def _request(op: AlarmOp, alarm_id: str, by: str, **fields: object) -> AlarmRequest:
    """Raises `typer.BadParameter` for what cannot be asked."""
    given = {
        "alarm_id": alarm_id, "op": op, "account": by or login_name() or ISSUER, "issuer": ISSUER,
        "at_ms": wall_clock.now_ms(), "command_id": new_command_id(), **fields,
    }  # fmt: skip
    request = msgspec.convert(given, AlarmRequest)
    try:
        check_request(request)
    except CommandError as error:
        raise typer.BadParameter(f"{error.field}: {error}") from error
    return request


def _check_alarm(ctx: typer.Context, request: AlarmRequest) -> None:
    """That there is one, as far as the store can be asked: the decider does not know."""
    try:
        with closing(OperationsReader(ctx.obj.dispatcher.operations_path(ctx.obj.site))) as reader:
            if reader.alarm(request.alarm_id, viewer=EVERYTHING) is None:
                fail(f"there is no alarm {request.alarm_id}; see: databus alarms list")
            state = reader.alarm_states([request.alarm_id]).get(request.alarm_id)
    except StoreError as error:
        typer.echo(f"whether there is such an alarm is not known: {error}", err=True)
        return
    if state is not None and is_over(state, wall_clock.now_ms()):
        fail(f"nobody has touched {request.alarm_id} for so long that its life is over")


def _ask(ctx: typer.Context, request: AlarmRequest, *, as_json: bool) -> None:
    _check_alarm(ctx, request)
    with closing(CommandClient(ctx.obj.bus, ctx.obj.site.name, CLIENT_ID)) as client:
        answer = answered(lambda: client.request(request), "request", as_json=as_json)
    _report(ctx, answer, as_json=as_json)


def _take_here(ctx: typer.Context, request: AlarmRequest, *, as_json: bool) -> None:
    try:
        acknowledged = Acknowledgements(ctx.obj.site)
        by = acknowledged.add(request.alarm_id, request.account, request.at_ms)
    except AcknowledgementsUnavailable as error:
        fail(f"{request.alarm_id} is not taken: nobody decides, and {error}")
    if by != request.account:
        fail(f"{request.alarm_id} is not taken: {by} has it in hand")
    if as_json:
        typer.echo(json.dumps({"alarm_id": request.alarm_id, "outcome": "taken_here"}))
    else:
        typer.echo(f"{request.alarm_id} is taken by {by}; nobody decides now, it is said later")


def _report(ctx: typer.Context, answer: CommandAnswer, *, as_json: bool) -> None:
    check_accepted(ctx, answer, as_json=as_json, names_field=False)
    if as_json:
        typer.echo(json.dumps(msgspec.to_builtins(answer), ensure_ascii=False))
    else:
        typer.echo(f"{answer.key}: done")
