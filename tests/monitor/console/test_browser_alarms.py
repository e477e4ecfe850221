"""The life of an alarm before a real browser: a dispatcher decides and stores, two people look."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest
from console_browser import ConsoleProcess, OpenPage, now_ms, shoot
from console_city import alarms, face_alarm, fill_store, incidents
from console_traffic import make_topics, producer, send_events
from playwright.sync_api import Page, expect

from deploy.servers.databus import RunningBroker
from monitor.accounts.one_time_links import issue_one_time_link
from monitor.accounts.roles import AccountRole
from monitor.accounts.store import AccountStore
from tests.running_dispatcher import running_dispatcher

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def console(broker: RunningBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleProcess]:
    """With a dispatcher beside it, whose store the console reads."""
    path, started_ms = tmp_path_factory.mktemp("alarms"), now_ms()
    fill_store(path, now_ms=started_ms, records=60)
    make_topics(broker.bootstrap)
    told = [face_alarm(started_ms), *alarms(started_ms)]
    send_events(producer(broker.bootstrap), told, incidents(started_ms))
    AccountStore(path).add("wang", "only looking", [AccountRole.VIEWER])
    with running_dispatcher(broker.bootstrap, path, alarms=31):
        made = ConsoleProcess(path, broker.bootstrap, started_ms)
        yield made
        made.stop()


def alarms_page(open_page: OpenPage, console: ConsoleProcess, query: str = "") -> Page:
    page = open_page()
    page.goto(f"{console.url}/alarms{query}")
    expect(page.locator(".ag-center-cols-container .ag-row").first).to_be_visible()
    expect(page.locator("body[data-alarm-keys=on]")).to_be_attached()
    return page


def opened(page: Page) -> str:
    """The alarm in the address."""
    return str(page.evaluate("() => new URLSearchParams(location.search).get('alarm') || ''"))


def test_an_alarm_of_a_misread_plate_says_which_one_is_meant(
    console: ConsoleProcess, open_page: OpenPage
) -> None:
    misread = next(one for one in alarms(now_ms()) if one.misread)
    page = alarms_page(open_page, console, f"?alarm={misread.alarm_id}")
    text = "识别为 浙B12345，目标为 浙B1Z345，代价 0.51（上限 1.00）"
    expect(page.locator(".detail").get_by_text(text)).to_be_visible()
    shoot(page, console, "alarm-misread")


def test_an_alarm_of_a_gallery_names_the_face_and_how_much_it_resembles_it(
    console: ConsoleProcess, open_page: OpenPage
) -> None:
    page = alarms_page(open_page, console, "?alarm=list/wanted:a-face")
    detail = page.locator(".detail")
    for fact in ("在逃人员 (wanted)", "P7", "0.873（阈值 0.6，模型 city-face-128/1，余弦）", "case 7"):
        expect(detail.get_by_text(fact, exact=True)).to_be_visible()
    expect(detail).to_contain_text("该名单逾期未更新")
    shoot(page, console, "alarm-face")


def test_an_operator_works_from_alarm_to_alarm_with_the_keyboard_alone(
    console: ConsoleProcess, open_page: OpenPage
) -> None:
    """j opens the newest, t takes it, c confirms it; j goes on, f asks why it is false, Enter says
    it; k goes back. The history says who did what."""
    page = alarms_page(open_page, console)
    page.keyboard.press("j")
    page.wait_for_function("() => new URLSearchParams(location.search).get('alarm')")
    first, life = opened(page), page.locator(".alarm-life")
    expect(life).to_be_visible()
    expect(life.locator("[data-op=take]")).to_be_visible()
    expect(life.locator("[data-op=confirm]")).to_have_count(0)
    page.keyboard.press("t")
    expect(life.locator("[data-op=confirm]")).to_be_visible()
    page.keyboard.press("c")
    expect(life.locator("[data-op=close]")).to_be_visible()
    expect(life.locator("li")).to_have_count(2)
    shoot(page, console, "alarm-confirmed")
    page.keyboard.press("j")
    page.wait_for_function("first => new URLSearchParams(location.search).get('alarm') !== first", arg=first)
    second = opened(page)
    expect(life.locator("[data-op=take]")).to_be_visible()
    page.keyboard.press("t")
    expect(life.locator("[data-op=false]")).to_be_visible()
    page.keyboard.press("f")
    dialog = page.locator(".alarm-dialog")
    expect(dialog).to_be_visible()
    shoot(page, console, "alarm-false")
    dialog.locator("input").last.fill("tff jck")  # letters that are keys elsewhere
    page.keyboard.press("Enter")
    expect(dialog).to_have_count(0)
    shoot(page, console, "alarm-false-said")
    expect(life.locator("li")).to_have_count(2)
    expect(life.locator("li").last).to_contain_text("tff jck")
    assert opened(page) == second
    page.keyboard.press("k")
    page.wait_for_function("first => new URLSearchParams(location.search).get('alarm') === first", arg=first)
    expect(life.locator("li")).to_have_count(2)
    page.reload()
    expect(page.locator(".alarm-life li")).to_have_count(2)


def test_of_two_desks_the_second_sees_at_once_who_has_the_alarm(
    console: ConsoleProcess, open_page: OpenPage
) -> None:
    """Without a click: its buttons and the list follow; a viewer has none."""
    one, other = alarms_page(open_page, console, "?stage=open"), alarms_page(open_page, console)
    one.keyboard.press("j")
    one.wait_for_function("() => new URLSearchParams(location.search).get('alarm')")
    expect(one.locator("[data-op=take]")).to_be_visible()
    other.goto(one.url)
    expect(other.locator("[data-op=take]")).to_be_visible()
    one.locator("[data-op=take]").click()
    expect(other.locator("[data-op=confirm]")).to_be_visible()
    expect(other.locator("[data-op=take]")).to_have_count(0)
    viewer = open_page(log_in=False)
    viewer.goto(issue_one_time_link(console.data_path, base_url=console.url, roles=[AccountRole.VIEWER]))
    viewer.goto(one.url)
    expect(viewer.locator(".alarm-life li")).to_have_count(1)
    expect(viewer.locator("[data-op]")).to_have_count(0)


def test_filters_and_groups_stand_in_the_address(console: ConsoleProcess, open_page: OpenPage) -> None:
    """Mine, since my shift, while I was away, by target: each can be reloaded."""
    page = alarms_page(open_page, console)
    page.locator("[data-filter=shift]").click()
    page.wait_for_function("() => location.search.includes('changed=')")
    page.locator("[data-filter=all_time]").click()
    page.wait_for_function("() => !location.search.includes('changed=')")
    page.evaluate("() => localStorage.setItem('databus.away', String(Date.now() - 7200000))")
    page.locator("[data-filter=away]").click()
    page.wait_for_function("() => location.search.includes('changed=')")
    page.locator("[data-filter=all_time]").click()
    page.goto(f"{console.url}/alarms?group=target")
    groups = page.locator(".nicegui-aggrid:visible .ag-center-cols-container .ag-row")
    expect(groups).to_have_count(4)
    shoot(page, console, "alarms-by-target")
    groups.first.locator(".ag-cell").nth(1).click()
    page.wait_for_function("() => location.search.includes('rule=') && !location.search.includes('group')")
    page.locator("[data-filter=mine]").click()
    page.wait_for_function("() => location.search.includes('stage=unfinished') && location.search.includes('owner=')")
    shoot(page, console, "alarms-mine")


def test_sound_and_desktop_notice_are_off_until_somebody_turns_them_on(
    console: ConsoleProcess, open_page: OpenPage
) -> None:
    """Each browser for itself; a new alarm is told once."""
    page = alarms_page(open_page, console)
    page.context.grant_permissions(["notifications"], origin=console.url)
    assert page.evaluate("() => databusAlarms.state()") == {"sound": False, "notice": False}
    page.evaluate(
        "() => { window.shown = []; window.Notification = class { constructor(text) { shown.push(text); }"
        " static permission = 'granted'; static requestPermission = async () => 'granted'; }; }"
    )
    buttons = page.locator("button[aria-pressed]")
    for number in (0, 1):
        buttons.nth(number).click()
        expect(buttons.nth(number)).to_have_attribute("aria-pressed", "true")
    assert page.evaluate("() => databusAlarms.state()") == {"sound": True, "notice": True}
    other = alarms(now_ms())[1]
    send_events(
        producer(console.bootstrap),
        [msgspec.structs.replace(other, alarm_id="w-stolen:new", raised_at_ms=now_ms())], [],
    )  # fmt: skip
    page.wait_for_function("() => window.shown.length === 1")
    assert "浙AWL999" in page.evaluate("() => window.shown[0]")
