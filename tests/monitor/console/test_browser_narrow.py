"""Every page in Chromium on a telephone: nothing sticks out, the drawer opens, rows are cards."""

from __future__ import annotations

import pytest
from console_browser import PAGES, ConsoleProcess, OpenPage, shoot
from playwright.sync_api import Page

from tests.rotation import drawn

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("console-browser")]
WIDTH = 390
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
OUTSIDE = """
() => [...document.querySelectorAll(
        '.panel, .tile, .q-header button, .bar > *, h1, .nicegui-aggrid, .nicegui-echart, .city-map')]
      .filter(element => element.getClientRects().length)
      .filter(element => { const box = element.getBoundingClientRect();
                           return box.left < -0.5 || box.right > innerWidth + 0.5; })
      .map(element => element.className + ': ' + element.innerText.slice(0, 40))
"""
HIDDEN_DRAWER = ".q-drawer.q-layout--prevent-focus"


def prefer(page: Page, console: ConsoleProcess, language: str, theme: str) -> None:
    """As the switches in the drawer do."""
    for name, value in (("language", language), ("theme", theme)):
        page.request.post(f"{console.url}/auth/preferences", form={name: value}, max_redirects=0)


@pytest.mark.parametrize(
    ("language", "theme"), drawn("narrow pages", [("zh", "dark"), ("en", "light")])
)
@pytest.mark.parametrize("name", drawn("pages of a telephone", [*PAGES, "mirror", "nonsense"], 5))
def test_no_page_is_wider_than_the_screen(
    open_page: OpenPage, console: ConsoleProcess, name: str, language: str, theme: str
) -> None:
    """Neither the page nor a part of it; the drawer is closed, opens, and leads on."""
    page = open_page(width=WIDTH)
    prefer(page, console, language, theme)
    page.goto(f"{console.url}/{name}")
    page.wait_for_selector(f"body.body--{theme} h1")
    page.wait_for_selector(HIDDEN_DRAWER, state="attached")
    if name in ("records", "alarms", "live"):
        page.wait_for_selector(".ag-row .card .pair")
    assert page.evaluate(OVERFLOW) <= 0
    assert page.evaluate(OUTSIDE) == []
    page.wait_for_timeout(600)
    shoot(page, console, f"narrow-{name}-{theme}-{language}")
    page.locator(".menu-button").click()
    page.wait_for_selector(".q-drawer:not(.q-layout--prevent-focus) nav a[href='/system']")
    assert page.evaluate(OVERFLOW) <= 0
    shown = page.locator(".drawer-account .header-button:visible").count()
    assert shown == 3  # theme, language, log out
    page.locator("nav a[href='/system']").click()
    page.wait_for_url("**/system")


def test_a_card_says_what_its_row_says_and_opens_it(open_page: OpenPage, console: ConsoleProcess) -> None:
    """Two tiles a row, cards with names and values; wide again, the same grid has columns."""
    page = open_page(width=WIDTH)
    page.goto(console.url + "/live")
    page.wait_for_selector(".card .pair")
    tops = page.locator(".tile").evaluate_all("tiles => tiles.map(t => t.getBoundingClientRect().top)")
    assert [tops.count(top) for top in dict.fromkeys(tops)] == [2, 2, 2]
    page.goto(console.url + "/records?kind=vehicle")
    card = page.locator(".ag-row .card").first
    text = card.inner_text()
    plate = page.locator(".ag-row .card .pair .strong").first.inner_text()
    assert "车牌" in text
    assert "车辆" in text
    assert page.locator(".ag-header-cell:visible").count() == 0
    card.click()
    page.wait_for_selector(f".detail >> text={plate}")
    assert page.evaluate(OVERFLOW) <= 0
    page.go_back()
    page.wait_for_selector(".detail", state="hidden")
    page.set_viewport_size({"width": 1440, "height": 900})
    page.wait_for_selector(".ag-header-cell:visible")
    page.wait_for_selector(f".ag-row [col-id=plate_number] >> text={plate}")
    assert page.locator(".card").count() == 0


def test_a_target_can_be_taken_off_the_list_on_a_telephone(
    open_page: OpenPage, console: ConsoleProcess
) -> None:
    """The deed stays beside the card."""
    page = open_page(width=WIDTH)
    page.goto(console.url + "/watch")
    page.get_by_label("名称").fill("手机布控")
    page.get_by_label("车牌（* 任意，? 一位，~ 含误识；用逗号分隔）").fill("浙A7T7T7")
    page.get_by_role("button", name="布控", exact=True).click()
    row = page.locator(".ag-row", has_text="手机布控")
    row.locator(".card").wait_for()
    row.locator("[col-id=remove]").click()
    page.locator(".dialog-card").get_by_role("button", name="撤控").click()
    row.wait_for(state="detached")
