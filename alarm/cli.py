"""The commands `watch` (put, list and remove rules) and `alarms`.

A command counts as given only when the broker has acknowledged it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Annotated, Literal, NoReturn, cast

import msgspec
import typer
from rich.table import Table

from alarm.dispatch.reader import OperationsReader
from alarm.rules import RuleSet
from alarm.rules.fuzzy_plates import fuzzy_plates
from alarm.watchlist_reader import CatchUpTimeout, WatchlistReader
from bus.cli.show import screen
from bus.client.kafka.producer import Producer
from bus.contracts.alarms import Alarm
from bus.contracts.commands import USUAL_KIND, MatchedKind, WatchCommand
from bus.contracts.headers import SCHEMA, SITE
from bus.contracts.topics import CONTROL_WATCHLIST, TOPICS
from bus.domain.accepted_readings import accepted_readings
from bus.domain.kinds import WIRE_KEYS
from bus.domain.plates import plate_text
from bus.domain.rule_check import MAX_NAME_CHARACTERS, RuleError, check_rule
from bus.domain.rule_values import PLATE
from bus.errors import BusError
from bus.notify.acknowledgements import Acknowledgements, AcknowledgementsUnavailable
from bus.runtime import wall_clock
from ingest.store.port import PageRequest, StoreError

AsJson = Annotated[bool, typer.Option("--json", help="One JSON object per line, for scripts.")]
CLIENT_ID = "watch"
ACK_TIMEOUT_S = 10.0

_PLATE_HELP = (
    "A plate, as it is written; ? is one character, * any run of them; with ~ in front also as it "
    "is misread (~0.7: up to that price, 0.5 to 2). May be given several times (any of them)."
)
_MATCH_HELP = (
    "attribute=value[,value…], e.g. vehicle_color=白色 or vehicle_brand=Jeep; all must hold. "
    "Attributes: the English names of the message's fields."
)
_FOR_HELP = "How long it stays in force: 30m, 12h, 7d; without it until removed."
_OPTIONS = {"name": "--name", "valid_until_ms": "--for", PLATE: "--plate"}
"""By which option a part of a rule is given."""
_UNITS = {"m": 60_000, "h": 3_600_000, "d": 86_400_000}


def mount(app: typer.Typer) -> None:
    """Add the commands of this package."""
    watch = typer.Typer(help="The watch list: who or what is looked for.", no_args_is_help=True)
    watch.command("add")(add)
    watch.command("list")(list_rules)
    watch.command("remove")(remove)
    app.add_typer(watch, name="watch")
    alarms = typer.Typer(help="Alarms that were raised.", no_args_is_help=True)
    alarms.command("list")(list_alarms)
    alarms.command("ack")(acknowledge)
    app.add_typer(alarms, name="alarms")


def add(
    ctx: typer.Context,
    plate: Annotated[list[str] | None, typer.Option(help=_PLATE_HELP)] = None,
    match: Annotated[list[str] | None, typer.Option(help=_MATCH_HELP)] = None,
    kind: Annotated[str, typer.Option(help=" or ".join(WIRE_KEYS) + ".")] = USUAL_KIND,
    name: Annotated[str, typer.Option(help="What operators read on the alarm.")] = "",
    severity: Annotated[str, typer.Option(help="info, warning or critical.")] = "warning",
    rule_id: Annotated[str, typer.Option("--id", help="Change the rule of this id.")] = "",
    lasting: Annotated[str, typer.Option("--for", help=_FOR_HELP)] = "",
    as_json: AsJson = False,
) -> None:
    """Put a target on the watch list. From the next record on it is looked for."""
    now_ms = wall_clock.now_ms()
    rule_id = rule_id or f"rule-{now_ms:x}"
    command = WatchCommand(
        rule_id=rule_id,
        op="put",
        version=now_ms,
        kind=cast(MatchedKind, _one_of("--kind", kind, WIRE_KEYS)),
        name=name or " ".join((*(plate or ()), *(match or ())))[:MAX_NAME_CHARACTERS],
        severity=cast(
            Literal["info", "warning", "critical"],
            _one_of("--severity", severity, ("info", "warning", "critical")),
        ),
        match=conditions(plate or (), match or ()),
        valid_until_ms=now_ms + duration_ms(lasting) if lasting else 0,
        author="command line",
    )
    try:
        check_rule(command, now_ms)
    except RuleError as error:
        option = _OPTIONS.get(error.field, "--match")
        raise typer.BadParameter(f"{error.field}: {error}", param_hint=option) from error
    version = _rules(ctx).versions.next_version(rule_id, now_ms)
    command = msgspec.structs.replace(command, version=version)
    _send(ctx, command)
    if as_json:
        _lines([command])
    else:
        typer.echo(f"{command.rule_id} is in force")
        for line in accepted_examples(command):
            typer.echo(line)


def remove(
    ctx: typer.Context,
    rule_id: Annotated[str, typer.Argument(help="The rule's id, as `watch list` shows it.")],
) -> None:
    """Take a rule off the watch list."""
    known = _rules(ctx)
    if rule_id not in known.rules:
        raise typer.BadParameter(f"no rule {rule_id} is in force; see: databus watch list")
    version = known.versions.next_version(rule_id, wall_clock.now_ms())
    _send(ctx, WatchCommand(rule_id=rule_id, op="remove", version=version, author="command line"))
    typer.echo(f"{rule_id} is removed")


def list_rules(ctx: typer.Context, as_json: AsJson = False) -> None:
    """Show the rules in force, as they stand on the command topic."""
    commands = [rule.command for _, rule in sorted(_rules(ctx).rules.items())]
    if as_json:
        _lines(commands)
        return
    table = Table("rule", "name", "kind", "severity", "match", "author")
    for c in commands:
        match = "; ".join(f"{name}={','.join(values)}" for name, values in c.match.items())
        table.add_row(c.rule_id, c.name, c.kind, c.severity, match, c.author)
    screen().print(table if commands else "the watch list is empty")


def list_alarms(
    ctx: typer.Context,
    severity: Annotated[str, typer.Option(help="info, warning or critical.")] = "",
    rule_id: Annotated[str, typer.Option("--rule", help="A rule's id.")] = "",
    plate: Annotated[str, typer.Option(help="A plate; * is any characters, ? is one.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most so many.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Show the newest alarms."""
    try:
        reader = OperationsReader(ctx.obj.dispatcher.operations_path(ctx.obj.site))
        page = PageRequest(limit=limit)
        found, _ = reader.alarms(page=page, severity=severity, rule_id=rule_id, plate=plate)
        reader.close()
    except StoreError as error:
        _fail(f"no alarms can be read: {error}")
    if as_json:
        _lines(found)
        return
    table = Table("raised", "severity", "rule", "plate", "checkpoint", "after")
    for alarm in found:
        table.add_row(*_row(ctx, alarm))
    screen().print(table if found else "no alarms")


def acknowledge(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="ID", help="Of an alarm or an incident.")],
    by_whom: Annotated[str, typer.Option("--by", help="Who takes it in hand.")] = "command line",
) -> None:
    """Take an alarm or an incident in hand: it is not escalated any more."""
    try:
        found = Acknowledgements(ctx.obj.site).add(name, by_whom, wall_clock.now_ms())
    except AcknowledgementsUnavailable as error:
        _fail(f"nothing is acknowledged: {error}")
    typer.echo(f"{name} is acknowledged by {found}")


def conditions(plates: Sequence[str], matches: Sequence[str]) -> dict[str, list[str]]:
    """The `match` of a command. Raises `typer.BadParameter` for what is not written as one."""
    found: dict[str, list[str]] = {}
    for text in matches:
        attribute, sign, values = text.partition("=")
        if not sign or not values.strip():
            raise typer.BadParameter(
                f"{text!r}: write attribute=value[,value…]", param_hint="--match"
            )
        found.setdefault(attribute, []).extend(v.strip() for v in values.split(",") if v.strip())
    if plates:
        found.setdefault(PLATE, []).extend(plates)
    if not found:
        raise typer.BadParameter("give at least one --plate or --match")
    return found


def accepted_examples(command: WatchCommand) -> list[str]:
    """What its fuzzy plates are met by, a line each."""
    plates, _ = fuzzy_plates(command.match.get(PLATE, ()))
    return [
        f"{one.plate} is also met by readings like {', '.join(read)}"
        for one in plates.plates
        if (read := accepted_readings(one))
    ]


def duration_ms(text: str) -> int:
    """`30m`, `12h` or `7d`. Raises `typer.BadParameter`."""
    number, unit = text[:-1], text[-1:]
    if unit not in _UNITS or not number.isascii() or not number.isdigit() or int(number) == 0:
        raise typer.BadParameter(f"{text!r}: write 30m, 12h or 7d", param_hint="--for")
    return int(number) * _UNITS[unit]


def _one_of(option: str, value: str, allowed: Iterable[str]) -> str:
    if value not in allowed:
        expected = ", ".join(sorted(allowed))
        raise typer.BadParameter(f"{value!r}; expected one of: {expected}", param_hint=option)
    return value


def _send(ctx: typer.Context, command: WatchCommand) -> None:
    producer = Producer(ctx.obj.bus, client_id=CLIENT_ID)
    outcomes: list[object] = []
    headers = [(SCHEMA, TOPICS[CONTROL_WATCHLIST].schema), (SITE, ctx.obj.site.name)]
    try:
        producer.send(
            CONTROL_WATCHLIST,
            msgspec.json.encode(command),
            key=command.rule_id,
            headers=headers,
            on_delivery=outcomes.append,
        )
        producer.flush(ACK_TIMEOUT_S)
    except BusError as error:
        _fail(f"the command was not taken: {error}")
    finally:
        producer.close(0)
    if not outcomes or isinstance(outcomes[0], BusError):
        reason = outcomes[0] if outcomes else f"no answer from {ctx.obj.bus.bootstrap_servers}"
        _fail(f"the command was not taken: {reason}")


def _rules(ctx: typer.Context) -> RuleSet:
    """As they stand on their topic."""
    try:
        watchlist = WatchlistReader(ctx.obj.bus, CLIENT_ID, timeout_s=ACK_TIMEOUT_S)
        watchlist.catch_up()
    except CatchUpTimeout as error:
        _fail(f"the watch list cannot be read: {error}")
    watchlist.close()
    return watchlist.rules


def _row(ctx: typer.Context, alarm: Alarm) -> tuple[str, ...]:
    raised = datetime.fromtimestamp(alarm.raised_at_ms / 1000, ctx.obj.site.tz)
    return (
        raised.strftime("%Y-%m-%d %H:%M:%S"),
        alarm.severity,
        alarm.rule_name or alarm.rule_id,
        plate_text(alarm.plate_number),
        alarm.checkpoint_id,
        f"{alarm.raised_at_ms - alarm.captured_at_ms} ms",
    )


def _lines(structs: Iterable[msgspec.Struct]) -> None:
    for struct in structs:
        typer.echo(json.dumps(msgspec.to_builtins(struct), ensure_ascii=False))


def _fail(message: str) -> NoReturn:
    typer.echo(message, err=True)
    raise typer.Exit(1)
