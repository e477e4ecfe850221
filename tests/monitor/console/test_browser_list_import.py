"""A file of plates in a browser: tried, imported as a proposal, approved by another person."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from console_browser import WIDTHS, ConsoleProcess, OpenPage, not_shown, now_ms, shoot
from console_city import fill_store
from console_traffic import make_topics
from playwright.sync_api import Page, expect

from bus.domain.policy import PolicySettings
from deploy.servers.databus import RunningBroker
from monitor.accounts.roles import AccountRole
from monitor.accounts.store import AccountStore
from tests.alarm.lists.excel_files import write_rows
from tests.alarm.lists.made_galleries import feature, text_of, unit
from tests.running_decider import running_decider

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("console-browser-approval"), pytest.mark.timeout(240)]
PASSWORD = "correct horse"
ACCOUNTS = {
    "li": AccountRole.OPERATOR, "feed": AccountRole.OPERATOR, "zhao": AccountRole.APPROVER,
}  # fmt: skip
WAIT_MS = 60_000


@pytest.fixture(scope="module")
def console(broker: RunningBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleProcess]:
    path, started_ms = tmp_path_factory.mktemp("imports"), now_ms()
    fill_store(path, now_ms=started_ms, records=20)
    make_topics(broker.bootstrap)
    store = AccountStore(path)
    for name, role in ACCOUNTS.items():
        store.add(name, PASSWORD, [role])
    made = ConsoleProcess(path, broker.bootstrap, started_ms, has_policy=True)
    with running_decider(broker.bootstrap, PolicySettings(list_sources={"daily": "feed"})):
        yield made
        made.stop()


def enter(page: Page, console: ConsoleProcess, name: str, language: str) -> None:
    page.set_default_timeout(WAIT_MS)
    page.goto(f"{console.url}/login?language={language}&next=/lists")
    page.fill("#name", name)
    page.fill("#password", PASSWORD)
    page.click("button[type=submit]")
    page.wait_for_url("**/lists")


def written(folder: Path, *lines: str) -> str:
    path = folder / "plates.csv"
    path.write_text("号牌号码,备注\n" + "".join(f"{line}\n" for line in lines), encoding="gb18030")
    return str(path)


def tried(page: Page, path: str, list_id: str, button: str) -> None:
    page.set_input_files("input[type=file]", path)
    page.get_by_label("名单标识" if button == "试导入" else "Id of the list").fill(list_id)
    page.get_by_role("button", name=button, exact=True).click()


def outcome(page: Page) -> str:
    found = page.locator("[data-outcome]")
    expect(found).to_be_visible(timeout=WAIT_MS)
    return found.inner_text()


def test_a_file_is_tried_proposed_and_in_force_when_another_person_approves_it(
    console: ConsoleProcess, open_page: OpenPage, tmp_path: Path
) -> None:
    """Its refused lines are shown with the reasons; nothing is in force before; then a file that lacks
    many of the lines is imported only after a yes, and may be refused. The navigation counts what waits, and
    leads to a page that shows it."""
    page, other = open_page(log_in=False), open_page(log_in=False)
    enter(page, console, "li", "zh")
    enter(other, console, "zhao", "en")
    expect(other.locator("input[type=file]")).to_have_count(0)
    page.get_by_role("button", name="试导入", exact=True).click()
    expect(page.locator(".notice", has_text="请填写名单标识")).to_be_visible(timeout=WAIT_MS)
    plates = [f"浙A{number:05d},被盗" for number in range(40)]
    tried(page, written(tmp_path, *plates, "13812345678,电话", "浙A00001,重复"), "stolen", "试导入")
    assert "40 行：新增 40" in outcome(page)
    expect(page.get_by_text("2 行被拒")).to_be_visible()
    refused = page.locator(".ag-row", has_text="13812345678")
    expect(refused).to_be_visible(timeout=WAIT_MS)
    with page.expect_download() as saved:
        page.get_by_role("button", name="保存被拒的行").click()
    assert "13812345678" in Path(saved.value.path()).read_text(encoding="utf-8-sig")
    shoot(page, console, "list-tried")
    page.get_by_label("名称", exact=True).fill("被盗车辆")
    page.get_by_label("事由").fill("每周更新")
    expect(page.locator("[data-outcome]")).to_have_count(0)
    page.get_by_role("button", name="试导入", exact=True).click()
    outcome(page)
    importing = page.get_by_role("button", name="导入", exact=True)
    importing.click()
    card = page.locator("section.proposal", has_text="stolen")
    expect(card).to_be_visible(timeout=WAIT_MS)
    expect(card.get_by_role("button", name="批准")).to_have_count(0)
    shoot(page, console, "list-proposed")
    faults = {width: not_shown(page, width) for width in (390, 1440)}
    assert faults == {390: [], 1440: []}, WIDTHS

    card = other.locator("section.proposal", has_text="stolen")
    expect(card).to_contain_text("40 (0 go)", timeout=WAIT_MS)
    expect(other.locator(".ag-row", has_text="stolen")).to_have_count(0)
    card.get_by_label("Why", exact=True).fill("checked")
    shoot(other, console, "list-proposal-en")
    card.get_by_role("button", name="Approve").click()
    expect(other.locator(".ag-row", has_text="被盗车辆").first).to_be_visible(timeout=WAIT_MS)
    expect(other.locator("section.proposal")).to_have_count(0, timeout=WAIT_MS)

    expect(page.locator(".ag-row", has_text="stolen").first).to_be_visible(timeout=WAIT_MS)
    tried(page, written(tmp_path, *plates[:10]), "stolen", "试导入")
    assert "移除 30" in outcome(page)
    expect(importing).to_be_disabled()
    page.get_by_text("将移除现有 40 行中的 30 行").click()
    shoot(page, console, "list-many-removed")
    importing.click()
    badge = other.locator("nav .badge")
    expect(badge).to_have_text("1", timeout=WAIT_MS)
    badge.click()
    other.wait_for_url("**/proposals")
    expect(other.get_by_text("No rule waits for an approval")).to_be_visible(timeout=WAIT_MS)
    card = other.locator("section.proposal", has_text="stolen")
    expect(card).to_contain_text("10 (30 go)", timeout=WAIT_MS)
    shoot(other, console, "proposals-of-lists-en")
    card.get_by_label("Why", exact=True).fill("half of a file")
    card.get_by_role("button", name="Reject").click()
    expect(other.locator("section.proposal")).to_have_count(0, timeout=WAIT_MS)
    expect(badge).to_be_hidden(timeout=WAIT_MS)


def test_a_gallery_of_faces_is_tried_and_proposed_with_its_model(
    console: ConsoleProcess, open_page: OpenPage, tmp_path: Path
) -> None:
    """The form says that photos are not imported."""
    page = open_page(log_in=False)
    enter(page, console, "li", "zh")
    expect(page.get_by_text("不能导入照片：没有从照片提取特征的插件")).to_be_visible(timeout=WAIT_MS)
    file = tmp_path / "faces.xlsx"
    faces = [(f"P{at}", f"姓名{at}", text_of(feature(unit(128, at)))) for at in range(30)]
    write_rows(file, [("编号", "姓名", "特征"), *faces, ("P3", "又一次", faces[1][2]), ("P70", "", "AAAA")])
    page.get_by_label("特征模型（人脸库）").click()
    page.get_by_role("option", name="city-face-128/1").click()
    page.get_by_label("事由").fill("通缉")
    tried(page, str(file), "wanted", "试导入")
    assert "30 行：新增 30（如 P0" in outcome(page)
    expect(page.get_by_text("人脸特征，模型 city-face-128/1，阈值 0.6")).to_be_visible()
    expect(page.locator(".ag-row", has_text="编号已在此行出现过 5")).to_be_visible(timeout=WAIT_MS)
    shoot(page, console, "gallery-tried")
    faults = {width: not_shown(page, width) for width in (390, 1440)}
    assert faults == {390: [], 1440: []}, WIDTHS
    assert [one["id"] for one in Axe().run(page).response["violations"]] == []
    page.get_by_role("button", name="导入", exact=True).click()
    expect(page.locator("section.proposal", has_text="wanted")).to_be_visible(timeout=WAIT_MS)
    expect(page.get_by_role("button", name="试导入", exact=True)).to_be_enabled(timeout=WAIT_MS)


def test_what_the_registered_source_of_a_list_imports_is_in_force_at_once(
    console: ConsoleProcess, open_page: OpenPage, tmp_path: Path
) -> None:
    page = open_page(log_in=False)
    enter(page, console, "feed", "en")
    tried(page, written(tmp_path, "浙B12345,x", "浙B12346,y"), "daily", "Try")
    assert "2 lines: 2 added" in outcome(page)
    page.get_by_role("button", name="Import", exact=True).click()
    expect(page.locator(".ag-row", has_text="daily").first).to_be_visible(timeout=WAIT_MS)
    shoot(page, console, "list-imported-en")
