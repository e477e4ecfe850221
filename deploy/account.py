"""The account: does what was sent equal what is stored, rejected or still on its way?

In: counts and identities from five independent books: the city's truth, the producers' counters,
the topics' offsets, the store, the alarms. Out: one `Account` whose `faults` say in sentences what
does not add up; it balances when there are none. Never: I/O, a clock, a tolerance.

The equations (design: *counts*), per kind of flow:
    arrived = on the topic + rejected at the edge
    arrived = valid + rejected + in flight
    valid   = stored + duplicates
    counted by the producers = written in the city's truth, where the city is the only sender
    every identity of the truth is stored or rejected, once
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec


class FlowBooks(msgspec.Struct, frozen=True, kw_only=True):
    """What each book says of one kind of flow.

    `on_topic` counts records ever appended to the data topic, `edge_rejected` those the edge put
    aside; `in_flight` those of both that the ingest query has not passed yet; `truth` is None
    where no city has sent this kind.
    """

    kind: str
    on_topic: int
    edge_rejected: int
    in_flight: int
    counted_sent: int
    truth_sent: int | None
    stored: int
    duplicates: int
    rejected: Mapping[str, int] = {}
    missing_ids: Sequence[str] = ()  # in the truth, neither stored nor rejected
    latency_p50_ms: int | None = None
    latency_p99_ms: int | None = None


class AlarmBooks(msgspec.Struct, frozen=True, kw_only=True):
    """Alarm ids: what the city knows must be raised, and what was; `ours` are the city's rules."""

    expected: Collection[str] = ()
    raised: Sequence[str] = ()  # as often as they were recorded
    city_rules: Collection[str] = ()


class FlowAccount(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the account."""

    kind: str
    sent: int
    arrived: int
    valid: int
    stored: int
    rejected: Mapping[str, int]
    duplicates: int
    in_flight: int
    latency_p50_ms: int | None
    latency_p99_ms: int | None


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """All lines, the alarms, and everything that does not add up."""

    flows: Sequence[FlowAccount]
    alarms_expected: int
    alarms_raised: int
    alarms_missing: Sequence[str]
    alarms_unexpected: Sequence[str]
    alarms_of_operators: int
    faults: Sequence[str]

    @property
    def balanced(self) -> bool:
        """To the record."""
        return not self.faults


SHOWN_IDS = 5  # of missing records or alarms, in a sentence; `--json` has them all


def balance(flows: Sequence[FlowBooks], alarms: AlarmBooks) -> Account:
    """Close the books."""
    faults = [fault for books in flows for fault in _flow_faults(books)]
    raised = set(alarms.raised)
    missing = sorted(set(alarms.expected) - raised)
    of_city = {alarm for alarm in raised if _rule_of(alarm) in alarms.city_rules}
    unexpected = sorted(of_city - set(alarms.expected))
    faults += _alarm_faults(alarms.raised, missing, unexpected)
    return Account(
        flows=[_flow_account(books) for books in flows],
        alarms_expected=len(set(alarms.expected)),
        alarms_raised=len(raised),
        alarms_missing=missing,
        alarms_unexpected=unexpected,
        alarms_of_operators=len(raised - of_city),
        faults=faults,
    )


def _flow_account(books: FlowBooks) -> FlowAccount:
    return FlowAccount(
        kind=books.kind,
        sent=books.counted_sent,
        arrived=books.on_topic + books.edge_rejected,
        valid=books.stored + books.duplicates,
        stored=books.stored,
        rejected=dict(books.rejected),
        duplicates=books.duplicates,
        in_flight=books.in_flight,
        latency_p50_ms=books.latency_p50_ms,
        latency_p99_ms=books.latency_p99_ms,
    )


def _flow_faults(books: FlowBooks) -> list[str]:
    line = _flow_account(books)
    rejected = sum(books.rejected.values())
    faults = []
    off = line.arrived - line.valid - rejected - line.in_flight
    if off:
        faults.append(
            f"{books.kind}: arrived {line.arrived} is not valid {line.valid} + rejected {rejected} "
            f"+ in flight {line.in_flight}; {off} off"
        )
    if books.in_flight:
        faults.append(f"{books.kind}: {books.in_flight} records are still in flight")
    if books.truth_sent is not None and books.truth_sent != books.counted_sent:
        faults.append(
            f"{books.kind}: the producers counted {books.counted_sent} sent, the city's truth has "
            f"{books.truth_sent}"
        )
    if books.missing_ids:
        faults.append(
            f"{books.kind}: {len(books.missing_ids)} records of the truth are neither stored nor "
            f"rejected: {_some(books.missing_ids)}"
        )
    return faults


def _alarm_faults(
    raised: Sequence[str], missing: Sequence[str], unexpected: Sequence[str]
) -> list[str]:
    faults = []
    if missing:
        faults.append(f"alarms: {len(missing)} expected and not raised: {_some(missing)}")
    if unexpected:
        faults.append(f"alarms: {len(unexpected)} raised and not expected: {_some(unexpected)}")
    twice = len(raised) - len(set(raised))
    if twice:
        faults.append(f"alarms: {twice} raised more than once")
    return faults


def _rule_of(alarm_id: str) -> str:
    return alarm_id.partition(":")[0]


def _some(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - SHOWN_IDS} more" if len(ids) > SHOWN_IDS else ""
    return ", ".join(ids[:SHOWN_IDS]) + more
