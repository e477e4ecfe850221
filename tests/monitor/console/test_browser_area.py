"""An area that is drawn on the map restricts the search, before a browser: it stands in the address."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from console_browser import PATIENCE_MS, ConsoleProcess, OpenPage, shoot
from console_city import register
from playwright.sync_api import Locator, Page, expect

from bus.domain.registered_places import RegisteredPlaces
from bus.domain.searched_area import searched_area

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("console-browser")]
WORDS = {
    "zh": {"open": "区域……", "chosen": "区域（4 个顶点）", "take": "按此区域检索", "undo": "撤销一点", "clear": "取消区域",
           "crosses": "自相交", "count": r"共 ([\d,]+) 条", "plate": "车牌（* 任意，? 一位）"},
    "en": {"open": "Area …", "chosen": "Area (4 corners)", "take": "Search this area", "undo": "One corner back",
           "clear": "No area", "crosses": "crosses or touches itself", "count": r"^([\d,]+) records$",
           "plate": "Plate (* = anything, ? = one)"},
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def patience() -> Iterator[None]:
    """A busy machine answers, later."""
    expect.set_options(timeout=2 * PATIENCE_MS)
    yield
    expect.set_options(timeout=5_000)


def board_of(page: Page) -> Locator:
    board = page.get_by_role("dialog").locator(".city-map")
    expect(board.locator("canvas")).to_be_visible()
    return board


def draw(page: Page, *corners: tuple[float, float]) -> None:
    """A click each, in shares of the map."""
    board = board_of(page)
    expect(board).to_have_class(re.compile("drawing"))  # once the map has the register
    box = board.bounding_box()
    assert box is not None
    for x, y in corners:
        board.click(position={"x": box["width"] * x, "y": box["height"] * y})


def area_in(page: Page) -> str:
    return parse_qs(urlsplit(page.url).query).get("area", [""])[0]


def count_shown(page: Page, words: dict[str, str]) -> int:
    found = page.get_by_text(re.compile(words["count"]))
    expect(found).to_be_visible()
    match = re.search(words["count"], found.inner_text())
    assert match is not None
    return int(match[1].replace(",", ""))


@pytest.mark.parametrize(("language", "width"), [("zh", 1440), ("en", 390)])
def test_records_of_a_drawn_area_are_found_and_the_address_keeps_it(
    open_page: OpenPage, console: ConsoleProcess, language: str, width: int
) -> None:
    """Reload, Back, a second tab; beside a plate; taken away again. What crosses itself cannot be
    taken. axe finds nothing."""
    words = WORDS[language]
    page = open_page(width=width)
    page.request.post(f"{console.url}/auth/preferences", form={"language": language}, max_redirects=0)
    page.goto(console.url + "/records")
    everything = count_shown(page, words)
    page.get_by_role("button", name=words["open"]).click()
    dialog = page.get_by_role("dialog")
    take = dialog.get_by_role("button", name=words["take"])
    draw(page, (0.4, 0.4), (0.6, 0.6), (0.6, 0.4), (0.4, 0.6))
    expect(dialog.locator(".notice", has_text=words["crosses"])).to_be_visible()
    expect(take).to_be_disabled()
    for _ in range(3):
        dialog.get_by_role("button", name=words["undo"]).click()
    draw(page, (0.6, 0.4), (0.6, 0.6), (0.4, 0.6))
    expect(take).to_be_enabled()
    shoot(page, console, f"search-area-drawn-{width}")
    assert Axe().run(page, ".q-dialog").response["violations"] == []
    take.click()
    page.wait_for_url("**/records?*area=*")
    area = area_in(page)
    there = searched_area(area, RegisteredPlaces(register())).checkpoints
    assert 0 < len(there) < 36
    answer = page.request.get(f"{console.url}/api/records", params={"area": area, "limit": "1000"}).json()
    assert {one["checkpoint_id"] for one in answer["rows"]} == there
    expect(page.get_by_role("button", name=words["chosen"])).to_be_visible()
    expect(page.get_by_text(re.compile(words["count"]))).to_contain_text(f"{len(answer['rows']):,}")
    assert len(answer["rows"]) < everything
    shoot(page, console, f"search-area-found-{width}")

    page.reload()
    expect(page.get_by_role("button", name=words["chosen"])).to_be_visible()
    assert count_shown(page, words) == len(answer["rows"])
    tab = page.context.new_page()
    tab.goto(page.url)
    assert count_shown(tab, words) == len(answer["rows"])
    tab.get_by_role("button", name=words["chosen"]).click()
    board_of(tab)
    shoot(tab, console, f"search-area-again-{width}")
    tab.close()
    page.get_by_label(words["plate"]).fill(answer["rows"][0]["plate_number"] or "*7")
    page.keyboard.press("Enter")
    page.wait_for_url("**/records?*plate=*")
    assert area_in(page) == area
    page.go_back()
    page.wait_for_function("!location.search.includes('plate=')")
    page.get_by_role("button", name=words["clear"]).click()
    page.wait_for_function("!location.search.includes('area=')")
    expect(page.get_by_text(re.compile(words["count"]))).to_contain_text(f"{everything:,}")
    page.go_back()
    expect(page.get_by_role("button", name=words["chosen"])).to_be_visible()


def test_an_address_with_no_area_is_told_and_nothing_is_asked(
    open_page: OpenPage, console: ConsoleProcess
) -> None:
    """With the way out beside it."""
    page = open_page()
    page.goto(console.url + "/records?area=120+30,121+30")
    expect(page.get_by_role("alert").filter(has_text="area")).to_be_visible()
    page.get_by_role("button", name="取消区域").click()
    count_shown(page, WORDS["zh"])
