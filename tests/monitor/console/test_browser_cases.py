"""A case before a browser: two plates of one target, its alarms, what waits, what was asked under its number."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import closing

import httpx
import msgspec
import pytest
from axe_playwright_python.sync_playwright import Axe
from console_browser import WIDTHS, ConsoleProcess, OpenPage, not_shown, now_ms, shoot
from console_city import fill_store
from console_traffic import make_topics, producer
from playwright.sync_api import Page, expect

from bus.client.kafka.command_client import CommandClient, new_command_id
from bus.contracts.alarms import Candidate
from bus.contracts.commands import WatchCommand
from bus.contracts.topics import EVENT_CANDIDATE
from bus.domain.policy import PolicySettings
from bus.domain.rule_targets import text_sha256
from bus.settings import BusSettings
from deploy.servers.databus import RunningBroker
from monitor.accounts.roles import AccountRole
from monitor.accounts.store import AccountStore
from monitor.questions.question import Asker, question_about
from monitor.questions.question_log import QuestionLog
from tests.running_dispatcher import running_dispatcher

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("console-browser-approval"), pytest.mark.timeout(240)]
PASSWORD = "correct horse"
ACCOUNTS = {"li": [AccountRole.OPERATOR], "sun": [AccountRole.OPERATIONS, AccountRole.OPERATOR]}
WAIT_MS, WAIT_S = 60_000, 60.0
CASE, DRIVER = "K-7/2026", "司机 张某"
PLACE = "330100#0#0#0"


@pytest.fixture(scope="module")
def console(broker: RunningBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleProcess]:
    """Two rules of one target in force, one that waits; three passages of that target, two at one place at once."""
    path, started_ms = tmp_path_factory.mktemp("cases"), now_ms()
    fill_store(path, now_ms=started_ms, records=20)
    make_topics(broker.bootstrap)
    accounts = AccountStore(path)
    for name, roles in ACCOUNTS.items():
        accounts.add(name, PASSWORD, roles)
    asked = question_about(Asker(account="li", reason="stolen", case=CASE), "search", {"plate": "浙A10001"})
    QuestionLog(path, 400).add(asked, started_ms)
    with running_dispatcher(broker.bootstrap, path, policy=PolicySettings(), metrics_port=0):
        bus = BusSettings(bootstrap_servers=broker.bootstrap)
        with closing(CommandClient(bus, "main", "test")) as client:
            put(client, "one", "浙A10001", target=DRIVER)
            put(client, "two", "浙A20002", target=DRIVER, severity="warning")
            put(client, "none", "浙A30003")
            put(client, "later", "浙A40004", target="同伙", is_approved=False)
            put(client, "other", "浙A50005", case="K-8")
        made = ConsoleProcess(path, broker.bootstrap, started_ms, has_policy=True)
        fire(broker, ("one", "浙A10001", 0), ("two", "浙A20002", 4_000), ("two", "浙A20002", 60_000))
        stored(made, path, 2)
        yield made
        made.stop()


def put(
    client: CommandClient, rule_id: str, plate: str, *, case: str = CASE, target: str = "", severity: str = "warning",
    is_approved: bool = True,
) -> None:  # fmt: skip
    rule = WatchCommand(
        rule_id=rule_id, op="put", version=now_ms(), name=f"规则 {rule_id}", match={"plate_number": [plate]},
        severity=severity, account="li", issuer="test", command_id=new_command_id(), reason="被盗", case=case,  # type: ignore[arg-type]
        target=target,
    )  # fmt: skip
    assert client.request(rule).state == "proposed"
    if is_approved:
        approval = WatchCommand(
            rule_id=rule_id, op="approve", version=now_ms(), account="zhao", issuer="test", reason="checked",
            command_id=new_command_id(), text_sha256=text_sha256(rule),
        )  # fmt: skip
        assert client.request(approval).state == "accepted"


def fire(broker: RunningBroker, *passages: tuple[str, str, int]) -> None:
    to, started_ms = producer(broker.bootstrap), now_ms()
    for number, (rule_id, plate, after_ms) in enumerate(passages):
        body = {"卡口编号": PLACE, "车牌号码": plate, "抓拍时间": "2026-11-24 17:25:34"}
        candidate = Candidate(
            rule_id=rule_id, rule_version=1, record_id=f"passage-{number}", kind="vehicle", received_at_ms=started_ms,
            captured_at_ms=started_ms + after_ms, record=json.dumps(body, ensure_ascii=False),
        )  # fmt: skip
        to.produce(EVENT_CANDIDATE, key="one place", value=msgspec.json.encode(candidate))
    assert to.flush(20) == 0


def stored(console: ConsoleProcess, path: object, count: int) -> None:
    """The dispatcher has decided, and the console's store has it."""
    from monitor.accounts.one_time_links import issue_one_time_link

    link = issue_one_time_link(path, name="look", roles=[AccountRole.VIEWER], base_url=console.url)  # type: ignore[arg-type]
    with httpx.Client(base_url=console.url, follow_redirects=True, timeout=30) as client:
        client.get(link)
        deadline = time.monotonic() + WAIT_S
        while True:
            rows = client.get("/api/alarms", params={"case": CASE}).json()["rows"]
            if len(rows) >= count and sum(one["further_passages"] for one in rows) == 1:
                assert [one["case_target"] for one in rows] == [DRIVER] * count
                return
            assert time.monotonic() < deadline, rows
            time.sleep(0.1)


def enter(page: Page, console: ConsoleProcess, name: str, language: str, following: str) -> None:
    page.set_default_timeout(WAIT_MS)
    page.goto(f"{console.url}/login?language={language}&next={following}")
    page.fill("#name", name)
    page.fill("#password", PASSWORD)
    page.click("button[type=submit]")
    page.wait_for_url(f"**{following}")


def alarms_of(page: Page) -> object:
    return page.get_by_role("region", name="本案告警").locator(".ag-center-cols-container .ag-row")


def test_a_case_is_opened_from_the_list_and_shows_targets_rules_and_alarms(
    console: ConsoleProcess, open_page: OpenPage
) -> None:
    """By the keyboard; what is open stands in the address: back, reload and a second tab show the same."""
    page = open_page(log_in=False)
    enter(page, console, "li", "zh", "/cases")
    row = page.locator(".ag-row", has_text=CASE)
    expect(row).to_contain_text(f"{DRIVER} · 同伙")
    expect(row.locator("[col-id=rules]")).to_have_text("3")
    expect(row.locator("[col-id=waiting]")).to_have_text("1")
    expect(page.locator(".ag-row", has_text="K-8")).to_be_visible()
    page.get_by_label("案件编号（开头）").fill("K-7")
    expect(page.locator(".ag-row", has_text="K-8")).to_have_count(0)
    row.locator("[col-id=case]").focus()
    page.keyboard.press("Enter")
    heading = page.get_by_role("heading", name=f"案件 {CASE}")
    expect(heading).to_be_visible()
    names = page.locator(".case-targets h3")
    expect(names).to_have_text([DRIVER, "同伙", "未写明目标的规则"])
    rules = page.locator(".case-targets section", has_text=DRIVER).locator("li")
    expect(rules).to_have_count(2)
    expect(rules.first).to_contain_text("浙A20002")
    expect(page.locator(".case-targets li", has_text="规则 later")).to_contain_text("待审批")
    found = alarms_of(page)
    expect(found).to_have_count(2)  # type: ignore[arg-type]
    expect(page.get_by_role("region", name="以本案编号进行的查询")).to_have_count(0)
    page.wait_for_timeout(300)
    shoot(page, console, "cases")
    address = page.url
    assert "case=K-7%2F2026" in address
    assert "begins=K-7" in address
    page.get_by_label("时间").click()
    page.get_by_role("option", name="最近 30 天").click()
    page.wait_for_url("**days=30**")
    page.go_back()
    page.wait_for_url(address)
    second = page.context.new_page()
    second.goto(address)
    expect(second.get_by_role("heading", name=f"案件 {CASE}")).to_be_visible(timeout=WAIT_MS)
    expect(second.get_by_label("案件编号（开头）")).to_have_value("K-7")
    second.close()
    page.reload()
    expect(names).to_have_count(3)
    found.first.locator("[col-id=rule_name]").focus()  # type: ignore[attr-defined]
    page.keyboard.press("Enter")
    expect(page.locator(".detail dl")).to_contain_text(DRIVER)
    page.keyboard.press("Escape")
    page.locator(".case-targets li", has_text="规则 one").get_by_role("link", name="规则", exact=True).click()
    page.wait_for_url("**/watch?rule=one")
    expect(page.get_by_label("本案目标（可选）")).to_have_value(DRIVER)


def test_alarms_are_grouped_by_the_target_of_the_case(console: ConsoleProcess, open_page: OpenPage) -> None:
    """Two rules of a target are one group, and a click asks for its alarms."""
    page = open_page(log_in=False)
    enter(page, console, "li", "zh", "/alarms?group=target")
    group = page.locator(".ag-row", has_text=DRIVER)
    expect(group.locator("[col-id=count]")).to_have_text("2")
    group.locator("[col-id=rule]").click()
    page.wait_for_url("**case=K-7**")
    expect(page.get_by_label("案件目标")).to_have_value(DRIVER)
    expect(page.locator(".ag-center-cols-container .ag-row").first).to_be_visible()


@pytest.mark.parametrize("width", [390, 1440])
def test_who_may_read_questions_sees_those_of_the_case_and_nothing_is_cut_off(
    console: ConsoleProcess, open_page: OpenPage, width: int
) -> None:
    page = open_page(log_in=False, width=width)
    enter(page, console, "sun", "en", "/cases")
    page.goto(f"{console.url}/cases?case=K-7%2F2026")
    asked = page.get_by_role("region", name="What was asked under its number")
    expect(asked.locator(".ag-row").first).to_contain_text("stolen" if width > 700 else "li")
    expect(page.locator(".case-targets h3")).to_have_count(3)
    page.wait_for_timeout(300)
    assert not_shown(page, width) == [], WIDTHS
    shoot(page, console, f"cases-en-{width}")
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    page.goto(f"{console.url}/cases?case=K-9")
    expect(page.get_by_text("There is no rule and no alarm of this case that you see")).to_be_visible()
    page.goto(f"{console.url}/cases?days=3")
    expect(page.locator("main, .q-page").get_by_text("days").first).to_be_visible()
