"""A city's policy before a browser: a case is chosen once, a rule proposed, approved by another person."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from console_browser import ConsoleProcess, OpenPage, now_ms, shoot
from console_city import fill_store
from console_traffic import make_topics
from playwright.sync_api import Page, expect

from bus.domain.policy import PolicySettings
from deploy.servers.databus import RunningBroker
from monitor.accounts.roles import AccountRole
from monitor.accounts.store import AccountStore
from tests.running_decider import running_decider

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("console-browser-approval")]
PASSWORD = "correct horse"
ACCOUNTS = {
    "li": AccountRole.OPERATOR, "zhao": AccountRole.APPROVER, "sun": AccountRole.OPERATIONS,
}  # fmt: skip
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture(scope="module")
def console(broker: RunningBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleProcess]:
    path, started_ms = tmp_path_factory.mktemp("strict"), now_ms()
    fill_store(path, now_ms=started_ms, records=200)
    make_topics(broker.bootstrap)
    store = AccountStore(path)
    for name, role in ACCOUNTS.items():
        store.add(name, PASSWORD, [role])
    made = ConsoleProcess(path, broker.bootstrap, started_ms, has_policy=True)
    with running_decider(broker.bootstrap, PolicySettings()):
        yield made
        made.stop()


def enter(page: Page, console: ConsoleProcess, name: str, language: str = "zh") -> None:
    page.goto(f"{console.url}/login?language={language}")
    page.fill("#name", name)
    page.fill("#password", PASSWORD)
    page.click("button[type=submit]")
    page.wait_for_url("**/live")


def choose_case(page: Page, number: str, reason: str) -> None:
    page.get_by_label("案件编号").fill(number)
    page.get_by_label("事由").first.fill(reason)
    page.get_by_role("button", name="确定", exact=True).click()
    expect(page.get_by_text(f"当前案件 {number}：{reason}")).to_be_visible()


def propose(page: Page, console: ConsoleProcess, name: str, plate: str, *, emergency: str = "") -> None:
    page.goto(console.url + "/watch")
    page.get_by_label("名称").fill(name)
    page.get_by_label("车牌").first.fill(plate)
    if emergency:
        page.get_by_label("紧急布控（小时）").fill(emergency)
    page.get_by_role("button", name="布控", exact=True).click()


def test_a_search_for_a_plate_is_answered_when_a_case_is_chosen_and_an_administrator_sees_it(
    open_page: OpenPage, console: ConsoleProcess
) -> None:
    """Once for all pages of the session; the grid that was refused is asked again."""
    page = open_page(log_in=False)
    enter(page, console, "li")
    page.goto(console.url + "/records")
    page.locator(".ag-row").first.wait_for()
    plate = page.locator(".ag-row [col-id=plate_number]:has-text('浙')").first.inner_text().strip()
    page.goto(f"{console.url}/live")
    page.goto(f"{console.url}/map?plate={plate}")
    expect(page.get_by_text("请先填写事由")).to_be_visible()
    choose_case(page, "K-7", "肇事逃逸")
    page.locator("ol.stops li").first.wait_for()
    shoot(page, console, "case")
    page.goto(f"{console.url}/records?plate={plate}")
    page.locator(".ag-row").first.wait_for()
    expect(page.get_by_text("当前案件 K-7：肇事逃逸")).to_be_visible()
    admin = open_page(log_in=False)
    enter(admin, console, "sun")
    admin.goto(f"{console.url}/questions?account=li&text={plate}")
    rows = admin.locator(".ag-center-cols-container .ag-row")
    expect(rows.filter(has_text="轨迹").first).to_contain_text("K-7")
    expect(rows.filter(has_text="记录查询").first).to_contain_text("肇事逃逸")
    shoot(admin, console, "questions")
    expect(page.locator("nav.pages a[href='/questions']")).to_have_count(0)
    expect(admin.locator("nav.pages a[href='/questions']")).to_have_count(1)


@pytest.mark.parametrize("width", [1440, 390])
def test_a_rule_is_proposed_changed_and_approved_by_another_person(
    open_page: OpenPage, console: ConsoleProcess, width: int
) -> None:
    """Its author may only withdraw it; of a change what was in force stands beside; the number that
    wait stands in the navigation."""
    name, plate = f"目标 {width}", f"浙A1{width:04d}"
    author, approver = open_page(log_in=False, width=width), open_page(log_in=False, width=width)
    enter(author, console, "li")
    author.goto(console.url + "/watch")
    choose_case(author, "K-1", "被盗")
    propose(author, console, name, plate)
    author.get_by_text("等待审批").first.wait_for()
    author.goto(console.url + "/proposals")
    card = author.locator(".proposal", has_text=name)
    expect(card.get_by_text("您提交的内容由他人审批")).to_be_visible()
    expect(card.get_by_role("button", name="批准")).to_have_count(0)
    enter(approver, console, "zhao")
    if width > 700:
        expect(approver.locator("nav .badge")).to_have_text("1")
    approver.goto(console.url + "/proposals")
    card = approver.locator(".proposal", has_text=name)
    expect(card).to_contain_text("li 于")
    expect(card).to_contain_text("事由：被盗")
    expect(card).to_contain_text(plate)
    choose_case(approver, "K-1", "审批")
    card.get_by_role("button", name="预览").click()
    expect(card.get_by_text("最近 7 天：命中 0 次")).to_be_visible()
    shoot(approver, console, f"proposals-{width}")
    assert approver.evaluate(OVERFLOW) <= 0
    card.get_by_role("button", name="驳回").click()
    expect(approver.get_by_text("请填写事由").first).to_be_visible()
    card.get_by_label("意见").fill("已核实")
    card.get_by_role("button", name="批准").click()
    expect(card).to_have_count(0)
    approver.goto(console.url + "/watch")
    approver.locator(".ag-row", has_text=name).first.wait_for()
    expect(author.locator(".proposal", has_text=name)).to_have_count(0)


def test_an_emergency_is_in_force_at_once_and_marked(open_page: OpenPage, console: ConsoleProcess) -> None:
    page = open_page(log_in=False)
    enter(page, console, "li")
    page.goto(console.url + "/watch")
    choose_case(page, "K-2", "儿童被拐")
    propose(page, console, "紧急目标", "浙A77777", emergency="2")
    row = page.locator(".ag-row", has_text="紧急目标")
    row.wait_for()
    expect(row.locator("[col-id=emergency_hours]")).to_have_text("紧急")
    propose(page, console, "再次", "浙A77777", emergency="2")
    expect(page.get_by_text("30 天内同一目标已紧急布控过").first).to_be_visible()
    shoot(page, console, "emergency")
