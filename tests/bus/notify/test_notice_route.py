"""Recipients of notices: of which alarms each is told, and what no way without units is told."""

from __future__ import annotations

import itertools
from pathlib import Path

import msgspec
import pytest

from alarm.dispatch.operations import BatchChanges, OperationsStore
from bus.contracts.alarms import Alarm, Incident, NoticeDigest
from bus.domain.times import MINUTE_MS
from bus.notify.notice_plan import NoticePlan
from bus.notify.notice_route import NoticeRoute
from bus.notify.notifiers import recipient_notifiers
from bus.notify.settings import NoticeRecipient, NoticeSettings
from bus.settings import SiteSettings

PLAN = NoticePlan(
    ("log", "mail", "north.mail", "old.command"), alarms_a_minute=2,
    routes={
        "north.mail": NoticeRoute(frozenset({"north"})),
        "old.command": NoticeRoute(frozenset({"south"}), frozenset({"d1"}), frozenset({"vehicle"}), "warning"),
    },
)  # fmt: skip


def alarm(number: int = 1, at_ms: int = 10, **fields: object) -> Alarm:
    usual = {
        "alarm_id": f"r:{number}", "rule_id": "r", "rule_name": "n", "severity": "warning",
        "record_id": str(number), "kind": "vehicle", "checkpoint_id": "c", "captured_at_ms": 1,
        "received_at_ms": 2, "raised_at_ms": at_ms,
    }  # fmt: skip
    return msgspec.convert({**usual, **fields}, Alarm)


@pytest.mark.parametrize(
    ("units", "district", "kind", "severity"),
    list(itertools.product(
        ([], ["north"], ["south"], ["north", "south"], ["east"]), ("", "d1", "d2"), ("vehicle", "face"),
        ("info", "warning", "critical"),
    )),
)  # fmt: skip
def test_each_recipient_is_told_what_its_route_takes(
    units: list[str], district: str, kind: str, severity: str
) -> None:
    one = alarm(visible_to=units, district_id=district, kind=kind, severity=severity)
    told = set(PLAN.first_attempts(severity, 5, one))
    wanted = {"log"} | ({"mail"} if not units else set())
    if not units or "north" in units:
        wanted.add("north.mail")
    is_seen, is_near = not units or "south" in units, district in ("", "d1")
    if is_seen and is_near and kind == "vehicle" and severity != "info":
        wanted.add("old.command")
    assert told == wanted


def test_recipients_are_told_of_no_incident_unless_they_ask_for_them() -> None:
    """And then of those of their districts, or of no place, as severe as they want; kinds of records and
    units say nothing of incidents."""
    plan = NoticePlan((*PLAN.notifiers, "ops.mail"), routes={
        **PLAN.routes,
        "ops.mail": NoticeRoute(
            frozenset({"north"}), frozenset({"d1"}), frozenset({"face"}), "warning", incidents=True
        ),
    })  # fmt: skip
    for severity, district in itertools.product(("info", "warning", "critical"), ("", "d1", "d2")):
        one = Incident(
            incident_id="i", kind="latency", state="open", opened_at_ms=5, severity=severity, district_id=district
        )
        wanted = {"log", "mail"} | ({"ops.mail"} if severity != "info" and district != "d2" else set())
        assert set(plan.first_attempts(severity, 5, one)) == wanted
        assert set(plan.of_end(one, 5, ())) == wanted


def test_a_digest_stands_for_the_alarms_that_its_recipient_is_told_of(tmp_path: Path) -> None:
    """Of a rule that was opened within the minute, the alarms before it only those of its unit."""
    store = OperationsStore(tmp_path / "operations.db", PLAN)
    batch = [alarm(n, 100 + n, visible_to=["north"] if n < 5 else []) for n in range(8)]
    store.apply(BatchChanges(alarms=batch, now_ms=200))
    store.notify_past_minutes(200 + 2 * MINUTE_MS)

    def digest(name: str) -> tuple[list[str], int]:
        due = store.notices.due(name, 10 * MINUTE_MS, 100)
        bodies = [one.body for one in due if one.subject.startswith("digest:")]
        found = [msgspec.json.decode(one, type=NoticeDigest) for one in bodies]
        singles = [one.subject for one in due if not one.subject.startswith("digest:")]
        return sorted(found[0].ids) if found else [], len(singles)

    assert digest("north.mail") == ([f"r:{n}" for n in range(2, 8)], 2)
    assert digest("log") == ([f"r:{n}" for n in range(2, 8)], 2)
    assert digest("mail") == (["r:5", "r:6", "r:7"], 0)
    assert digest("old.command") == (["r:5", "r:6", "r:7"], 0)
    store.close()


@pytest.mark.parametrize(
    ("recipient", "why"),
    [
        ({}, "a mail_to, a webhook_url or a command"), ({"mail_to": ["nobody"]}, "no address"),
        ({"webhook_url": "ftp://x"}, "http"), ({"command": ["x"], "units": ["a|b"]}, "no unit"),
        ({"command": ["x"], "kinds": ["car"]}, "none of"), ({"command": ["x"], "least_severity": "loud"}, "loud"),
        ({"command": ["x"], "webhook_secret": "s"}, "no webhook_url"),
    ],
)  # fmt: skip
def test_a_recipient_that_could_never_be_told_is_refused(recipient: dict[str, object], why: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=why):
        msgspec.convert({"recipients": {"north": recipient}}, NoticeSettings)


def test_ways_of_recipients_have_names_that_escalation_may_use() -> None:
    north = NoticeRecipient(mail_to=("n@x.org",), webhook_url="https://x.org", command=("ring",), units=("north",))
    settings = NoticeSettings(
        mail_host="m", mail_from="d@x.org", recipients={"north": north}, escalate_to=("north.command",),
        webhook_give_up_hours=3,
    )
    names = [one.name for one in recipient_notifiers(SiteSettings(), settings)]
    assert names == ["north.mail", "north.webhook", "north.command"]
    assert settings.routes.keys() == set(names)
    assert settings.give_up_ms_of("north.webhook") == 3 * 3_600_000
    for bad in ({"escalate_to": ["south.mail"]}, {"recipients": {"a.b": {"command": ["x"]}}}):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(bad, NoticeSettings)
    with pytest.raises(msgspec.ValidationError, match="needs a mail_host"):
        msgspec.convert({"recipients": {"n": {"mail_to": ["a@b.c"]}}}, NoticeSettings)


def test_an_incident_is_stored_and_told_to_the_ways_of_all(tmp_path: Path) -> None:
    store = OperationsStore(tmp_path / "operations.db", PLAN)
    opened = msgspec.convert(
        {"incident_id": "i", "kind": "latency", "state": "open", "opened_at_ms": 5}, Incident
    )
    store.apply(BatchChanges(incidents=[opened], now_ms=5))
    assert [len(store.notices.due(name, 5, 9)) for name in PLAN.notifiers] == [1, 1, 0, 0]
    store.close()
