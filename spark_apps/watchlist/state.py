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
from spark_apps.ingest.state import KIND_OF_TOPIC, envelope_of
from spark_apps.message import Message

_DECODER = msgspec.json.Decoder()


def candidates(rules: RuleSet, messages: Iterable[Message], zone: str) -> Iterator[Candidate]:
    """Every (record, rule) that meets; nothing is decoded while no rule is in force."""
    if not len(rules):
        return
    for message in messages:
        yield from _of_message(rules, message, zone)


def _of_message(rules: RuleSet, message: Message, zone: str) -> Iterator[Candidate]:
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
