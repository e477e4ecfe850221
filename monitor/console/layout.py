"""The layout of every page: head, header with state and clock, navigation, one `h1`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from html import escape
from pathlib import Path

from fastapi import Request
from nicegui import ui

from monitor.accounts.roles import ConsoleOperation, ConsolePrincipal, authorise
from monitor.api.access import principal_of
from monitor.api.platform import unavailable_parts
from monitor.api.services import ConsoleServices
from monitor.console.address_bar import AddressBar
from monitor.console.live_updates import LiveUpdates, VisibleUpdates
from monitor.console.notices import FaultNotice
from monitor.console.rows import key_words
from monitor.i18n import Texts, texts
from monitor.live.visible_live import VisibleLive

STATIC = Path(__file__).parent / "static"
PAGES: dict[str, str] = {  # key of the page -> icon; the order of the navigation
    "live": "monitor_heart",
    "map": "map",
    "records": "search",
    "faces": "person_search",
    "alarms": "notifications_active",
    "watch": "visibility",
    "proposals": "how_to_reg",
    "lists": "list_alt",
    "cases": "folder_open",
    "register": "place",
    "latency": "timer",
    "quality": "fact_check",
    "bus": "hub",
    "cluster": "lan",
    "metadata": "account_tree",
    "mirror": "sync_alt",
    "system": "dns",
    "accounts": "manage_accounts",
    "questions": "manage_search",
}
NEEDS = {
    "accounts": ConsoleOperation.ACCOUNTS_WRITE,
    "questions": ConsoleOperation.QUESTIONS_READ,
}
"""What a page of the navigation needs that not everybody may; others are not led to it."""
STATUS_SECONDS = 2.0
PRIMARY = "#2b6cb0"
"""Of buttons with a white word on them, which is read on either ground (5.4 to 1)."""
# Groups of words that the browser needs.
_WORDS = (
    "kind",
    "severity",
    "state",
    "reason",
    "incident",
    "connection",
    "grid",
    "list",
    "attribute",
    "viewer",
    "watch",
    "stage",
)
# Not NiceGUI's `value=None`: it asks the browser, and a page that is left at once does not answer.
# In pixels; up to 700 `theme.css` and `console.js` call a screen narrow too.
DRAWER = "show-if-above width=176 breakpoint=700"
_SKELETON_BLOCKS = 6


def _version(name: str) -> str:
    return sha256((STATIC / name).read_bytes()).hexdigest()[:12]


_CSS, *_SCRIPTS = (
    f"/assets/{name}?v={_version(name)}"
    for name in ("theme.css", "console.js", "pictures.js", "alarms.js", "lists.js")
)


@dataclass(frozen=True)
class View:
    """One page that is being built for one person."""

    services: ConsoleServices
    feed: VisibleUpdates
    principal: ConsolePrincipal
    request: Request
    t: Texts
    address: AddressBar

    def may(self, operation: ConsoleOperation) -> bool:
        """Whether this person still may, asked at the moment of the deed."""
        if self.principal.session:
            current = self.services.sessions.by_hash(self.principal.session)
            return current is not None and authorise(current, operation)
        return authorise(self.principal, operation)

    @property
    def live(self) -> VisibleLive:
        """Rules, proposals and alarms as this person may see them."""
        return self.feed.live

    @property
    def only_concerning(self) -> bool:
        """See the function of this name."""
        return only_concerning(self.principal, self.address)

    @property
    def dark(self) -> bool:
        """The theme this person chose."""
        return bool(self.request.session.get("theme", "dark") == "dark")

    @property
    def theme(self) -> str:
        """The same, as `theme.css` calls it."""
        return "dark" if self.dark else "light"


def view_of(services: ConsoleServices, feed: LiveUpdates, request: Request, page: str) -> View:
    """Who asks, in which language, what the address says."""
    language = request.session.get("language", services.site.language)
    address = AddressBar(page, request.url.query)
    principal = principal_of(request)
    visible = feed.seen_by(principal.viewer, lambda: only_concerning(principal, address))
    return View(services, visible, principal, request, texts(language), address)


def only_concerning(principal: ConsolePrincipal, address: AddressBar) -> bool:
    """Whether only alarms are listed that are shown to this person first."""
    return bool(principal.districts) and address["districts"] != "all"


@contextmanager
def page_layout(view: View, page: str) -> Iterator[None]:
    """Everything around a page's content."""
    t = view.t
    ui.page_title(f"{t(f'nav.{page}')} · {t('app.title')}")
    _head(view)
    ui.html(f'<a class="skip" href="#content">{t("shell.skip")}</a>', sanitize=False)
    with ui.header():
        menu = ui.button(icon="menu", color=None).classes("menu-button")
        menu.props(f'flat round dense aria-label="{t("nav.label")}"')
        _header(view, page)
    with ui.left_drawer(value=False).props(DRAWER) as drawer:
        _navigation(view, page)
        with ui.element("div").classes("drawer-account"):
            _account(view, page)
    menu.on_click(drawer.toggle)
    with ui.element("h1").props("id=content tabindex=-1"):
        ui.label(t(f"nav.{page}"))
    _unavailable_notice(view)
    yield


def _head(view: View) -> None:
    t = view.t
    words = {group: t.group(group) for group in _WORDS} | {"value": t.values(), "key": key_words(t)}
    ui.dark_mode(view.dark)
    ui.colors(primary=PRIMARY)
    scripts = "".join(f'<script src="{address}"></script>' for address in _SCRIPTS)
    ui.add_head_html(
        f'<link rel="stylesheet" href="{_CSS}">{scripts}'
        f"<script>window.databusTexts = {_script_json(words)};"
        f"document.documentElement.dataset.theme = {_script_json(view.theme)};</script>"
    )
    _skeleton(view)
    # After Quasar, which writes the language of the whole application there.
    ui.run_javascript(f"document.documentElement.lang = {_script_json(t.html_language)}")


def _skeleton(view: View) -> None:
    """The shape of a page from the first byte until the scripts have drawn it (`theme.css` hides
    it then).
    """
    t = view.t
    ui.add_body_html(
        f'<div id="skeleton" role="status" data-theme="{view.theme}">'
        f'<div class="skeleton-head">{escape(t("app.title"))}</div>'
        f'<div class="skeleton-body"><span class="soft">{escape(t("shell.loading"))}</span>'
        + "<div></div>" * _SKELETON_BLOCKS
        + "</div></div>"
    )


def _script_json(value: object) -> str:
    """JSON that may stand inside a script element."""
    return json.dumps(value, ensure_ascii=False).replace("<", "\\u003c")


def _header(view: View, page: str) -> None:
    t = view.t
    ui.label(t("app.title")).classes("brand")
    ui.label(view.services.site.name).classes("site")
    ui.element("div").classes("grow")
    _dependency_status(view)
    ui.html('<span id="clock"></span>', sanitize=False).classes("clock")
    ui.run_javascript(f"databus.startClock('clock', {json.dumps(view.services.site.zone)})")
    _account(view, page)


def _account(view: View, page: str) -> None:
    """Theme, language, who is logged in; in the header, on a narrow screen in the drawer."""
    t = view.t
    theme = "light" if view.dark else "dark"
    _post_button("/auth/preferences", t(f"shell.theme_{theme}"), theme=theme, next=f"/{page}")
    _post_button("/auth/preferences", t("language.other"), language=t.other, next=f"/{page}")
    who = ui.link(view.principal.name, "/account").classes("who")
    who.props(f'aria-label="{t("nav.account")}"')
    _post_button("/auth/logout", t("shell.logout"))


def _post_button(action: str, text: str, **fields: str) -> None:
    """A form of its own: cookies change only over HTTP, and a GET must not change anything."""
    with ui.element("form").classes("header-form").props(f"method=post action={action}"):
        for name, value in fields.items():
            ui.element("input").props(f'type=hidden name={name} value="{value}"')
        with ui.element("button").classes("header-button").props("type=submit"):
            ui.label(text)


def _navigation(view: View, page: str) -> None:
    t = view.t
    with ui.element("nav").classes("pages").props(f'aria-label="{t("nav.label")}"'):
        for key, icon in PAGES.items():
            if key in NEEDS and not authorise(view.principal, NEEDS[key]):
                continue
            current = " aria-current=page" if key == page else ""
            with ui.element("a").props(f"href=/{key}{current}"):
                ui.icon(icon).props("aria-hidden=true")
                ui.label(t(f"nav.{key}"))
                if key == "proposals" and authorise(view.principal, ConsoleOperation.WATCH_READ):
                    _waiting_badge(view)


def _waiting_badge(view: View) -> None:
    """How many proposals wait, of rules and of lists, as the page shows them; not there while none
    does."""
    badge = ui.label().classes("badge").props("role=status")

    def show() -> None:
        count = len(view.live.waiting()) + view.services.waiting_lists.count
        badge.set_text(str(count))
        badge.props(f'aria-label="{view.t("proposals.waits", count=count)}"')
        badge.set_visibility(bool(count))

    show()
    ui.timer(STATUS_SECONDS, show)


def _dependency_status(view: View) -> None:
    """One mark per part this console depends on; dot or triangle, so not colour alone."""
    marks = {
        part: ui.label(view.t(f"shell.{part}")).classes("reach")
        for part in unavailable_parts(view.services)
    }
    drawn: dict[str, str | None] = dict.fromkeys(marks)

    def show() -> None:
        for part, why in unavailable_parts(view.services).items():
            if why != drawn[part]:
                drawn[part] = why
                _mark(view.t, part, marks[part], bool(why))

    show()
    ui.timer(STATUS_SECONDS, show)


def _mark(t: Texts, part: str, mark: ui.label, gone: bool) -> None:
    state = t("shell.away") if gone else t("shell.reachable")
    mark.classes(add="away" if gone else "", remove="" if gone else "away")
    mark.props(f'title="{state}" aria-label="{t(f"shell.{part}")} {state}"')


def _unavailable_notice(view: View) -> None:
    """A sentence above the page while a dependency is unavailable."""
    notice = FaultNotice()

    def show() -> None:
        away = {part: why for part, why in unavailable_parts(view.services).items() if why}
        parts = [view.t("shell.away_now", part=view.t(f"shell.{part}")) for part in away]
        notice.show("  ".join(parts), "  ".join(f"{part}: {why}" for part, why in away.items()))

    show()
    ui.timer(STATUS_SECONDS, show)
