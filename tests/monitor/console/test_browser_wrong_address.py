"""Every field of every page's address in Chromium: what cannot be read is named, nothing is shown."""

from __future__ import annotations

from urllib.parse import urlencode

import pytest
from console_browser import ConsoleProcess, OpenPage, shoot
from playwright.sync_api import expect

from monitor.console.address import FIELDS

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("console-browser")]
ROWS = ".ag-center-cols-container .ag-row, .card, canvas, .detail"
JUNK = ("junk", "9999-12-31 23:59", "x" * 300)


@pytest.mark.parametrize("name", sorted(FIELDS))
def test_a_field_that_cannot_be_read_is_named_and_nothing_is_shown(
    open_page: OpenPage, console: ConsoleProcess, name: str
) -> None:
    """`from=junk` showed everything, as if nobody had asked for less."""
    page = open_page()
    for field in FIELDS[name]:
        junk = next(one for one in JUNK if not field.valid(one))
        page.goto(f"{console.url}/{name}?{urlencode({field.name: junk})}")
        alert = page.locator("[role=alert]", has_text="不显示任何数据")
        expect(alert).to_be_visible()
        expect(page.locator("main, .q-page")).to_contain_text(f"{field.name}：无法识别")
        page.wait_for_load_state("networkidle")
        assert page.locator(ROWS).count() == 0, field.name
    shoot(page, console, f"wrong-{name}")


def test_a_typed_bound_that_cannot_be_read_has_its_error_beside_it_until_it_is_mended(
    open_page: OpenPage, console: ConsoleProcess
) -> None:
    """Typed, in a reload, and taken back again."""
    page = open_page()
    page.goto(console.url + "/records?kind=nokind")
    field = page.locator(".q-field", has_text="类型").first
    expect(field).to_contain_text("无法识别")
    page.goto(console.url + "/records")
    page.wait_for_selector(".ag-row [col-id=kind]")
    since = page.get_by_label("起", exact=True)
    since.fill("junk")
    since.press("Enter")
    page.wait_for_url("**/records?from=junk")
    expect(page.locator(".q-field--error")).to_have_count(1)
    expect(page.locator(ROWS)).to_have_count(0)
    shoot(page, console, "wrong-typed")
    page.reload()
    expect(page.locator(".q-field--error")).to_have_count(1)
    expect(page.get_by_label("起", exact=True)).to_have_value("junk")
    expect(page.locator(ROWS)).to_have_count(0)
    page.get_by_role("button", name="清空").click()
    page.wait_for_selector(".ag-row [col-id=kind]")
    expect(page.locator(".q-field--error")).to_have_count(0)
