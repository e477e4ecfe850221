"""A rule as a text, before a browser: its error under the field, what was understood, the list."""

from __future__ import annotations

import re

import pytest
from console_browser import PATIENCE_MS, ConsoleProcess, OpenPage, shoot
from playwright.sync_api import expect

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("console-browser")]
FIELD = "条件表达式"
EXAMPLES = {
    "zh": {"plates": "用逗号分隔", "where": FIELD, "shown": [
        re.compile("形如 \\*345：京A28345"), re.compile("浙A8D345 的误识：.*浙A80345"),
        re.compile("包含 Y1234：京AY1234"), re.compile("名单“stolen”.*0DOQU"),
    ]},
    "en": {"plates": "misread, too; commas", "where": "Expression", "shown": [
        re.compile("like \\*345: 京A28345"), re.compile("misreadings of 浙A8D345: .*浙A80345"),
        re.compile("containing Y1234: 京AY1234"), re.compile("the list “stolen” is as tolerant .*0DOQU"),
    ]},
}  # fmt: skip
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


@pytest.mark.parametrize(("language", "width"), [("zh", 390), ("en", 1440)])
def test_what_a_rule_accepts_is_shown_as_examples_while_it_is_typed(
    open_page: OpenPage, console: ConsoleProcess, language: str, width: int
) -> None:
    """Of a plate that may be misread, of a pattern, a part and a list; none where only whole plates are asked for."""
    page = open_page(width=width)
    page.goto(console.url + "/watch")
    if language == "en":
        page.click("button:has-text('English')")
        page.wait_for_selector("h1 >> text=Watch list")
    words = EXAMPLES[language]
    examples = page.locator("[data-area=accepted] li")
    page.get_by_label(words["plates"]).fill("~浙A8D345 *345 沪B00001")
    page.get_by_label(words["where"]).fill("plate_number contains Y1234 or plate_number on stolen")
    expect(examples).to_have_text(words["shown"], timeout=PATIENCE_MS)
    examples.first.scroll_into_view_if_needed()
    shoot(page, console, f"watch-examples-{language}-{width}")
    page.get_by_label(words["where"]).fill("")
    page.get_by_label(words["plates"]).fill("沪B00001")
    expect(examples).to_have_count(0, timeout=PATIENCE_MS)


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
