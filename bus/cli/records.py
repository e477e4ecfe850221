"""`produce` and `consume`: records by hand."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import datetime, tzinfo
from typing import Annotated, Any, TextIO

import typer

from bus.cli.errors import admin, report_errors
from bus.client.kafka.consumer import BEGINNING, END, Consumer
from bus.client.kafka.producer import DeliveryReport, Producer, RecordMetadata
from bus.client.model import ConsumedRecord, TopicPartition

CLIENT_ID = "databus-command"
POLL_RECORDS = 500
POLL_TIMEOUT_S = 0.2


@report_errors
def mount(root: typer.Typer) -> None:
    """Add `produce` and `consume` to the command line."""
    root.command("produce")(produce)
    root.command("consume")(consume)


def produce(
    ctx: typer.Context,
    topic: str,
    key_separator: Annotated[
        str | None, typer.Option(help="What stands between key and value in a line.")
    ] = None,
    header: Annotated[
        list[str] | None, typer.Option(help="name=value, for every record; may be given often.")
    ] = None,
) -> None:
    """Send the lines of standard input, one record a line, and wait until all are on the bus.

    Example: echo '{"车牌号码": "京A12345"}' | databus produce data.vehicle
    """
    headers = [_pair(word) for word in header or []]
    failed: list[DeliveryReport] = []
    admin(ctx, CLIENT_ID)
    producer = Producer(ctx.obj.bus, client_id=CLIENT_ID)
    sent = 0
    for key, value in _lines(sys.stdin, key_separator):
        producer.send(topic, value, key=key, headers=headers, on_delivery=_keep_failures(failed))
        sent += 1
    left = producer.close()
    typer.echo(f"{sent - left - len(failed)} of {sent} records are on {topic}", err=True)
    for outcome in failed[:1]:
        if not isinstance(outcome, RecordMetadata):
            raise outcome
    if left:
        raise typer.Exit(1)


@report_errors
def consume(
    ctx: typer.Context,
    topic: str,
    from_beginning: Annotated[bool, typer.Option(help="From the oldest record on.")] = False,
    offset: Annotated[int | None, typer.Option(help="From this offset on.")] = None,
    partition: Annotated[int | None, typer.Option(help="This partition only.")] = None,
    at: Annotated[
        str | None,
        typer.Option("--time", help="From this time on: 2026-03-01T08:00, or epoch milliseconds."),
    ] = None,
    max_records: Annotated[int | None, typer.Option("--max", help="Stop after so many.")] = None,
    until_end: Annotated[bool, typer.Option(help="Stop where the topic ends.")] = False,
    group: Annotated[
        str | None, typer.Option(help="As a member of this group, going on where it was.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One object a line, with key, place and headers.")
    ] = False,
) -> None:
    """Print records as they come; Ctrl-C stops. Begins at the end unless told otherwise."""
    admin(ctx, CLIENT_ID)
    overrides = {"auto.offset.reset": "earliest" if from_beginning else "latest"}
    with Consumer(ctx.obj.bus, client_id=CLIENT_ID, group=group, overrides=overrides) as consumer:
        places = [p for p in consumer.partitions_of(topic) if partition in (None, p.partition)]
        if not places:
            raise typer.BadParameter(f"{topic} has no partition {partition}")
        if group:
            consumer.subscribe([topic])
        else:
            since = timestamp_ms(at, ctx.obj.site.tz) if at else None
            start = _start(consumer, places, from_beginning, offset, since)
            consumer.assign(start)
        try:
            _print_all(consumer, max_records, until_end, bool(group), as_json)
        except KeyboardInterrupt:
            return


def _start(
    consumer: Consumer,
    places: list[TopicPartition],
    from_beginning: bool,
    offset: int | None,
    timestamp_ms: int | None,
) -> dict[TopicPartition, int]:
    if timestamp_ms is not None:
        return consumer.offsets_at(places, timestamp_ms)
    if offset is not None:
        return dict.fromkeys(places, offset)
    return dict.fromkeys(places, BEGINNING if from_beginning else END)


def _print_all(
    consumer: Consumer,
    max_records: int | None,
    until_end: bool,
    commits: bool,
    as_json: bool,
) -> None:
    left = sys.maxsize if max_records is None else max_records
    while left > 0 and not (until_end and consumer.at_end):
        records = consumer.poll(min(left, POLL_RECORDS), POLL_TIMEOUT_S)
        for record in records:
            sys.stdout.write(_as_json(record) if as_json else _as_text(record))
        sys.stdout.flush()
        left -= len(records)
        if commits and records:
            consumer.commit(_after(records))


def _after(records: list[ConsumedRecord]) -> dict[TopicPartition, int]:
    return {TopicPartition(r.topic, r.partition): r.offset + 1 for r in records}


def _as_text(record: ConsumedRecord) -> str:
    return (record.value or b"").decode("utf-8", "replace") + "\n"


def _as_json(record: ConsumedRecord) -> str:
    row = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "key": _text(record.key),
        "headers": {name: _text(value) for name, value in record.headers},
        "value": _text(record.value),
    }
    return json.dumps(row, ensure_ascii=False) + "\n"


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "replace")


def timestamp_ms(text: str, zone: tzinfo) -> int:
    """A moment a person typed: ISO in the site's zone, or epoch milliseconds."""
    if text.isdigit():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no time", param_hint="--time") from None
    local = moment if moment.tzinfo else moment.replace(tzinfo=zone)
    return int(local.timestamp() * 1000)


def _lines(source: TextIO, separator: str | None) -> Iterator[tuple[str | None, str]]:
    for line in source:
        text = line.rstrip("\r\n")
        if separator is None:
            yield None, text
            continue
        key, found, value = text.partition(separator)
        if not found:
            raise typer.BadParameter(f"no {separator!r} in the line {text!r}")
        yield key, value


def _pair(word: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    if not equals:
        raise typer.BadParameter(f"{word!r} is not name=value", param_hint="--header")
    return name, value


def _keep_failures(failed: list[DeliveryReport]) -> Any:
    def keep(outcome: DeliveryReport) -> None:
        if not isinstance(outcome, RecordMetadata):
            failed.append(outcome)

    return keep
