"""The account: does what was sent equal what is stored, rejected or still on its way?

In: counts and identities from five independent sources: the city's truth, the producers' counters,
the topics' offsets, the store, the alarms. Out: one `Reconciliation` whose `count_faults` say in
sentences what does not add up; it balances when there are none. Never: I/O, a clock, a tolerance.

The equations, per kind of flow:
    arrived = on the data topic + put aside by the edge, by the topics' ends
    arrived = handed over by edges, as they say + written by devices themselves
    arrived = valid + rejected + rejected again + in flight
    valid   = stored + duplicates
    counted = tried by the city + counted by others
    stored + rejected = arrived for certain from the city + counted by others + from uncounted
                        + differences that a person has accepted
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime

import msgspec


class GroundTruth(msgspec.Struct, frozen=True, kw_only=True):
    """What the city knows of one kind of flow.

    `tried` left or may have left; `arrived` was acknowledged, or was found in the store although no
    acknowledgement had come back; `rejected` of these must be rejected, by reason.
    """

    tried: int = 0
    arrived: int = 0
    rejected: Mapping[str, int] = {}


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """A device's minute of which senders counted another number than was stored and rejected."""

    camera_ip: str
    minute_ms: int
    sent: int
    kept: int
    senders: Sequence[str] = ()

    @property
    def text(self) -> str:
        """For people."""
        minute = f"{datetime.fromtimestamp(self.minute_ms / 1000, UTC):%Y-%m-%d %H:%M} UTC"
        by = ", ".join(self.senders) or "a sender that the bus remembers no more"
        return f"device {self.camera_ip}, {minute}: {self.sent} counted by {by}, {self.kept} kept"


class AcceptedDifference(msgspec.Struct, frozen=True, kw_only=True):
    """A difference that a person has looked into and answers for."""

    kind: str
    difference: int
    by: str
    reason: str
    at_ms: int


class FlowTotals(msgspec.Struct, frozen=True, kw_only=True):
    """What each source says of one kind of flow.

    `on_topic` counts records ever appended to the data topic (of one that was made anew since,
    those that ingest has passed), `edge_rejected` those the edge put aside; `in_flight` those of
    both that the ingest query has not passed yet; `counted` is what producers said of themselves,
    `uncounted` the distinct records of devices that never did; `by_edges` what edges say that the
    bus has of them, the rest was written to it directly.
    """

    kind: str
    on_topic: int
    edge_rejected: int
    in_flight: int
    counted: int
    uncounted: int
    truth: GroundTruth
    stored: int
    duplicates: int
    rejected: Mapping[str, int] = {}
    rejected_again: int = 0
    latency_p50_ms: int | None = None
    latency_p99_ms: int | None = None
    by_edges: int = 0
    clock_off: int = 0  # records left out of the latency: their device's clock is wrong
    # Records still come: what senders counted and what is stored are of different moments.
    is_alive: bool = False
    edges_reported: bool = True  # False: edges may say later that they took more of these
    accepted: int = 0  # of `difference`, by people
    differences: Sequence[Difference] = ()  # the largest first

    @property
    def difference(self) -> int:
        """Records stored and rejected beyond those that are due, and beyond what was accepted."""
        kept = self.stored + sum(self.rejected.values())
        return kept - self.truth.arrived - _of_others(self) - self.uncounted - self.accepted


class PassageTotals(msgspec.Struct, frozen=True, kw_only=True):
    """What fell into quiet times: `suppressed` the record of each rule, as ids of the alarms that
    were not raised, with the alarm that stands for it; `too_far`: of these, whose capture was not
    within its quiet time; `too_near`: alarms of the city's rules that were raised although
    another one of their target stood for them."""

    suppressed: Mapping[str, str] = {}
    too_far: Collection[str] = ()
    too_near: Collection[str] = ()


class AlarmTotals(msgspec.Struct, frozen=True, kw_only=True):
    """Alarm ids: what the city knows must be raised, and what was, as often as it was recorded.

    `sent_meanwhile`: of records that left while the account was made; they may be raised already.
    """

    expected: Collection[str] = ()
    sent_meanwhile: Collection[str] = ()
    raised: Sequence[str] = ()
    city_rules: Collection[str] = ()
    passages: PassageTotals = PassageTotals()
    latency_p50_ms: int | None = None  # raised − captured
    latency_p99_ms: int | None = None


class FlowReconciliation(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the account."""

    kind: str
    sent: int
    arrived: int
    directly: int  # of these, written to the topic by devices themselves
    directly_at_most: bool = False  # some of those may turn out to be an edge's
    valid: int
    stored: int
    rejected: Mapping[str, int]
    duplicates: int
    in_flight: int
    latency_p50_ms: int | None
    latency_p99_ms: int | None
    clock_off: int
    acknowledged: int = 0  # of the city's, to their senders
    difference: int = 0
    differences: Sequence[Difference] = ()


class Reconciliation(msgspec.Struct, frozen=True, kw_only=True):
    """All lines, the alarms, and everything that does not add up."""

    flows: Sequence[FlowReconciliation]
    alarms_expected: int
    alarms_raised: int
    alarms_suppressed: int
    alarms_missing: Sequence[str]
    alarms_unexpected: Sequence[str]
    alarms_of_operators: int
    alarm_latency_p50_ms: int | None
    alarm_latency_p99_ms: int | None
    faults: Sequence[str]
    is_alive: bool = False  # what senders say was not judged, see `_flow_faults`
    accepted: Sequence[AcceptedDifference] = ()

    @property
    def balanced(self) -> bool:
        """To the record."""
        return not self.faults


SHOWN_IDS = 5  # of missing records or alarms, in a sentence; `--json` has them all


def balance(
    flows: Sequence[FlowTotals], alarms: AlarmTotals, accepted: Sequence[AcceptedDifference] = ()
) -> Reconciliation:
    """Compare the totals."""
    faults = [fault for flow in flows for fault in _flow_faults(flow)]
    raised, suppressed = set(alarms.raised), alarms.passages.suppressed.keys()
    missing = sorted(set(alarms.expected) - raised - suppressed)
    of_city = {alarm for alarm in raised if _rule_of(alarm) in alarms.city_rules}
    decided = of_city | {alarm for alarm in suppressed if _rule_of(alarm) in alarms.city_rules}
    unexpected = sorted(decided - set(alarms.expected) - set(alarms.sent_meanwhile))
    is_alive = any(flow.is_alive for flow in flows)
    faults += _alarm_faults(alarms.raised, [] if is_alive else missing, unexpected)
    faults += _passage_faults(alarms.passages, raised, is_alive=is_alive)
    return Reconciliation(
        flows=[_reconciled_flow(flow) for flow in flows],
        alarms_expected=len(set(alarms.expected)),
        alarms_raised=len(raised),
        alarms_suppressed=len(suppressed),
        alarms_missing=missing,
        alarms_unexpected=unexpected,
        alarms_of_operators=len(raised - of_city),
        alarm_latency_p50_ms=alarms.latency_p50_ms,
        alarm_latency_p99_ms=alarms.latency_p99_ms,
        faults=faults,
        is_alive=is_alive,
        accepted=accepted,
    )


def _reconciled_flow(totals: FlowTotals) -> FlowReconciliation:
    return FlowReconciliation(
        kind=totals.kind,
        sent=totals.counted + totals.uncounted,
        arrived=totals.on_topic + totals.edge_rejected,
        directly=max(0, totals.on_topic + totals.edge_rejected - totals.by_edges),
        directly_at_most=not totals.edges_reported,
        valid=totals.stored + totals.duplicates,
        stored=totals.stored,
        rejected=dict(totals.rejected),
        duplicates=totals.duplicates + totals.rejected_again,
        in_flight=totals.in_flight,
        latency_p50_ms=totals.latency_p50_ms,
        latency_p99_ms=totals.latency_p99_ms,
        clock_off=totals.clock_off,
        acknowledged=totals.truth.arrived,
        difference=totals.difference,
        differences=totals.differences,
    )


def _flow_faults(totals: FlowTotals) -> list[str]:
    """While records come, only what the bus and the store say of one and the same moment is
    judged; the senders' own counts are ahead of both."""
    checks = (_sums,) if totals.is_alive else _CHECKS
    return [f"{totals.kind}: {fault}" for check in checks if (fault := check(totals))]


def _on_the_way(totals: FlowTotals) -> str:
    still = f"{totals.in_flight} records are still in flight" if totals.in_flight else ""
    return _sums(totals) or still


def _sums(totals: FlowTotals) -> str:
    line = _reconciled_flow(totals)
    rejected = sum(totals.rejected.values()) + totals.rejected_again
    off = line.arrived - line.valid - rejected - totals.in_flight
    if off:
        return (
            f"arrived {line.arrived} is not valid {line.valid} + rejected {rejected} "
            f"+ in flight {totals.in_flight}; {off} off"
        )
    return ""


def _counters(totals: FlowTotals) -> str:
    short = totals.truth.tried - totals.counted
    if short <= 0:
        return ""
    return (
        f"the producers counted {totals.counted}, the city sent {totals.truth.tried}; {short} short"
    )


def _identities(totals: FlowTotals) -> str:
    if not totals.difference:
        return ""
    kept = totals.stored + sum(totals.rejected.values())
    text = "; ".join(one.text for one in totals.differences[:SHOWN_IDS])
    return (
        f"stored and rejected are {kept} records, {kept - totals.difference} are due; "
        f"{totals.difference:+d}{' (' + text + ')' if text else ''}"
    )


def _reasons(totals: FlowTotals) -> str:
    """Why records were rejected, where the city is the only sender and so knows it."""
    if _of_others(totals) or totals.uncounted:
        return ""
    wrong = {
        reason: (totals.rejected.get(reason, 0), totals.truth.rejected.get(reason, 0))
        for reason in sorted({*totals.rejected, *totals.truth.rejected})
        if totals.rejected.get(reason, 0) != totals.truth.rejected.get(reason, 0)
    }
    text = ", ".join(f"{has} {reason} and not {must}" for reason, (has, must) in wrong.items())
    return f"rejected {text}" if text else ""


def _edges(totals: FlowTotals) -> str:
    """An edge says what the brokers have acknowledged, so the topics hold no less."""
    arrived = totals.on_topic + totals.edge_rejected
    if totals.by_edges <= arrived:
        return ""
    return f"edges have handed over {totals.by_edges} records, the topics have held {arrived}"


_CHECKS = (_on_the_way, _edges, _counters, _identities, _reasons)


def _of_others(totals: FlowTotals) -> int:
    """Records counted by producers that are no city: films, replays, people's own."""
    return max(0, totals.counted - totals.truth.tried)


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


def _passage_faults(
    passages: PassageTotals, raised: Collection[str], *, is_alive: bool
) -> list[str]:
    """While records come, a passage may be stored before its alarm is."""
    both = sorted(passages.suppressed.keys() & raised)
    stands_for = passages.suppressed.items()
    alone = [] if is_alive else sorted(one for one, by in stands_for if by not in raised)
    sentences = (
        (both, "raised and suppressed as well"),
        (alone, "suppressed for an alarm that was not raised"),
        (sorted(passages.too_far), "suppressed outside of the quiet time"),
        (sorted(passages.too_near), "raised within the quiet time of another one"),
    )
    return [f"alarms: {len(ids)} {text}: {_some(ids)}" for ids, text in sentences if ids]


def _rule_of(alarm_id: str) -> str:
    return alarm_id.partition(":")[0]


def _some(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - SHOWN_IDS} more" if len(ids) > SHOWN_IDS else ""
    return ", ".join(ids[:SHOWN_IDS]) + more
