"""The address of a page in Chromium: reload, a copied link, Back."""

from __future__ import annotations

import re
from urllib.parse import quote

import pytest
from console_browser import ConsoleProcess, OpenPage
from console_city import register
from playwright.sync_api import Page, expect

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("console-browser")]
ROW = ".ag-center-cols-container .ag-row"
CROSSING = register().checkpoints[7]


def only_shown(page: Page, column: str, word: str) -> None:
    """Waits until every row on the screen has this word there; rows that still load have none."""
    page.wait_for_function(
        """([column, word]) => {
             const cells = [...document.querySelectorAll(`.ag-row [col-id=${column}]`)];
             return cells.length && cells.every(cell => cell.innerText === word); }""",
        arg=[column, word],
    )


def test_search_and_open_record_outlive_a_reload_and_travel_as_a_link(
    open_page: OpenPage, console: ConsoleProcess
) -> None:
    """A second person opens the copied address, logs in, and sees the same."""
    page = open_page()
    page.goto(console.url + "/records")
    page.wait_for_selector(ROW)
    page.get_by_label("类型", exact=True).click()
    page.locator(".q-menu").get_by_text("人脸", exact=True).click()
    page.get_by_role("button", name="检索").click()
    page.wait_for_url("**/records?kind=face")
    only_shown(page, "kind", "人脸")
    page.locator(ROW).first.locator("[col-id=captured_at]").click()
    page.wait_for_selector(".detail pre")
    shown = page.locator(".detail pre").inner_text()
    assert re.search(r"/records\?kind=face&record=r-\d+$", page.url)

    page.reload()
    page.wait_for_selector(".detail pre")
    assert page.locator(".detail pre").inner_text() == shown
    only_shown(page, "kind", "人脸")

    other = open_page(log_in=False)
    other.goto(page.url)
    other.click("text=English")  # the way through the log-in page keeps it in either language
    other.wait_for_selector("text=Log in")
    other.fill("#name", "wang")
    other.fill("#password", "only looking")
    other.click("button[type=submit]")
    other.wait_for_selector(".detail pre")
    assert other.url == page.url
    assert other.locator(".detail pre").inner_text() == shown
    only_shown(other, "kind", "Face")


def test_back_leaves_the_record_then_the_search_and_then_the_page(
    open_page: OpenPage, console: ConsoleProcess
) -> None:
    """Step by step, without a reload; Forward leads the same way again."""
    page = open_page()
    page.goto(console.url + "/latency")
    page.goto(console.url + "/alarms")
    page.wait_for_selector(f"{ROW}:has-text('浙AWL999')")
    page.evaluate("window.marked = true")
    page.get_by_label("车牌（* 任意，? 一位）").fill("浙A88K66")
    page.keyboard.press("Enter")
    page.wait_for_url("**/alarms?plate=*")
    only_shown(page, "plate_number", "浙A88K66")
    page.locator(ROW).first.locator("[col-id=raised_at]").click()
    page.wait_for_selector(".detail >> text=告警详情")
    page.get_by_role("button", name="查看记录").click()
    page.wait_for_selector(".detail >> text=记录详情")

    page.go_back()
    page.wait_for_selector(".detail >> text=告警详情")
    page.go_back()
    page.wait_for_selector(".detail", state="hidden")
    assert "alarm=" not in page.url
    page.go_back()
    page.wait_for_selector(f"{ROW}:has-text('浙AWL999')")
    assert page.get_by_label("车牌（* 任意，? 一位）").input_value() == ""
    assert page.url == console.url + "/alarms"
    page.go_forward()
    expect(page.get_by_label("车牌（* 任意，? 一位）")).to_have_value("浙A88K66")
    only_shown(page, "plate_number", "浙A88K66")
    assert page.evaluate("window.marked")
    page.go_back()
    page.go_back()
    page.wait_for_url("**/latency")


def test_a_record_that_is_closed_leaves_the_address(open_page: OpenPage, console: ConsoleProcess) -> None:
    """By its button; a rejected record as well."""
    page = open_page()
    page.goto(console.url + "/quality?span=day&reason=bad-time")
    page.wait_for_selector(f"{ROW} >> text=昨天")
    page.locator(f"{ROW}:has-text('昨天')").first.locator("[col-id=body]").click()
    page.wait_for_selector(".detail pre >> text=昨天")
    assert re.search(r"reason=bad-time&rejected=x-\d+$", page.url)
    page.reload()
    page.wait_for_selector(".detail pre >> text=昨天")
    page.get_by_role("button", name="关闭").click()
    page.wait_for_url("**/quality?span=day&reason=bad-time")
    page.wait_for_selector(".detail", state="hidden")


def test_language_and_theme_keep_what_is_shown(open_page: OpenPage, console: ConsoleProcess) -> None:
    """The switches lead back to the address of the moment, not to that of the page's begin."""
    page = open_page()
    page.goto(console.url + "/metadata")
    page.fill("input[placeholder]", "data.vehicle")
    page.wait_for_url("**/metadata?find=data.vehicle")
    page.click("button:has-text('English')")
    page.wait_for_selector("h1 >> text=Metadata")
    page.wait_for_url("**/metadata?find=data.vehicle")
    assert page.locator("input[placeholder]").input_value() == "data.vehicle"


def test_a_checkpoint_on_the_map_leads_to_its_records(open_page: OpenPage, console: ConsoleProcess) -> None:
    """The chosen checkpoint is in the map's address; its records are one click away."""
    page = open_page()
    page.goto(console.url + "/map")
    page.locator(f"{ROW}:has-text('{CROSSING.name}')").first.click()
    page.wait_for_url(f"**/map?checkpoint={quote(CROSSING.checkpoint_id, safe='')}")
    page.reload()
    page.wait_for_selector(f".chosen >> text={CROSSING.name}")
    page.wait_for_selector(f".leaflet-tooltip >> text={CROSSING.name}")
    page.locator(".chosen").get_by_text("记录检索", exact=True).click()
    page.wait_for_url(f"**/records?checkpoint={quote(CROSSING.checkpoint_id, safe='')}")
    only_shown(page, "checkpoint", CROSSING.name)


def own_tracebacks(log: str) -> list[str]:
    """Those that pass through our code. NiceGUI writes some of its own where a page is closed while
    it is being taken down (a client that is deleted twice)."""
    return [one for one in log.split("Traceback (most recent call last):")[1:] if "/monitor/" in one]


@pytest.mark.parametrize("name", ["records", "alarms", "latency", "quality", "map", "metadata"])
def test_an_address_that_is_broken_throughout_says_so(
    open_page: OpenPage, console: ConsoleProcess, name: str
) -> None:
    """No error in the browser (the fixture looks), none on the server, and no data."""
    page = open_page()
    broken = "kind=bicycle&span=x&scope=%ff&day=yesterday&from=%00&until=9&checkpoint=%0d%0a&find=%01&record=%00"
    answered = page.goto(f"{console.url}/{name}?{broken}")
    assert answered is not None
    assert answered.status == 200
    page.wait_for_selector("[role=alert]:has-text('不显示任何数据')")
    assert page.locator(".detail:visible").count() == 0
    assert own_tracebacks(console.log.read_text()) == []
