"""Whether a site's data are its own, or the mirror of another site's.

In: the site's bus. Out: since when it is secondary; when it was last known to be the primary; the
number of its site epoch, for who asks.
Never: an answer before the brokers have given one; while they are away it is what they said last.
"""

from __future__ import annotations

import logging
import math
import threading
import time

from bus.client.kafka.admin import Admin
from bus.contracts.mirror import SOURCE_CLUSTER_KEY
from bus.contracts.site_epoch import SITE_EPOCH_KEY, SiteEpochError, parse_site_epoch
from bus.contracts.topics import DATA_VEHICLE
from bus.errors import BusError, ErrorCode
from bus.runtime.wall_clock import now_ms
from bus.settings import BusSettings

log = logging.getLogger(__name__)

EVERY_S = 1.0
TIMEOUT_S = 5.0


class SiteRole:
    """One thread. Unknown until the brokers have answered once; then what they said last."""

    def __init__(self, bus: BusSettings, client_id: str, *, asks_epoch: bool = False) -> None:
        self._asks_epoch = asks_epoch
        self._site_epoch = 0
        self._bus = bus
        self._client_id = client_id
        self._secondary_since_ms: int | None = None
        self._primary_at_s = -math.inf
        self._known = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="site role", daemon=True)

    @property
    def secondary_since_ms(self) -> int | None:
        """Since when this site's data are another one's, by our clock; 0: since before we asked.
        None: they are its own."""
        return self._secondary_since_ms

    @property
    def is_primary(self) -> bool:
        """Whether the brokers have answered, and said last that this site's data are its own."""
        return self.is_known and self._secondary_since_ms is None

    @property
    def primary_at_s(self) -> float:
        """When the brokers last said that this site's data are there and are its own
        (`time.monotonic`): for what must not be done on an old answer."""
        return self._primary_at_s

    @property
    def site_epoch(self) -> int:
        """How often the sites had changed places as the brokers said last; 0: never, or nobody has
        asked."""
        return self._site_epoch

    def start(self) -> SiteRole:
        """Begin to ask."""
        self._thread.start()
        return self

    @property
    def is_known(self) -> bool:
        """Whether the brokers have answered."""
        return self._known.is_set()

    def wait_until_known(self, timeout_s: float) -> bool:
        """Whether the brokers have answered in time."""
        return self._known.wait(timeout_s)

    def close(self) -> None:
        """Stop asking."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        admin = Admin(self._bus, client_id=self._client_id, timeout_s=TIMEOUT_S)
        try:
            while not self._stopping.is_set():
                try:
                    self._ask(admin)
                except BusError as error:
                    log.info("it is not known just now whether this site is a mirror: %s", error)
                self._stopping.wait(EVERY_S)
        finally:
            admin.close()

    def _ask(self, admin: Admin) -> None:
        if self._asks_epoch:  # first: a new primary that does not know so yet decides nothing
            self._site_epoch = _epoch_of(admin, self._site_epoch)
        asked_at_s = time.monotonic()
        try:
            is_secondary = bool(admin.topic_configs(DATA_VEHICLE).get(SOURCE_CLUSTER_KEY))
        except BusError as error:
            if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            is_secondary, asked_at_s = False, -math.inf  # a bus without data mirrors none
        if not is_secondary and self._secondary_since_ms is not None:
            log.warning("%s: this site is the primary", self._client_id)
            self._secondary_since_ms = None
        elif is_secondary and self._secondary_since_ms is None:
            log.warning("%s: the data of this site are another one's", self._client_id)
            self._secondary_since_ms = now_ms() if self._known.is_set() else 0
        self._primary_at_s = -math.inf if is_secondary else asked_at_s
        self._known.set()


def _epoch_of(admin: Admin, before: int) -> int:
    """An epoch never falls; brokers that know none leave it as it was."""
    alive = admin.cluster().alive
    text = admin.broker_configs(alive[0].broker_id).get(SITE_EPOCH_KEY, "") if alive else ""
    try:
        return max(before, parse_site_epoch(text).number) if text else before
    except SiteEpochError as error:
        log.error("%s", error)
        return before
