"""Candidates, alarms and incidents on the event topics.

In/out: frozen structs, JSON with English keys. Never: deciding whether something is an alarm
(`alarm.rules`).
"""

from __future__ import annotations

from typing import Literal

import msgspec

MAX_RECORD_CHARACTERS = 512 * 1024
"""Of the record in an alarm: the edge takes no larger ones, and a message must stay below a
mebibyte."""


class FaceProof(msgspec.Struct, frozen=True, kw_only=True):
    """What a matcher found in a gallery as it was in that version: the face that a record resembles
    most, and the score. Who has the same version need not search."""

    list_id: str
    version: int
    entry: str
    score: float


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """`event.candidate`: a record that may match a rule; the dispatcher gives the verdict once.

    `record` is the device's own JSON as text, so that the verdict sees all of it.
    """

    rule_id: str
    rule_version: int
    record_id: str
    kind: str
    received_at_ms: int
    captured_at_ms: int
    record: str
    source: str = ""
    faces: tuple[FaceProof, ...] = ()
    """Of the galleries that the rule asks for."""


class ListedPlate(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """By which line of which list a plate was meant, as both were then. `is_overdue`: the list had
    not been renewed in its interval. `candidate`: where not the plate that was written stands there
    but a further candidate of the reader, that one; `weight`: how sure it is of it, to 1."""

    list_id: str
    name: str
    version: int
    list_date: str = ""
    line: int = 0
    plate: str = ""
    note: str = ""
    date: str = ""
    is_overdue: bool = False
    candidate: str = ""
    weight: float = 0.0


class ListedFace(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which face of which gallery a record resembles, as both were then. `score`: by the measure of
    the model; `threshold`: what the rule asks for. `is_overdue`: as of a list of plates."""

    list_id: str
    name: str
    version: int
    entry: str
    score: float
    threshold: float
    model: str
    measure: str
    line: int = 0
    list_date: str = ""
    note: str = ""
    date: str = ""
    is_overdue: bool = False


class ReadingPrice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was read where another plate was meant: `plate` is that of the rule, `read` what was
    taken for it (`?`: a character that was not read), `price` what that costs, of at most
    `highest`, in units of a misreading without evidence. `weight`: where `read` is a further
    candidate of the reader, how sure it is of that one, to 1; else 0. `table`: the version of the
    site's own table of misreadings by which it costs that; empty: the packaged one."""

    plate: str
    read: str
    price: float
    highest: float
    weight: float = 0.0
    table: str = ""


class Alarm(msgspec.Struct, frozen=True, kw_only=True):
    """`event.alarm`: one match of one rule by one record. `alarm_id` = rule_id + ":" +
    record_id.

    `record` is the device's own JSON as text, so that the alarm keeps its evidence when the store
    forgets the record; empty where it is longer than `MAX_RECORD_CHARACTERS`. `copies` is filled
    in the operations store only: a picture's address in the record -> where our copy is served.
    `perhaps_sent_before`, of a notice only: a site that is lost, or what ran before a restore, may
    have sent it.
    `further_passages`, where the operations store gives an alarm: how many records fell into its
    quiet time. `plate_is_doubtful`: the rule asks for a plate, and a hyphen in this one may
    separate or stand for a character that was not read. `target`: the plate of the rule, or of its
    list, that was meant, else what was read of it; empty where nothing says that another record is
    of the same target. `branch`, of a rule whose tree has an `or`: the text of the first of its
    parts that held. `listed`: of a rule that asks for a list;
    `resembled`: of one that asks for a gallery. `misread`: where the rule is
    about a plate that may be misread, and another one was read. `is_emergency`: its rule was in
    force without an approval. `visible_to`: the units that see it, as its rule said then; none:
    everybody. `district_id`: where the register had its place then; empty: nowhere. `case`: under
    whose number its rule was put; `case_target`: whom of that case the rule is about, where it says
    so.
    """

    alarm_id: str
    rule_id: str
    rule_name: str
    severity: str
    record_id: str
    kind: str
    checkpoint_id: str
    captured_at_ms: int
    received_at_ms: int
    raised_at_ms: int
    plate_number: str = ""
    plate_is_doubtful: bool = False
    camera_ip: str = ""
    picture_url: str = ""
    attributes: dict[str, str] = {}
    branch: str = ""
    is_emergency: bool = False
    target: str = ""
    listed: ListedPlate | None = None
    resembled: ListedFace | None = None
    misread: ReadingPrice | None = None
    record: str = ""
    copies: dict[str, str] = {}
    perhaps_sent_before: bool = False
    further_passages: int = 0
    visible_to: list[str] = []
    district_id: str = ""
    case: str = ""
    case_target: str = ""


class Suppressed(msgspec.Struct, frozen=True, kw_only=True):
    """`event.suppressed`: a record of a target that has an alarm at that place, of this rule or of
    another one of the same case and target, within the quiet time of its rule. Distinct records are
    counted; a replay may say it again. `visible_to`: as of the alarm."""

    alarm_id: str
    record_id: str
    rule_id: str
    captured_at_ms: int
    visible_to: list[str] = []


class Notified(msgspec.Struct, frozen=True, kw_only=True):
    """`event.notified`: nobody is still to be told of an alarm at once. `outcomes`: notifier ->
    `sent`, or why it was not; who is told only without an acknowledgement may be missing."""

    alarm_id: str
    at_ms: int
    outcomes: dict[str, str] = {}


class Acknowledged(msgspec.Struct, frozen=True, kw_only=True):
    """`event.acknowledged`: somebody has taken an alarm or an incident in hand; it escalates no
    more. Who was first stays."""

    id: str
    by_whom: str
    at_ms: int


IncidentKind = Literal[
    "latency", "quality", "backlog",
    # of the watch
    "away", "standing", "filling", "silence", "curve", "lost", "missing", "differs",
    "uncovered", "unconfirmed", "refused", "overdue", "certificate",
]  # fmt: skip


BY_WATCH = "watch"
"""The `notified_by` of the watch, whose incidents are nobody else's to go on with."""


NOT_PRIMARY = "not-primary"
"""The `reason` in the detail of an end that a new primary gives what the former one has raised. The
new primary may raise the same one itself afterwards: then it is open again."""


class Incident(msgspec.Struct, frozen=True, kw_only=True):
    """`event.incident`: a lasting fault with its beginning and its end (L-3, Q-2); published once
    each.

    `notified_by` names the process that tells the notifiers by itself; where it is empty, the
    dispatcher does. `perhaps_sent_before`: as of an alarm.
    """

    incident_id: str
    kind: IncidentKind
    state: Literal["open", "closed"]
    opened_at_ms: int
    closed_at_ms: int = 0
    severity: str = "warning"
    camera_ip: str = ""
    recognizer_ip: str = ""
    checkpoint_id: str = ""
    district_id: str = ""
    detail: dict[str, str] = {}
    notified_by: str = ""
    perhaps_sent_before: bool = False


class NoticeDigest(msgspec.Struct, frozen=True, kw_only=True):
    """One notice for many: what may have been sent before a restore, or alarms of one rule within a
    minute, and would be too many notices.

    `rule_id`, `rule_name`: of the latter. `alarms`, `incidents`: how many; `first_at_ms`,
    `last_at_ms`: when the first and the last began. `ids`: the first of them, oldest first.
    `severity`: the highest. `visible_to`: as of its rule's alarms.
    """

    digest_id: str
    severity: str
    alarms: int
    incidents: int
    first_at_ms: int
    last_at_ms: int
    ids: list[str]
    rule_id: str = ""
    rule_name: str = ""
    perhaps_sent_before: bool = True
    visible_to: list[str] = []
