"""The address of one open page: it follows what the person does; Back and Forward change the page.

`address` reads and writes the values.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from inspect import isawaitable

from nicegui import ui
from nicegui.events import GenericEventArguments

from monitor.console.address import (
    FIELDS,
    SEARCHES,
    PageAddress,
    address_of,
    format_address,
    read_address,
)

Show = Callable[[], Awaitable[object] | object]


class AddressBar:
    """One per page. A change of a value is one step of the browser's history."""

    def __init__(self, page: str, query: str) -> None:
        self._client = ui.context.client
        self._path = f"/{page}"
        self._fields = FIELDS.get(page, ())
        self._now = read_address(self._fields, query)
        self._typing = ""
        self._watching: list[tuple[frozenset[str], Show]] = []
        if self._fields:
            ui.on("address", self._moved)

    def __getitem__(self, name: str) -> str:
        """The value of a field; empty for one that cannot be read or that this page has not."""
        return self._now.value(name)

    def given(self, name: str) -> str:
        """As it stands in the address, whether it can be read or not; for the field itself."""
        return self._now.given.get(name, "")

    @property
    def wrong(self) -> list[str]:
        """The fields that cannot be read; while there is one, a page shows nothing."""
        return [field.name for field in self._fields if field.name in self._now.wrong]

    def watch(self, names: tuple[str, ...], show: Show) -> None:
        """Call `show` whenever one of these values changes."""
        self._watching.append((frozenset(names), show))

    async def go(self, changes: Mapping[str, str], *, typing: str = "") -> bool:
        """The person chose; whether anything is different now. What is typed letter by letter
        (`typing` names its field) is one step, not one per letter.
        """
        wanted = address_of(self._fields, {**self._now.given, **changes})
        if wanted == self._now:
            return False
        replaces = bool(typing) and typing == self._typing
        self._typing = typing
        address = format_address(self._path, self._fields, wanted.given)
        if wanted.wrong and self._path[1:] not in SEARCHES:
            self._client.open(address)  # the page that says so
            return True
        self._client.run_javascript(f"databus.go({json.dumps(address)}, {json.dumps(replaces)})")
        await self._change(wanted)
        return True

    def without_wrong(self) -> str:
        """The same address with only what can be read."""
        sound = {name: self[name] for name in self._now.given if name not in self._now.wrong}
        return format_address(self._path, self._fields, sound)

    async def _moved(self, event: GenericEventArguments) -> None:
        self._typing = ""
        await self._change(read_address(self._fields, str(event.args)))

    async def _change(self, wanted: PageAddress) -> None:
        before, self._now = self._now.given, wanted
        changed = {name for name in wanted.given if wanted.given[name] != before[name]}
        for names, show in self._watching:
            if names & changed:
                await finish(show())


async def finish(result: Awaitable[object] | object) -> None:
    """Wait for what a `Show` has begun, if it is something to wait for."""
    if isawaitable(result):
        await result
