"""Lists of plates in a browser: which are in force, their lines, and whether they mean a plate."""

from __future__ import annotations

import pytest
from console_browser import ConsoleProcess, OpenPage, shoot
from playwright.sync_api import expect

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("console-browser")]


@pytest.mark.parametrize("width", [1440, 390])
def test_a_list_is_opened_and_asked_for_a_plate(
    open_page: OpenPage, console: ConsoleProcess, width: int
) -> None:
    """By a click and by its address; a reading with a look-alike is meant by the list's tolerance. Of
    a gallery the faces are shown, and one is found by its entry."""
    page = open_page(width=width)
    page.goto(f"{console.url}/lists")
    page.locator(".ag-row", has_text="stolen").locator(".ag-cell").first.click()
    expect(page).to_have_url(f"{console.url}/lists?list=stolen")
    lines = page.locator("section.panel").last
    expect(lines.locator(".ag-row", has_text="浙S00003")).to_be_visible()
    expect(lines).to_contain_text("形近字符视为相同")
    shoot(page, console, f"lists-{width}")

    lines.get_by_label("在名单中查找车牌").fill("浙 s·0D007")
    row = lines.locator(".ag-center-cols-container .ag-row")
    expect(row).to_have_count(1)
    expect(row).to_contain_text("浙S00007")
    page.reload()
    expect(row).to_have_count(1)
    expect(row).to_contain_text("note 9")

    page.goto(f"{console.url}/lists?list=wanted")
    expect(lines.locator(".ag-row", has_text="P13")).to_be_visible()
    expect(lines).to_contain_text("city-face-128/1，阈值 0.6")
    shoot(page, console, f"lists-faces-{width}")
    lines.get_by_label("在人脸库中查找编号").fill("P77")
    expect(row).to_have_count(1)
    expect(row).to_contain_text("note 79")

    page.goto(f"{console.url}/lists?list=nothing")
    expect(page.get_by_text("名单 nothing 不在用")).to_be_visible()
