"""To which of two sites the edge sends, and whether it is on its way to the other one.

In: orders (a command's file, the second site's own thread). Out: the bus of each site. The state
survives a restart; a move that was begun goes on. Never: a move nobody ordered.
"""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Literal

import msgspec

from bus.files.durable_file import replace_durably
from bus.settings import BusSettings

log = logging.getLogger(__name__)

Site = Literal["home", "second"]
HOME: Site = "home"
SECOND: Site = "second"
_STATE, _ORDER = "site.json", "site-order.json"


class RouteState(msgspec.Struct, kw_only=True):
    """`site.json`. `cluster_ids` of the sites whose brokers have answered once."""

    active: Site = HOME
    moving_to: Site | None = None
    moves: int = 0
    moved_at_ms: int = 0
    cluster_ids: dict[str, str] = {}


class SiteOrder(msgspec.Struct, kw_only=True):
    """`site-order.json`: what `databus edge move` wants."""

    to: Site


class SiteRoute:
    """Invariant: `_state` is what the file says. Any thread."""

    def __init__(self, folder: Path, home: BusSettings, second: BusSettings | None) -> None:
        """Without a second site everything goes home, whatever the file of earlier times says."""
        self.folder = folder
        self._buses = {HOME: home, SECOND: second or home}
        self.has_second = second is not None
        self._lock = threading.Lock()
        folder.mkdir(parents=True, exist_ok=True)
        self._state = read_route(folder) if self.has_second else RouteState()

    @property
    def active(self) -> Site:
        """Where records go."""
        return self._state.active

    @property
    def other(self) -> Site:
        """The site that keeps a copy."""
        return SECOND if self._state.active == HOME else HOME

    @property
    def moving_to(self) -> Site | None:
        """Where a move goes that is not complete."""
        return self._state.moving_to

    @property
    def state(self) -> RouteState:
        """A copy."""
        with self._lock:
            return msgspec.structs.replace(self._state)

    def bus(self, site: Site) -> BusSettings:
        """How a site's brokers are reached."""
        return self._buses[site]

    def cluster_id(self, site: Site) -> str:
        """Empty as long as its brokers have never answered."""
        return self._state.cluster_ids.get(site, "")

    def on_cluster_id(self, site: Site, cluster_id: str) -> None:
        """A site's brokers have answered."""
        if self.cluster_id(site) != cluster_id:
            known = {**self._state.cluster_ids, site: cluster_id}
            self._change(cluster_ids=known)

    def order(self, to: Site, why: str) -> None:
        """Send to that site from now on; one that is sent to already ends a move away from it."""
        if not self.has_second:
            return
        wanted = None if to == self.active else to
        if wanted != self.moving_to:
            log.warning("the edge moves to the site %s: %s", to, why)
            self._change(moving_to=wanted)

    def complete(self, at_ms: int) -> None:
        """The site that is moved to has everything that the other had and it had not."""
        moving_to = self.moving_to
        if moving_to is not None:
            self._change(
                active=moving_to, moving_to=None, moves=self._state.moves + 1, moved_at_ms=at_ms
            )

    def read_order(self) -> None:
        """Take an order of the command, once."""
        path = self.folder / _ORDER
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return
        try:
            order = msgspec.json.decode(data, type=SiteOrder)
        except (msgspec.DecodeError, ValueError) as error:
            log.error("%s is no order: %s", path, error)
        else:
            self.order(order.to, "a person said so")
        path.unlink(missing_ok=True)

    def _change(self, **changes: object) -> None:
        with self._lock:
            state = msgspec.structs.replace(self._state, **changes)
            replace_durably(self.folder / _STATE, msgspec.json.encode(state))
            self._state = state


def write_order(folder: Path, to: Site) -> None:
    """For the edge that has this folder. Raises OSError."""
    replace_durably(folder / _ORDER, msgspec.json.encode(SiteOrder(to=to)))


def read_route(folder: Path) -> RouteState:
    """What the edge of this folder says; a damaged file is an edge that sends home."""
    try:
        return msgspec.json.decode((folder / _STATE).read_bytes(), type=RouteState)
    except FileNotFoundError:
        return RouteState()
    except (msgspec.DecodeError, ValueError) as error:
        log.error("%s is not readable, records go home: %s", folder / _STATE, error)
        return RouteState()
