"""The life of an alarm before a real browser: a dispatcher decides and stores, two people look."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest
from console_browser import ConsoleProcess, OpenPage, now_ms, shoot
from console_city import alarms, face_alarm, fill_store, incidents
from console_traffic import make_topics, producer, send_events
from playwright.sync_api import Page, expect

from bus.notify.notice_plan import ALARMS_A_MINUTE
from deploy.servers.databus import RunningBroker
from monitor.accounts.one_time_links import issue_one_time_link
from monitor.accounts.roles import AccountRole
from monitor.accounts.store import AccountStore
from tests.running_dispatcher import running_dispatcher

WAIT_MS = 60_000
pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def console(broker: RunningBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleProcess]:
    """With a dispatcher beside it, whose store the console reads."""
    path, started_ms = tmp_path_factory.mktemp("alarms"), now_ms()
    fill_store(path, now_ms=started_ms, records=60)
    make_topics(broker.bootstrap)
    told = [face_alarm(started_ms), *alarms(started_ms)]
    send_events(producer(broker.bootstrap), told, incidents(started_ms))
    accounts = AccountStore(path)
    accounts.add("wang", "only looking", [AccountRole.VIEWER])
    accounts.add("yu", "my own district", [AccountRole.OPERATOR])
    accounts.set_unit("yu", "", ["d0"])
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


# What of the open panel's buttons and links a person does not see whole, or cannot reach by scrolling it down.
CUT_OFF = """
() => {
  const panel = document.querySelector('.q-dialog .detail'), box = panel.getBoundingClientRect(), faults = [];
  if (box.right > innerWidth + 1 || box.left < -1) faults.push(`panel: ${box.left} to ${box.right} of ${innerWidth}`);
  if (panel.scrollWidth > panel.clientWidth) faults.push(`panel is ${panel.scrollWidth} wide, shows ${panel.clientWidth}`);
  for (const one of panel.querySelectorAll('button, a')) {
    const own = one.getBoundingClientRect();
    if (!own.width) continue;
    if (own.right > box.left + panel.clientWidth + 1 || own.left < box.left) faults.push(`${one.innerText}: beside the panel`);
    if (one.scrollWidth > one.clientWidth + 1) faults.push(`${one.innerText}: cut off`);
  }
  for (const line of panel.querySelectorAll('.bar'))
    if (line.scrollHeight > line.clientHeight + 1) faults.push(`a line of ${line.scrollHeight} px is pressed to ${line.clientHeight}`);
  panel.scrollTop = panel.scrollHeight;
  if (box.top > 1 || box.bottom < innerHeight - 1) faults.push(`panel: from ${box.top} to ${box.bottom} of ${innerHeight}`);
  const last = panel.lastElementChild.getBoundingClientRect();
  if (last.bottom > innerHeight + 1) faults.push(`its end lies at ${last.bottom} of ${innerHeight}`);
  return faults;
}
"""


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (1440, 500), (1920, 1080), (390, 844)])
@pytest.mark.parametrize("language", ["zh", "en"])
def test_no_button_of_an_open_alarm_is_cut_off(
    console: ConsoleProcess, open_page: OpenPage, language: str, width: int, height: int
) -> None:
    """What broke: where the panel was longer than the screen, lines of buttons were pressed to one."""
    page = open_page(width=width)
    page.set_viewport_size({"width": width, "height": height})
    page.request.post(f"{console.url}/auth/preferences", form={"language": language}, max_redirects=0)
    for number, alarm in enumerate(alarms(now_ms())[:2]):
        page.goto(f"{console.url}/alarms?alarm={alarm.alarm_id}")
        page.locator(".detail .alarm-ops button").first.wait_for()
        page.locator(".detail a[download]").wait_for()
        page.wait_for_function(
            "() => !document.getAnimations().some(one => one.playState === 'running' && one.effect.getTiming().iterations === 1)"
        )
        shoot(page, console, f"alarm-{language}-{width}x{height}-{number}")
        assert page.evaluate(CUT_OFF) == []
        shoot(page, console, f"alarm-{language}-{width}x{height}-{number}-end")


def test_a_street_of_hits_of_one_rule_is_one_row_that_opens_their_list(
    console: ConsoleProcess, open_page: OpenPage
) -> None:
    """While they come; beyond the limit of a minute. Of a person with districts it has theirs."""
    page, of_district = open_page(), open_page(log_in=False)
    page.goto(f"{console.url}/live")
    of_district.goto(f"{console.url}/login?language=en&next=/live")
    of_district.fill("#name", "yu")
    of_district.fill("#password", "my own district")
    of_district.click("button[type=submit]")
    rows = ".ag-center-cols-container .ag-row"
    for one in (page, of_district):
        expect(one.locator(rows, has_text="浙AWL999").first).to_be_visible(timeout=WAIT_MS)
    first, at_ms = alarms(now_ms())[1], now_ms() // 60_000 * 60_000 - 30_000
    flood = [
        msgspec.structs.replace(
            first, alarm_id=f"flood:{number}", rule_id="flood", rule_name="taxis", raised_at_ms=at_ms + number,
            district_id=f"d{number % 2}",
        )
        for number in range(ALARMS_A_MINUTE + 40)
    ]  # fmt: skip
    send_events(producer(console.bootstrap), flood[:-20])
    expect(page.locator(rows, has_text="+ 20")).to_be_visible(timeout=WAIT_MS)
    send_events(producer(console.bootstrap), flood[-20:])
    expect(page.locator(rows, has_text="+ 40")).to_have_count(1, timeout=WAIT_MS)
    expect(page.locator(rows, has_text="+ 20")).to_have_count(0, timeout=WAIT_MS)
    expect(of_district.locator(rows, has_text="+ 20")).to_have_count(1, timeout=WAIT_MS)
    shoot(page, console, "live-digest")
    shoot(of_district, console, "live-digest-en")
    page.reload()
    digest = page.locator(rows, has_text="+ 40")
    expect(digest).to_be_visible(timeout=WAIT_MS)
    digest.locator(".ag-cell").nth(2).click()
    page.wait_for_url("**/alarms?*rule=flood*", timeout=WAIT_MS)
    expect(page.locator(rows, has_text="taxis").first).to_be_visible(timeout=WAIT_MS)
    shoot(page, console, "alarms-of-a-digest")
    asked = page.evaluate("() => location.search")
    found = page.request.get(f"{console.url}/api/alarms{asked}&limit=500").json()["rows"]
    assert {one["alarm_id"] for one in found} == {one.alarm_id for one in flood}
