"""A rule of one unit fires: a member of another finds nothing of it, wherever the console answers.

Every route of the API's own document, every page with all that its websocket brings, exports, metrics and notices
are walked as an account of the unit south with every role; the same walk as one of north, whose rule it is, finds
it, so that the search is known to find. Broker, dispatcher, console and browser are real.
"""

from __future__ import annotations

import base64
import json
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import httpx
import msgspec
import pytest
from console_browser import ConsoleProcess
from console_city import fill_store
from console_services import signed
from console_traffic import make_topics, producer
from playwright.sync_api import Page, WebSocket

from bus.contracts.alarms import Candidate
from bus.contracts.commands import DecidedRule
from bus.contracts.topics import EVENT_CANDIDATE, EVENT_SUPPRESSED, STATE_WATCHLIST
from bus.client.kafka.consumer import Consumer
from bus.domain.policy import PolicySettings
from bus.notify.settings import NoticeRecipient, NoticeSettings
from bus.runtime.wall_clock import now_ms
from bus.settings import BusSettings
from deploy.servers.databus import RunningBroker
from monitor.accounts.roles import EVERYBODY, AccountRole
from monitor.accounts.sessions import SessionStore
from monitor.accounts.store import AccountStore
from monitor.console.mount import _BUILDERS as PAGES
from tests.running_dispatcher import running_dispatcher

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("console-units")]
WITHIN_S = 60.0
RULE, ENDED, WAITING = "planted-rule-7f3a", "planted-ended-7f3a", "planted-waiting-7f3a"
PLATE, TITLE, COMMENT = "浙Q7X3K9", "planted-title-7f3a", "planted-comment-7f3a"
ALARM = f"{RULE}:planted-record-7f3a"
MARKS = ("7f3a", "7X3K9")
"""In ids, title and comment; in the plate however it is written. Nothing else of the city has them."""
REASON = {"x-reason": quote("stolen"), "x-case": "K-1"}
RULE_BODY = {"name": TITLE, "match": {"plate_number": [PLATE]}, "reason": "stolen", "case": "K-1"}


def marks_in(text: str, asked: str = "") -> list[str]:
    """What was planted and stands in a text, but for what the question itself has said."""
    for said in sorted({RULE, ENDED, WAITING, ALARM, PLATE, quote(PLATE)}, key=len, reverse=True):
        if said in asked:
            text = text.replace(said, "").replace(said.encode("unicode-escape").decode(), "")
    return [mark for mark in MARKS if mark in text]


@dataclass
class Units:
    """The site: who is logged in, what was planted."""

    url: str
    folder: Path
    bootstrap: str
    cookies: dict[str, str]
    metrics_port: int
    fired: int = 0
    notices: dict[str, Path] = field(default_factory=dict)

    def client(self, who: str) -> httpx.Client:
        return httpx.Client(
            base_url=self.url, timeout=30, headers=REASON, cookies={"databus_console": self.cookies[who]},
        )

    def ask(self, who: str, method: str, path: str, body: object = None) -> httpx.Response:
        with self.client(who) as client:
            return client.request(method, path, json=body)

    def fire(self, rule_id: str, record_id: str, captured_at_ms: int) -> None:
        """A record of the plate has passed: what a stream of candidates says of it."""
        body = {"卡口编号": "c1", "车牌号码": PLATE, "抓拍时间": "2026-11-24 17:25:34"}
        candidate = Candidate(
            rule_id=rule_id, rule_version=1, record_id=record_id, kind="vehicle", received_at_ms=now_ms(),
            captured_at_ms=captured_at_ms, record=json.dumps(body, ensure_ascii=False),
        )
        to = producer(self.bootstrap)
        to.produce(EVENT_CANDIDATE, key=rule_id, value=msgspec.json.encode(candidate))
        to.flush(20)

    def put_in_force(self, rule_id: str) -> None:
        """Proposed by one of the unit, approved by another."""
        sent = self.ask("li", "POST", "/api/watch", {**RULE_BODY, "rule_id": rule_id, "visible_to": ["north"]})
        assert sent.status_code == 202, sent.text
        self.settle("approve", rule_id)

    def settle(self, op: str, rule_id: str) -> None:
        def row() -> dict[str, Any] | None:
            rows = self.ask("zhao", "GET", "/api/proposals").json()["rows"]
            return next((one for one in rows if one["rule_id"] == rule_id), None)

        found = until(row)
        body = {"rule_id": rule_id, "text_sha256": found["text_sha256"], "reason": "checked"}
        done = self.ask("zhao", "POST", f"/api/proposals/{op}", body)
        assert done.status_code == 200, done.text

    def stored(self, alarm_id: str) -> httpx.Response | None:
        found = self.ask("li", "GET", f"/api/alarms/{alarm_id}")
        return found if found.status_code == 200 else None


def until(condition: Callable[[], Any]) -> Any:
    """What it gives once it gives something, with a bound."""
    end = time.monotonic() + WITHIN_S
    while not (found := condition()):
        assert time.monotonic() < end, "did not come in time"
        time.sleep(0.05)
    return found


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def writes_to(path: Path) -> tuple[str, ...]:
    """A program that appends what it is told."""
    script = "import sys; open(sys.argv[1], 'ab').write(sys.stdin.buffer.read() + b'\\n')"
    return (sys.executable, "-c", script, str(path))


@pytest.fixture(scope="module")
def units(broker: RunningBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Units]:
    """North's rule has fired: one alarm taken and commented on, one of a rule that has ended, one passage that
    was suppressed; a change of the rule waits."""
    folder, started_ms = tmp_path_factory.mktemp("units"), now_ms()
    fill_store(folder, now_ms=started_ms, records=30)
    make_topics(broker.bootstrap)
    store = AccountStore(folder)
    for name, unit in (("li", "north"), ("zhao", "north"), ("wang", "south"), ("chen", ""), ("admin", "")):
        roles = EVERYBODY if name != "chen" else EVERYBODY - {AccountRole.OPERATIONS}
        store.add(name, "correct horse", roles)
        store.set_unit(name, unit, ["330102"] if unit else [])
    told = {name: folder / f"{name}.told" for name in ("north", "south", "everybody")}
    notices = NoticeSettings(
        command=writes_to(told["everybody"]), alarm_log=str(folder / "alarms.log"),
        recipients={
            name: NoticeRecipient(command=writes_to(told[name]), units=(name,)) for name in ("north", "south")
        },
    )
    port = free_port()
    with ExitStack() as stack:
        stack.enter_context(
            running_dispatcher(
                broker.bootstrap, folder, notices=notices, policy=PolicySettings(), metrics_port=port
            )
        )
        console = ConsoleProcess(folder, broker.bootstrap, started_ms, has_policy=True)
        stack.callback(console.stop)
        sessions = SessionStore(store, lifetime_ms=3_600_000, now_ms=now_ms)
        secret = (folder / "console" / "secret").read_text()
        cookies = {
            one.name: signed({"sid": sessions.open(one.principal())}, secret) for one in store.accounts()
        }
        made = Units(console.url, folder, broker.bootstrap, cookies, port, notices=told)
        plant(made)
        yield made
        store.close()


def plant(made: Units) -> None:
    at_ms = now_ms()
    for rule_id in (RULE, ENDED):
        made.put_in_force(rule_id)
    made.fire(RULE, "planted-record-7f3a", at_ms)
    until(lambda: made.stored(ALARM))
    made.fire(RULE, "planted-again-7f3a", at_ms + 1_000)
    made.fire(ENDED, "planted-record-7f3a", at_ms)
    until(lambda: made.stored(f"{ENDED}:planted-record-7f3a"))
    assert made.ask("li", "DELETE", f"/api/watch/{ENDED}?reason=over").status_code == 200
    taken = made.ask("li", "POST", f"/api/alarms/{ALARM}/take", {})
    assert taken.status_code == 200, taken.text
    said = made.ask("li", "POST", f"/api/alarms/{ALARM}/comment", {"text": COMMENT})
    assert said.status_code == 200, said.text
    for rule_id in (WAITING, RULE):
        changed = {**RULE_BODY, "rule_id": rule_id, "note": "changed", "visible_to": ["north"]}
        assert made.ask("li", "POST", "/api/watch", changed).status_code == 202
    until(lambda: made.stored(ALARM).json()["further_passages"] == 1)  # type: ignore[union-attr]
    body = {"rule": {**RULE_BODY, "visible_to": ["north"]}, "days": 7}
    made.ask("li", "POST", "/api/watch/preview", body)


@dataclass(frozen=True)
class Asked:
    """One question of a route. `finds`: who may see the rule finds something of it in the answer. `status`: what
    another unit's member is answered; None: any."""

    path: str
    body: object = None
    finds: bool = False
    status: int | None = None


A, GONE = quote(ALARM), 404
VERDICT = {"rule_id": WAITING, "text_sha256": "0" * 64, "reason": "no"}
ROUTES: dict[str, list[Asked]] = {
    "GET /login": [Asked("/login")],
    "POST /auth/login": [Asked("/auth/login")],
    "GET /auth/once/{token}": [Asked("/auth/once/x")],
    "POST /auth/logout": [],  # ends the session of who walks
    "POST /auth/preferences": [Asked("/auth/preferences")],
    "GET /api/records": [Asked("/api/records"), Asked(f"/api/records?plate={quote(PLATE)}")],
    "GET /api/records/count": [Asked("/api/records/count")],
    "GET /api/plates": [Asked("/api/plates?contains=7X3K")],
    "GET /api/records.csv": [Asked("/api/records.csv")],
    "GET /api/records.jsonl": [Asked("/api/records.jsonl")],
    "GET /api/records/{record_id}": [Asked("/api/records/planted-record-7f3a", status=GONE)],
    "GET /api/rejected": [Asked("/api/rejected")],
    "GET /api/latency": [Asked("/api/latency")],
    "GET /api/quality": [Asked("/api/quality")],
    "GET /api/quality/hour": [Asked("/api/quality/hour")],
    "GET /api/alarms": [
        Asked("/api/alarms", finds=True), Asked(f"/api/alarms?rule={RULE}", finds=True),
        Asked(f"/api/alarms?plate={quote(PLATE)}", finds=True), Asked("/api/alarms?owner=li", finds=True),
        Asked("/api/alarms?stage=taken", finds=True), Asked("/api/alarms?districts=mine&kind=vehicle", finds=True),
    ],
    "GET /api/alarms.csv": [Asked("/api/alarms.csv", finds=True)],
    "GET /api/alarms.jsonl": [Asked("/api/alarms.jsonl", finds=True)],
    "GET /api/alarms/{alarm_id}": [
        Asked(f"/api/alarms/{A}", finds=True, status=GONE),
        Asked(f"/api/alarms/{quote(f'{ENDED}:planted-record-7f3a')}", finds=True, status=GONE),
    ],
    **{
        f"POST /api/alarms/{{alarm_id}}/{op}": [Asked(f"/api/alarms/{A}/{op}", body, status=GONE)]
        for op, body in (
            ("take", {}), ("assign", {"to": "wang"}), ("confirm", {}), ("false", {"why": "misread"}),
            ("comment", {"text": "x"}), ("close", {"result": "checked"}), ("reopen", {}),
        )
    },
    "GET /api/incidents": [Asked("/api/incidents")],
    "POST /api/acknowledgements/{name}": [Asked(f"/api/acknowledgements/{A}", status=201)],
    "GET /api/register": [Asked("/api/register")],
    "POST /api/register": [Asked("/api/register", {})],
    "GET /api/places": [Asked("/api/places")],
    "GET /api/watch": [Asked("/api/watch", finds=True), Asked("/api/watch?limit=1", finds=True)],
    "POST /api/watch": [
        Asked("/api/watch", {**RULE_BODY, "name": "mine", "rule_id": RULE}, status=422),
        Asked("/api/watch", {**RULE_BODY, "name": "mine", "rule_id": WAITING}, status=422),
        Asked("/api/watch", {**RULE_BODY, "name": "mine", "visible_to": ["north"]}, status=422),
    ],
    "DELETE /api/watch/{rule_id}": [Asked(f"/api/watch/{RULE}?reason=x", status=GONE)],
    "POST /api/watch/preview": [Asked("/api/watch/preview", {"rule": {**RULE_BODY, "name": "mine"}, "days": 1})],
    "GET /api/proposals": [Asked("/api/proposals", finds=True)],
    **{
        f"POST /api/proposals/{op}": [Asked(f"/api/proposals/{op}", VERDICT, status=GONE)]
        for op in ("approve", "reject", "withdraw")
    },
    "GET /api/case": [Asked("/api/case")],
    "POST /api/case": [Asked("/api/case", {"reason": "x", "case": "K-2"})],
    "GET /api/questions": [Asked("/api/questions", finds=True), Asked("/api/questions?text=7X3K9", finds=True)],
    "GET /api/lists": [Asked("/api/lists")],
    "GET /api/lists/{list_id}/lines": [Asked("/api/lists/x/lines")],
    "POST /api/lists/{list_id}/lines": [Asked("/api/lists/x/lines", {})],
    "POST /api/lists/{list_id}/import": [Asked("/api/lists/x/import", {})],
    "DELETE /api/lists/{list_id}": [Asked("/api/lists/x")],
    "GET /api/evidence/alarms/{alarm_id}": [Asked(f"/api/evidence/alarms/{A}", status=GONE)],
    "GET /api/evidence/records": [Asked(f"/api/evidence/records?plate={quote(PLATE)}", status=GONE)],
    "GET /healthz": [Asked("/healthz")],
    **{f"GET /api/{name}": [Asked(f"/api/{name}")] for name in (
        "topics", "cluster", "cleaner", "metadata", "groups", "status", "mirror", "senders", "account", "accounts",
    )},
    "GET /metrics": [Asked("/metrics")],
    "GET /pictures/{name}": [Asked("/pictures/x")],
    "POST /api/account/password": [Asked("/api/account/password", {"old": "x", "new": "y"})],
    "POST /api/accounts": [Asked("/api/accounts", {})],
    "PUT /api/accounts/{name}/roles": [Asked("/api/accounts/nobody/roles", {"roles": ["viewer"]})],
    "PUT /api/accounts/{name}/unit": [Asked("/api/accounts/wang/unit", {"unit": "north"}, status=422)],
    "PUT /api/accounts/{name}/password": [Asked("/api/accounts/nobody/password", {"password": "correct horse"})],
    "DELETE /api/accounts/{name}/lock": [Asked("/api/accounts/nobody/lock")],
    "DELETE /api/accounts/{name}": [Asked("/api/accounts/nobody")],
    "GET /": [Asked("/")],
    "GET /assets/{name}": [Asked("/assets/console.js")],
}  # fmt: skip
"""Every route of the API's document, by method and path; one without a question says why."""


def test_every_route_has_a_row(units: Units) -> None:
    """A new one is walked, too, or this fails."""
    document = units.ask("wang", "GET", "/openapi.json").json()["paths"]
    routes = {f"{verb.upper()} {path}" for path, verbs in document.items() for verb in verbs}
    assert routes == ROUTES.keys()


@pytest.mark.parametrize("route", ROUTES)
def test_no_route_answers_another_units_member_with_anything_of_the_rule(units: Units, route: str) -> None:
    verb = route.split()[0]
    for asked in ROUTES[route]:
        said = unquote(asked.path) + json.dumps(asked.body, ensure_ascii=False)
        for who in ("wang", "chen"):
            answer = units.ask(who, verb, asked.path, asked.body)
            assert answer.status_code < 500, answer.text
            assert marks_in(answer.text, said) == [], f"{who}: {asked.path}: {answer.text[:2000]}"
            if asked.status is not None and who == "wang":
                assert answer.status_code == asked.status, answer.text
        if asked.finds:
            for who in ("zhao", "admin"):
                assert marks_in(units.ask(who, verb, asked.path, asked.body).text, "") != [], (who, asked.path)


@pytest.mark.parametrize(
    ("verb", "path", "body"),
    [("GET", "/api/alarms/{}", None), ("POST", "/api/alarms/{}/confirm", {}), ("POST", "/api/alarms/{}/take", {}),
     ("GET", "/api/evidence/alarms/{}", None), ("POST", "/api/acknowledgements/{}", None)],
)  # fmt: skip
def test_a_hidden_alarm_answers_exactly_as_one_that_was_never_there(
    units: Units, verb: str, path: str, body: object
) -> None:
    absent = "planted-rule-9999:planted-record-9999"
    hidden, gone = (units.ask("wang", verb, path.format(quote(one)), body) for one in (ALARM, absent))
    assert hidden.status_code == gone.status_code
    assert hidden.text == gone.text.replace(absent, ALARM)
    life = units.ask("li", "GET", f"/api/alarms/{A}").json()
    assert (life["owner"], life["stage"]) == ("li", "taken"), "and nothing was done to it"


def test_nothing_that_another_units_member_asked_has_changed_the_rule(units: Units) -> None:
    rows = units.ask("li", "GET", "/api/watch").json()["rows"]
    assert [(one["rule_id"], one["name"]) for one in rows if one["rule_id"] == RULE] == [(RULE, TITLE)]
    waiting = {one["rule_id"] for one in units.ask("li", "GET", "/api/proposals").json()["rows"]}
    assert {RULE, WAITING} <= waiting


def test_rules_are_counted_as_far_as_they_are_seen(units: Units) -> None:
    def counted(who: str) -> tuple[int, float]:
        shown = units.ask(who, "GET", "/metrics").text
        line = next(one for one in shown.splitlines() if one.startswith("databus_console_rules_in_force "))
        return int(units.ask(who, "GET", "/api/watch").json()["count"]), float(line.split()[1])

    seen, hidden = counted("li"), counted("wang")
    assert seen[0] - hidden[0] == 1 and seen[1] - hidden[1] == 1.0


def test_nobody_is_given_an_alarm_that_he_does_not_see(units: Units) -> None:
    answer = units.ask("li", "POST", f"/api/alarms/{A}/assign", {"to": "wang"})
    assert (answer.status_code, answer.json()["code"]) == (422, "not_visible")


def test_notices_reach_the_unit_and_the_servers_own_log_alone(units: Units) -> None:
    """Of an alarm that everybody sees all of them are told."""
    until(lambda: units.notices["north"].exists())
    common = DecidedRule(
        rule_id="common", op="put", version=1, name="common", match={"plate_number": [PLATE]}, quiet_s=0
    )
    to = producer(units.bootstrap)
    to.produce(STATE_WATCHLIST, key="common", value=msgspec.json.encode(common))
    to.flush(20)
    until(lambda: any(one["rule_id"] == "common" for one in units.ask("li", "GET", "/api/watch").json()["rows"]))
    units.fire("common", "seen-by-all", now_ms())
    for path in units.notices.values():
        until(lambda path=path: path.exists() and b"seen-by-all" in path.read_bytes())
    assert RULE in units.notices["north"].read_text()
    for name in ("south", "everybody"):
        assert "7f3a" not in units.notices[name].read_text()
    assert RULE in (units.folder / "alarms.log").read_text()
    with Consumer(BusSettings(bootstrap_servers=units.bootstrap), client_id="check") as consumer:
        consumer.assign(dict.fromkeys(consumer.partitions_of(EVENT_SUPPRESSED), 0))
        found: list[bytes | None] = []
        while not found:
            found += [one.value for one in consumer.poll(100, 0.5)]
    assert [msgspec.json.decode(one or b"")["visible_to"] for one in found] == [["north"]]


def test_no_metric_of_the_dispatcher_names_a_rule(units: Units) -> None:
    page = httpx.get(f"http://127.0.0.1:{units.metrics_port}/metrics", timeout=10).text
    assert "databus_dispatcher" in page
    assert marks_in(page) == []
