"""A rule as a text, before a browser: its error under the field, what was understood, the list."""

from __future__ import annotations

import pytest
from console_browser import ConsoleProcess, OpenPage, shoot
from playwright.sync_api import expect

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("console-browser")]
FIELD = "条件表达式"
GOOD = 'plate_number like "浙A*123" and not vehicle_color in (white, 黑色) and speed_kmh > 80'


@pytest.mark.parametrize("width", [1440, 390])
def test_an_expression_is_typed_understood_put_and_listed(
    open_page: OpenPage, console: ConsoleProcess, width: int
) -> None:
    """The error says at which character, in Chinese; after its repair the words stand there. What the
    list shows came back from the broker; a value may be typed in either language."""
    page, name = open_page(width=width), f"目击车辆 {width}"
    page.goto(console.url + "/watch")
    page.get_by_label(FIELD).fill("plate_number like 浙A*123 and colour = 1")
    expect(page.locator(".notice", has_text="第 30 个字符：此类型的记录没有该特征")).to_be_visible()
    expect(page.get_by_text("perhaps plate_color")).to_be_visible()
    expect(page.get_by_text("可用属性：plate_number")).to_be_visible()
    shoot(page, console, f"watch-expression-fault-{width}")
    page.get_by_label(FIELD).fill(GOOD)
    expect(page.get_by_text("车辆颜色 是 白色 / 白 / 黑色")).to_be_visible()
    expect(page.get_by_text("同时满足：")).to_be_visible()
    expect(page.locator(".notice", has_text="个字符")).to_have_count(0)
    shoot(page, console, f"watch-expression-{width}")
    page.get_by_label("名称").fill(name)
    page.get_by_role("button", name="布控", exact=True).click()
    row = page.locator(".ag-row", has_text=name)
    row.wait_for()
    expect(row).to_contain_text("not vehicle_color in (白色, 白, white, 黑色) and speed_kmh > 80")
    expect(page.get_by_label(FIELD)).to_have_value("")


def test_a_rule_that_no_index_serves_is_warned_of_before_it_is_put(
    open_page: OpenPage, console: ConsoleProcess
) -> None:
    page = open_page()
    page.goto(console.url + "/watch")
    page.get_by_label(FIELD).fill("not vehicle_color = 白色")
    expect(page.locator(".notice", has_text="无法使用索引")).to_be_visible()


def test_what_is_typed_stays_text_and_is_refused_when_it_is_put_wrong(
    open_page: OpenPage, console: ConsoleProcess
) -> None:
    """Signs of HTML are signs; a text with an error is not sent."""
    page = open_page()
    page.goto(console.url + "/watch")
    page.get_by_label(FIELD).fill('vehicle_brand contains "<img src=x onerror=alert(1)>"')
    page.get_by_label("名称").fill("标记")
    page.get_by_role("button", name="布控", exact=True).click()
    row = page.locator(".ag-row", has_text="标记")
    expect(row).to_contain_text("<img src=x onerror=alert(1)>")
    expect(page.locator(".ag-row img")).to_have_count(0)
    page.get_by_label(FIELD).fill("lane_id = 1 and")
    page.get_by_label("名称").fill("不完整")
    page.get_by_role("button", name="布控", exact=True).click()
    expect(page.locator(".q-notification", has_text="此处不能这样写")).to_be_visible()
    expect(page.locator(".ag-row", has_text="不完整")).to_have_count(0)


def test_a_rule_on_a_list_that_is_not_in_force_is_not_put(
    open_page: OpenPage, console: ConsoleProcess
) -> None:
    page = open_page()
    page.goto(console.url + "/watch")
    page.get_by_label(FIELD).fill("plate_number on nothing")
    page.get_by_label("名称").fill("无此名单")
    page.get_by_role("button", name="布控", exact=True).click()
    expect(page.locator(".q-notification", has_text="所引用的名单不在用")).to_be_visible()
    expect(page.locator(".ag-row", has_text="无此名单")).to_have_count(0)
