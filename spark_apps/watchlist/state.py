"""From the messages of one batch to candidates. Pure.

In: messages, the rules in force. Out: `Candidate`s. Never: I/O, a clock, a verdict (the
dispatcher's). Only what meets a rule is normalised: a record that is not valid has no place or
time to report.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from alarm.rules import RuleSet
from bus.contracts.alarms import Candidate
from ingest.normalise import normalise
from ingest.store.port import RecordRow
from spark_apps.ingest.state import KIND_OF_TOPIC, Arrived, envelope_of

_DECODER = msgspec.json.Decoder()


def arrived(
    topic: str,
    partition: int,
    offset: int,
    timestamp_ms: int,
    value: bytes | None,
    record_id: str | None,
    received_at: str | None,
    source: str | None,
    replay: str | None,
) -> Arrived:
    """A data topic's message from the columns of `transform`; only the quarantine has more headers."""
    place = (topic, partition, offset, timestamp_ms)
    return Arrived(*place, value, record_id, received_at, source, replay, None, None, None)


def candidates(rules: RuleSet, messages: Iterable[Arrived], zone: str) -> Iterator[Candidate]:
    """Every (record, rule) that meets; nothing is decoded while no rule is in force."""
    if not len(rules):
        return
    for message in messages:
        yield from _of_message(rules, message, zone)


def _of_message(rules: RuleSet, message: Arrived, zone: str) -> Iterator[Candidate]:
    kind = KIND_OF_TOPIC[message.topic]
    decoded = _object(message.value)
    attributes = rules.attributes(kind, decoded) if decoded else {}
    if not attributes or not rules.could_meet(kind, attributes):
        return
    row = normalise(message.value, kind, envelope_of(message), None, zone)
    if not isinstance(row, RecordRow):
        return
    for rule in rules.match(kind, attributes, (row.captured_at_ms, row.received_at_ms)):
        yield Candidate(
            rule_id=rule.rule_id,
            rule_version=rule.command.version,
            record_id=row.record_id,
            kind=kind,
            received_at_ms=row.received_at_ms,
            captured_at_ms=row.captured_at_ms,
            record=row.body.decode("utf-8"),
            source=message.source or "",
        )


def _object(value: bytes | None) -> dict[str, object] | None:
    """The message as an object; None for anything else, which ingest rejects and counts."""
    try:
        decoded = _DECODER.decode(value or b"")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return decoded if isinstance(decoded, dict) else None
