"""From the messages of one batch to candidates. Pure.

In: messages, the rules in force. Out: `Candidate`s. Never: I/O, a clock, a verdict (the
dispatcher's). Only what meets a rule is normalised: a record that is not valid has no place or
time to report.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.json import Decoder
from msgspec.structs import astuple

from alarm.rules import RuleSet
from alarm.rules.fields import KEYS, attributes_from
from bus.contracts.alarms import Candidate
from ingest.normalise import ClockLimits, normalise
from ingest.normalise.clock import DEFAULT as DEFAULT_CLOCK
from ingest.store.port import RecordRow
from spark_apps.ingest.state import KIND_OF_TOPIC, envelope_of
from spark_apps.message import Message


def candidates(
    rules: RuleSet, messages: Iterable[Message], zone: str, clock: ClockLimits = DEFAULT_CLOCK
) -> Iterator[Candidate]:
    """Every (record, rule) that meets; nothing is decoded while no rule is in force."""
    if not len(rules):
        return
    for message in messages:
        yield from _of_message(rules, message, zone, clock)


def _of_message(
    rules: RuleSet, message: Message, zone: str, clock: ClockLimits
) -> Iterator[Candidate]:
    kind = KIND_OF_TOPIC[message.topic]
    attributes = _attributes(kind, rules.names.get(kind, frozenset()), message.value)
    if not attributes or not rules.could_meet(kind, attributes):
        return
    row = normalise(message.value, kind, envelope_of(message, clock), None, zone)
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


def _attributes(kind: str, names: frozenset[str], value: bytes | None) -> dict[str, str]:
    """What the rules ask for; none of a message that is no object, which ingest rejects and
    counts.
    """
    fields, decoder = _decoder(kind, names)
    try:
        decoded = decoder.decode(value or b"")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return attributes_from(zip(fields, astuple(decoded), strict=True))


@lru_cache(maxsize=64)  # it changes with the rules, not with the records
def _decoder(kind: str, names: frozenset[str]) -> tuple[tuple[str, ...], Decoder[Struct]]:
    """Reads the fields asked for and skips the rest: a quarter of the cost of the whole object."""
    keys = {name: key for name, key in KEYS[kind].items() if name in names}
    asked = msgspec.defstruct("Asked", [(n, Any, None) for n in keys], rename=keys, gc=False)
    return tuple(keys), Decoder(asked)
