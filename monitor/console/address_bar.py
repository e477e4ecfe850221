"""The address of one open page: it follows what the person does; Back and Forward change the page.

`address` reads and writes the values.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable, Mapping

from nicegui import ui
from nicegui.events import GenericEventArguments

from monitor.console.address import FIELDS, format_address, read_address, valid_values

Show = Callable[[], Awaitable[object] | object]


class AddressBar:
    """One per page. A change of a value is one step of the browser's history."""

    def __init__(self, page: str, query: str) -> None:
        self._client = ui.context.client
        self._path = f"/{page}"
        self._fields = FIELDS.get(page, ())
        self._values = read_address(self._fields, query)
        self._typing = ""
        self._watching: list[tuple[frozenset[str], Show]] = []
        if self._fields:
            ui.on("address", self._moved)

    def __getitem__(self, name: str) -> str:
        """The value of a field; empty for one that this page does not have."""
        return self._values.get(name, "")

    def watch(self, names: tuple[str, ...], show: Show) -> None:
        """Call `show` whenever one of these values changes."""
        self._watching.append((frozenset(names), show))

    async def go(self, changes: Mapping[str, str], *, typing: str = "") -> bool:
        """The person chose; whether anything is different now. What is typed letter by letter
        (`typing` names its field) is one step, not one per letter.
        """
        wanted = valid_values(self._fields, self._values | dict(changes))
        if wanted == self._values:
            return False
        replaces = bool(typing) and typing == self._typing
        self._typing = typing
        address = json.dumps(format_address(self._path, self._fields, wanted))
        self._client.run_javascript(f"databus.go({address}, {json.dumps(replaces)})")
        await self._change(wanted)
        return True

    async def _moved(self, event: GenericEventArguments) -> None:
        self._typing = ""
        await self._change(read_address(self._fields, str(event.args)))

    async def _change(self, wanted: dict[str, str]) -> None:
        changed = {name for name in wanted if wanted[name] != self._values[name]}
        self._values = wanted
        for names, show in self._watching:
            if names & changed:
                result = show()
                if inspect.isawaitable(result):
                    await result
