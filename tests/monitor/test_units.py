"""A rule of one unit fires: a member of another finds nothing of it, wherever the console answers.

Every route of the API's own document, every page with all that its websocket brings, exports, metrics and notices
are walked as an account of the unit south with every role; the same walk as one of north, whose rule it is, finds
it, so that the search is known to find. Broker, dispatcher, console and browser are real.
"""

from __future__ import annotations

import json
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator
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
from playwright.sync_api import Browser, Page, WebSocket
from walked_routes import (
    ALARM,
    CASE,
    COMMENT,
    ENDED,
    MARKS,
    PLATE,
    REASON,
    ROUTES,
    RULE,
    RULE_BODY,
    TITLE,
    WAITING,
    A,
)

from bus.client.kafka.consumer import Consumer
from bus.contracts.alarms import Candidate
from bus.contracts.commands import DecidedRule
from bus.contracts.topics import EVENT_CANDIDATE, EVENT_SUPPRESSED, STATE_WATCHLIST
from bus.domain.policy import PolicySettings
from bus.notify.settings import NoticeRecipient, NoticeSettings
from bus.runtime.wall_clock import now_ms
from bus.settings import BusSettings
from deploy.servers.databus import start_broker
from monitor.accounts.roles import EVERYBODY, AccountRole
from monitor.accounts.sessions import SessionStore
from monitor.accounts.store import AccountStore
from monitor.console.mount import _BUILDERS as PAGES
from tests.running_dispatcher import running_dispatcher

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("console-units")]
WITHIN_S = 60.0
NORTH = ("li", "zhao")
OTHER_REASON = {"x-reason": "theft", "x-case": "K-2"}
COMMON_PLATE = "浙A5Z2M8"
NEAR, FAR = "中山路1号路口", "湖滨街6号路口"
"""Places of the districts d0 and d2."""
def marks_in(text: str, asked: str = "") -> list[str]:
    """What was planted and stands in a text, but for what the question itself has said."""
    for said in sorted({RULE, ENDED, WAITING, ALARM, PLATE, CASE, quote(PLATE)}, key=len, reverse=True):
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
    clients: dict[str, httpx.Client] = field(default_factory=dict)
    notices: dict[str, Path] = field(default_factory=dict)

    def ask(self, who: str, method: str, path: str, body: object = None) -> httpx.Response:
        if who not in self.clients:
            self.clients[who] = httpx.Client(
                base_url=self.url, timeout=30, headers=REASON if who in NORTH else OTHER_REASON,
                cookies={"databus_console": self.cookies[who]},
            )  # fmt: skip
        return self.clients[who].request(method, path, json=body)

    def fire(
        self, rule_id: str, record_id: str, captured_at_ms: int, plate: str = PLATE, place: str = "c1"
    ) -> None:
        """A record of the plate has passed: what a stream of candidates says of it."""
        body = {"卡口编号": place, "车牌号码": plate, "抓拍时间": "2026-11-24 17:25:34"}
        candidate = Candidate(
            rule_id=rule_id, rule_version=1, record_id=record_id, kind="vehicle", received_at_ms=now_ms(),
            captured_at_ms=captured_at_ms, record=json.dumps(body, ensure_ascii=False),
        )
        to = producer(self.bootstrap)
        to.produce(EVENT_CANDIDATE, key=rule_id, value=msgspec.json.encode(candidate))
        to.flush(20)

    def put_in_force(self, rule_id: str) -> None:
        """Proposed by one of the unit, approved by another."""
        body = {**RULE_BODY, "rule_id": rule_id, "target": rule_id, "visible_to": ["north"]}
        sent = self.ask("li", "POST", "/api/watch", body)
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
def units(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Units]:
    """North's rule has fired: one alarm taken and commented on, one of a rule that has ended, one passage that
    was suppressed; a change of the rule waits."""
    folder, started_ms = tmp_path_factory.mktemp("units"), now_ms()
    fill_store(folder, now_ms=started_ms, records=30)
    store = AccountStore(folder)
    for name, unit in (("li", "north"), ("zhao", "north"), ("wang", "south"), ("chen", ""), ("admin", "")):
        roles = EVERYBODY if name != "chen" else EVERYBODY - {AccountRole.OPERATIONS}
        store.add(name, "correct horse", roles)
        store.set_unit(name, unit, ["d0"] if unit else [])
    told = {name: folder / f"{name}.told" for name in ("north", "south", "everybody")}
    notices = NoticeSettings(
        command=writes_to(told["everybody"]), alarm_log=str(folder / "alarms.log"),
        recipients={
            name: NoticeRecipient(command=writes_to(told[name]), units=(name,)) for name in ("north", "south")
        },
    )
    port = free_port()
    with ExitStack() as stack:
        broker = start_broker(folder / "broker", {"group.initial.rebalance.delay.ms": "0"})
        stack.callback(broker.stop)
        make_topics(broker.bootstrap)
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
    common = DecidedRule(
        rule_id="common", op="put", version=1, name="common", match={"plate_number": [COMMON_PLATE]}, quiet_s=0
    )
    to = producer(made.bootstrap)
    to.produce(STATE_WATCHLIST, key="common", value=msgspec.json.encode(common))
    to.flush(20)
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
        changed = {
            **RULE_BODY, "rule_id": rule_id, "target": rule_id, "note": "changed", "visible_to": ["north"],
        }  # fmt: skip
        assert made.ask("li", "POST", "/api/watch", changed).status_code == 202
    until(lambda: made.stored(ALARM).json()["further_passages"] == 1)  # type: ignore[union-attr]
    assert made.ask("li", "GET", f"/api/records?plate={quote(PLATE)}").status_code == 200


def test_every_route_is_walked(units: Units) -> None:
    """Those of pages, too."""
    document = units.ask("wang", "GET", "/openapi.json").json()["paths"]
    assert {f"{verb.upper()} {path}" for path, verbs in document.items() for verb in verbs} == ROUTES.keys()


@pytest.mark.parametrize("route", ROUTES)
def test_no_route_answers_another_units_member_with_anything_of_the_rule(units: Units, route: str) -> None:
    verb = route.split()[0]
    for asked in ROUTES[route]:
        said = unquote(asked.path) + json.dumps(asked.body, ensure_ascii=False) + asked.said_before
        for who in ("wang", "chen"):
            answer = units.ask(who, verb, asked.path, asked.body)
            assert answer.status_code != 500, answer.text
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
    assert (seen[0] - hidden[0], seen[1] - hidden[1]) == (1, 1.0)


def test_nobody_is_given_an_alarm_that_he_does_not_see(units: Units) -> None:
    answer = units.ask("li", "POST", f"/api/alarms/{A}/assign", {"to": "wang"})
    assert (answer.status_code, answer.json()["code"]) == (422, "not_visible")


def test_notices_reach_the_unit_and_the_servers_own_log_alone(units: Units) -> None:
    """Of an alarm that everybody sees all of them are told."""
    until(lambda: units.notices["north"].exists())
    units.fire("common", "seen-by-all", now_ms(), COMMON_PLATE)
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


SHOWN_MS = 1_000
"""A delta is sent four times a second, a grid asks again twice."""


@dataclass
class PageTraffic:
    """All that a page was sent: its text, what it fetched, what came by its websocket."""

    texts: list[str] = field(default_factory=list)

    def listen(self, page: Page) -> None:
        page.on("websocket", self._on_socket)

    def _on_socket(self, socket: WebSocket) -> None:
        socket.on("framereceived", lambda said: self.texts.append(text_of(said)))


def text_of(said: str | bytes) -> str:
    return said if isinstance(said, str) else said.decode("utf-8", "replace")


PATHS = {name: [f"/{name}"] for name in PAGES} | {
    "alarms": [f"/alarms?alarm={A}&districts=all", "/alarms?group=target", f"/alarms?case={CASE}"],
    "map": [f"/map?target={RULE}"], "watch": [f"/watch?rule={RULE}"], "live": ["/live?districts=all"],
    "questions": ["/questions"], "cases": [f"/cases?case={CASE}"],
}  # fmt: skip
FINDING = frozenset({"alarms", "map", "watch", "live", "proposals", "questions", "cases"})
"""Pages that show a rule or its alarms to who may see them."""


def walked(units: Units, browser: Browser, who: str, pages: Iterable[str], fire: str) -> dict[str, PageTraffic]:
    """Each page opened, and an alarm raised while they are: what came to each."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    context.add_cookies([{"name": "databus_console", "value": units.cookies[who], "url": units.url}])
    heard: dict[str, PageTraffic] = {}
    opened: list[tuple[str, Page]] = []
    for name in pages:
        heard[name] = PageTraffic()
        for path in PATHS[name]:
            page = context.new_page()
            heard[name].listen(page)
            page.goto(units.url + path)
            page.wait_for_selector("h1")
            opened.append((name, page))
    units.fire(RULE, fire, captured_at_ms=now_ms() + 3_600_000 * len(heard))
    until(lambda: units.stored(f"{RULE}:{fire}"))
    opened[-1][1].wait_for_timeout(SHOWN_MS)
    for name, page in opened:
        page.wait_for_timeout(20)  # what has come is heard
        heard[name].texts.append(page.content())
    context.close()
    return heard


def test_no_page_and_no_push_shows_another_units_member_anything_of_the_rule(
    units: Units, browser: Browser
) -> None:
    """Pages stay open while the rule fires. An open panel that the address asks for says that there is nothing."""
    heard = walked(units, browser, "wang", PATHS, "planted-while-south-looks-7f3a")
    asked = "\n".join(path for paths in PATHS.values() for path in paths)
    for name, one in heard.items():
        said = unquote(asked) + (PLATE + CASE) * (name == "questions")
        assert marks_in("\n".join(one.texts), said) == [], name


def test_the_same_walk_as_a_member_of_the_unit_finds_it(units: Units, browser: Browser) -> None:
    """Also what is pushed while the page is open."""
    heard = walked(units, browser, "li", sorted(FINDING), "planted-while-north-looks-7f3a")
    for name in FINDING:
        found = "\n".join(heard[name].texts)
        assert (REASON["x-reason"] if name == "questions" else TITLE) in found, name
    assert any("planted-while-north-looks-7f3a" in text for text in heard["live"].texts[:-1])


def test_lists_begin_with_the_alarms_of_ones_own_districts(units: Units, browser: Browser) -> None:
    """What is of another district is a click away, and stands in the address; API and live page do the same."""
    for record_id, place in (("near", "330100#0#0#0"), ("far", "330100#5#5#0"), ("nowhere", "unknown")):
        units.fire("common", record_id, now_ms(), COMMON_PLATE, place)
        until(lambda record_id=record_id: units.stored(f"common:{record_id}"))

    def asked(who: str, query: str) -> set[str]:
        rows = units.ask(who, "GET", f"/api/alarms?rule=common&{query}").json()["rows"]
        return {one["record_id"] for one in rows} & {"near", "far", "nowhere"}

    assert asked("li", "districts=mine") == {"near", "nowhere"}
    assert asked("li", "") == asked("chen", "districts=mine") == {"near", "far", "nowhere"}
    assert asked("li", "district=d2") == {"far"}
    assert asked("li", "kind=face") == set()
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    context.add_cookies([{"name": "databus_console", "value": units.cookies["li"], "url": units.url}])
    for path in ("/alarms?rule=common", "/live"):
        page = context.new_page()
        page.goto(units.url + path)
        near, far = (page.locator(".ag-row", has_text=name) for name in (NEAR, FAR))
        near.first.wait_for()
        assert far.count() == 0
        page.locator("[data-filter=districts]").click()
        far.first.wait_for()
        assert "districts=all" in page.url
        page.locator("[data-filter=districts]").click()
        far.first.wait_for(state="detached")
    context.close()
