"""Topics in a browser: created, grown, deleted with the name typed again; the product's own are not."""

from __future__ import annotations

import pytest
from console_browser import ConsoleProcess, OpenPage, not_shown, shoot
from playwright.sync_api import Page, expect

from bus.client.kafka.admin import Admin
from bus.settings import BusSettings
from monitor.accounts.one_time_links import issue_one_time_link
from monitor.accounts.roles import AccountRole

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("console-browser"), pytest.mark.timeout(240)]
WAIT_MS = 60_000
ROW = ".ag-center-cols-container .ag-row"


def bus_page(page: Page, console: ConsoleProcess, language: str, role: AccountRole) -> None:
    page.set_default_timeout(WAIT_MS)
    page.goto(issue_one_time_link(console.data_path, base_url=console.url, roles=[role]))
    page.goto(f"{console.url}/bus")
    page.wait_for_selector("h1")
    if language == "en":
        page.get_by_role("button", name="English").click()
        page.wait_for_selector("html[lang=en]")
    expect(page.locator(ROW, has_text="data.vehicle").first).to_be_visible(timeout=WAIT_MS)


def test_a_topic_is_created_grown_and_deleted_and_none_of_the_products_own(
    console: ConsoleProcess, open_page: OpenPage
) -> None:
    """What the brokers refuse is said in words; the log has who did what."""
    page = open_page(log_in=False)
    bus_page(page, console, "zh", AccountRole.OPERATIONS)
    topics, create = page.get_by_label("主题", exact=True), page.get_by_role("button", name="新建主题")
    name = topics.and_(page.locator("input"))
    name.fill("a.reports")
    page.get_by_label("分区", exact=True).fill("2")
    create.click()
    row = page.locator(ROW, has_text="a.reports")
    expect(row).to_be_visible(timeout=WAIT_MS)
    for wrong, says in (("a.reports", "已有同名主题"), ("control.mine", "产品、节点或镜像自身的主题"), ("a b", "名称只能用")):
        name.fill(wrong)
        create.click()
        expect(page.get_by_text(says).first).to_be_visible(timeout=WAIT_MS)
    shoot(page, console, "topics")
    assert {width: not_shown(page, width) for width in (390, 1440)} == {390: [], 1440: []}

    row.locator(".ag-cell").first.click()
    dialog = page.locator(".dialog-card")
    dialog.get_by_label("分区数增至").fill("5")
    dialog.get_by_role("button", name="增加分区").click()
    expect(page.get_by_text("主题 a.reports 已有 5 个分区").first).to_be_visible(timeout=WAIT_MS)
    admin = Admin(BusSettings(bootstrap_servers=console.bootstrap), client_id="check")
    try:
        described = admin.describe_topic("a.reports")
        assert len(described.partitions) == 5
        assert described.configs["retention.ms"] == str(7 * 86_400_000)
        expect(dialog).to_have_count(0, timeout=WAIT_MS)
        row.locator(".ag-cell").first.click()
        delete = dialog.get_by_role("button", name="删除主题")
        expect(delete).to_be_disabled(timeout=WAIT_MS)
        dialog.get_by_label("再次输入主题名称").fill("a.report")
        expect(delete).to_be_disabled(timeout=WAIT_MS)
        dialog.get_by_label("再次输入主题名称").fill("a.reports")
        shoot(page, console, "topic-deletion")
        delete.click()
        expect(page.get_by_text("主题 a.reports 已删除").first).to_be_visible(timeout=WAIT_MS)
        expect(row).to_have_count(0, timeout=WAIT_MS)
        assert "a.reports" not in admin.topic_names()
    finally:
        admin.close()
    page.locator(ROW, has_text="data.vehicle").first.locator(".ag-cell").first.click()
    expect(dialog).to_contain_text("产品、节点或镜像自身的主题", timeout=WAIT_MS)
    expect(dialog.locator("input")).to_have_count(0)
    log = console.log.read_text()
    for said in ("created a.reports", "raised a.reports to 5", "deleted a.reports"):
        assert said in log


def test_who_does_not_run_the_platform_sees_topics_and_no_way_to_change_them(
    console: ConsoleProcess, open_page: OpenPage
) -> None:
    page = open_page(log_in=False)
    bus_page(page, console, "en", AccountRole.OPERATOR)
    expect(page.get_by_role("button", name="Create a topic")).to_have_count(0)
    page.locator(ROW, has_text="data.vehicle").first.locator(".ag-cell").first.click()
    expect(page.locator(".dialog-card")).to_have_count(0)
    other = open_page(log_in=False)
    bus_page(other, console, "en", AccountRole.OPERATIONS)
    expect(other.get_by_role("button", name="Create a topic")).to_be_visible(timeout=WAIT_MS)
    shoot(other, console, "topics-en")
