"""Places of a rule, before a browser: chosen by name, by a click on the map, drawn, shown again."""

from __future__ import annotations

import re

import pytest
from console_browser import ConsoleProcess, OpenPage, shoot
from playwright.sync_api import Page, expect

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("console-browser")]
FIELD = "条件表达式"


def open_places(page: Page) -> None:
    page.get_by_role("button", name="地点……").click()
    expect(page.get_by_role("dialog").locator("canvas")).to_be_visible()


def written(page: Page) -> str:
    return page.get_by_label(FIELD).input_value()


@pytest.mark.parametrize("width", [1440, 390])
def test_places_are_chosen_by_name_and_drawn_and_become_the_text_of_the_rule(
    open_page: OpenPage, console: ConsoleProcess, width: int
) -> None:
    """Both have to hold; what crosses itself cannot be taken; the map shows what was chosen."""
    page = open_page(width=width)
    page.goto(console.url + "/watch")
    open_places(page)
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("名称").click()
    page.get_by_role("option", name="西湖区 Xihu").click()
    dialog.get_by_role("button", name="加入规则", exact=True).click()
    expect(page.get_by_label(FIELD)).to_have_value("in district 西湖区")
    expect(page.get_by_text("位于区域 西湖区")).to_be_visible()
    open_places(page)
    dialog.get_by_text("在地图上画多边形").click()
    take = dialog.get_by_role("button", name="将多边形加入规则")
    board = dialog.locator(".city-map")
    box = board.bounding_box()
    assert box is not None
    across, down = box["width"], box["height"]
    for x, y in ((0.2, 0.2), (0.8, 0.8), (0.8, 0.2), (0.2, 0.8)):
        board.click(position={"x": across * x, "y": down * y})
    expect(dialog.locator(".notice", has_text="自相交")).to_be_visible()
    expect(take).to_be_disabled()
    for _ in range(2):
        dialog.get_by_role("button", name="撤销一点").click()
    board.click(position={"x": across * 0.2, "y": down * 0.8})
    expect(dialog.get_by_text("3 个顶点")).to_be_visible()
    shoot(page, console, f"watch-places-{width}")
    take.click()
    expect(page.get_by_text("位于 3 个顶点的多边形内")).to_be_visible()
    assert re.fullmatch(r"in district 西湖区 and within \(120\.\d+ 30\.\d+(, 120\.\d+ 30\.\d+){2}\)", written(page))
    open_places(page)
    shoot(page, console, f"watch-places-shown-{width}")


def test_a_condition_beside_a_choice_leaves_the_choice_one(
    open_page: OpenPage, console: ConsoleProcess
) -> None:
    """`a or b` and a place are not `a or (b and a place)`."""
    page = open_page()
    page.goto(console.url + "/watch")
    page.get_by_label(FIELD).fill("lane_id = 1 or lane_id = 2")
    open_places(page)
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("类别").click()
    page.get_by_role("option", name="道路").click()
    dialog.get_by_label("名称").click()
    page.get_by_role("option", name="解放路 Jiefang Road", exact=True).click()
    dialog.get_by_role("button", name="加入规则", exact=True).click()
    expect(page.get_by_label(FIELD)).to_have_value("(lane_id = 1 or lane_id = 2) and on road 解放路")


def choose(page: Page, label: str, *options: str) -> None:
    """Out of a list that stays open for several."""
    dialog = page.get_by_role("dialog")
    dialog.get_by_label(label, exact=True).click()
    for option in options:
        page.get_by_role("option", name=option).first.click()
    if len(options) > 1:
        page.keyboard.press("Escape")


def choose_end(page: Page, label: str, number: int) -> None:
    """Of the checkpoints of the road, from west to east."""
    page.get_by_role("dialog").get_by_label(label).click()
    page.get_by_role("option", name="解放路").nth(number).click()


@pytest.mark.parametrize("width", [1440, 390])
def test_a_way_along_a_road_directions_and_lanes_are_chosen(
    open_page: OpenPage, console: ConsoleProcess, width: int
) -> None:
    """From one checkpoint of the road to another, as its pieces lead; one end alone is none."""
    page = open_page(width=width)
    page.goto(console.url + "/watch")
    open_places(page)
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("由（卡口）")).to_be_hidden()
    take = dialog.get_by_role("button", name="加入规则", exact=True)
    take.click()
    expect(dialog.get_by_text("请选择名称、方向或车道")).to_be_visible()
    choose(page, "类别", "道路")
    choose(page, "名称", "解放路 Jiefang Road")
    choose_end(page, "由（卡口）", 5)
    take.click()
    expect(dialog.get_by_text("请同时选择两个不同的卡口")).to_be_visible()
    choose_end(page, "驶往（卡口）", 1)
    take.click()
    expect(dialog.get_by_text("登记表中这条道路没有由前者通往后者的路段")).to_be_visible()
    choose_end(page, "由（卡口）", 0)
    choose_end(page, "驶往（卡口）", 5)
    choose(page, "行驶方向", "东（由西向东）", "东北")
    dialog.get_by_label("车道", exact=True).fill("1，2, 1")
    shoot(page, console, f"watch-way-{width}")
    take.click()
    expect(page.get_by_label(FIELD)).to_have_value(re.compile(
        r"^on road 解放路 from \S+ to \S+ and heading \(east, north-east\) and lane_id in \(1, 2\)$"
    ))  # fmt: skip
    expect(page.get_by_text("在道路 解放路 上由")).to_be_visible()
    expect(page.get_by_text("驶向东（由西向东） / 东北")).to_be_visible()
    open_places(page)
    shoot(page, console, f"watch-way-shown-{width}")


def test_a_rule_of_faces_is_offered_no_direction(open_page: OpenPage, console: ConsoleProcess) -> None:
    """Their records have none."""
    page = open_page()
    page.goto(console.url + "/watch")
    page.get_by_label("类型", exact=True).first.click()
    page.get_by_role("option", name="人脸").click()
    open_places(page)
    expect(page.get_by_role("dialog").get_by_label("名称")).to_be_visible()
    expect(page.get_by_role("dialog").get_by_label("行驶方向")).to_be_hidden()


def test_an_alarm_shows_the_way_to_its_place_on_the_map(
    open_page: OpenPage, console: ConsoleProcess
) -> None:
    page = open_page()
    page.goto(console.url + "/alarms")
    page.locator(".ag-row").first.click()
    page.get_by_role("link", name="在地图上显示").click()
    page.wait_for_url(re.compile("/map.*checkpoint="))
