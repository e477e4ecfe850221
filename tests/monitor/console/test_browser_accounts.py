"""Both pages of accounts in Chromium, wide and on a telephone, in both languages."""

from __future__ import annotations

import pytest
from console_browser import ConsoleProcess, OpenPage, shoot
from playwright.sync_api import Page, expect

from monitor.accounts.roles import AccountRole
from monitor.accounts.store import AccountStore

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("console-browser")]
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
OLD, NEW = "correct horse", "another horse"


def enter(page: Page, console: ConsoleProcess, name: str, language: str) -> None:
    page.goto(f"{console.url}/login?language={language}")
    page.fill("#name", name)
    page.fill("#password", OLD)
    page.click("button[type=submit]")
    page.wait_for_url("**/live")


@pytest.mark.parametrize(("width", "language"), [(1280, "en"), (390, "zh")])
def test_one_changes_his_own_password_and_an_administrator_accounts(
    open_page: OpenPage, console: ConsoleProcess, width: int, language: str
) -> None:
    """Errors stand beside their fields; other sessions are led to the log-in page."""
    store, en = AccountStore(console.data_path), language == "en"
    me, other = f"sun-{width}", f"zhao-{width}"
    store.add(me, OLD, [AccountRole.OPERATIONS])
    page, elsewhere = open_page(log_in=False, width=width), open_page(log_in=False, width=width)
    enter(page, console, me, language)
    enter(elsewhere, console, me, language)

    page.goto(console.url + "/account")
    old, first, again = (page.locator("input[type=password]").nth(i) for i in range(3))
    change = page.get_by_role("button", name="Change" if en else "修改", exact=True)
    old.fill("wrong horse")
    first.fill(NEW)
    again.fill("anything else")
    change.click()
    page.wait_for_selector("text=differ" if en else "text=不一致")
    again.fill(NEW)
    change.click()
    page.wait_for_selector("text=The old password is wrong" if en else "text=原密码不正确")
    shoot(page, console, f"account-{width}")
    assert page.evaluate(OVERFLOW) <= 0
    old.fill(OLD)
    change.click()
    page.wait_for_selector("text=The password is changed" if en else "text=密码已修改")
    elsewhere.wait_for_url("**/login*")

    page.goto(console.url + "/accounts")
    page.locator(".ag-row", has_text=me).first.wait_for()
    page.locator(".account-form input").first.fill(other)
    for field in page.locator(".account-form input[type=password]").all():
        field.fill(OLD)
    add = page.get_by_role("button", name="Add an account" if en else "新增账户", exact=True)
    add.click()
    row = page.locator(".ag-row", has_text=other)
    row.first.wait_for()
    page.wait_for_timeout(600)
    shoot(page, console, f"accounts-{width}")
    assert page.evaluate(OVERFLOW) <= 0
    row.locator(".ag-cell:visible").first.click()
    card = page.locator(".dialog-card")
    card.wait_for()
    page.wait_for_timeout(600)
    shoot(page, console, f"accounts-card-{width}")
    remove = card.get_by_role("button", name="Remove" if en else "删除", exact=True)
    expect(remove).to_be_disabled()
    card.get_by_text("I am sure" if en else "确认删除").click()
    remove.click()
    row.first.wait_for(state="detached")
    page.locator(".ag-row", has_text=me).locator(".ag-cell:visible").first.click()
    expect(card.get_by_role("button")).to_have_count(1)  # one's own can only be closed
