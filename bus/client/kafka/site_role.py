"""Whether a site's data are its own, or the mirror of another site's.

In: the site's bus. Out: since when it is secondary; when it was last known to be the primary. For
who decides something that the other site must not decide otherwise, also the site's epoch: a former
primary that has just come back is none, though its topics do not say so yet, and one that was down
as a whole waits until somebody says which it is.
Never: an answer before the brokers have given one; while they are away it is what they said last.
"""

from __future__ import annotations

import logging
import math
import threading
import time

from bus.client.kafka.admin import Admin
from bus.contracts.mirror import SOURCE_CLUSTER_KEY
from bus.contracts.site_confirmation import (
    SITE_MEMBERS_KEY,
    TARGET_CLUSTER_KEY,
    SiteConfirmationError,
    parse_members,
)
from bus.contracts.site_epoch import (
    SITE_EPOCH_KEY,
    SiteEpoch,
    SiteEpochError,
    parse_site_epoch,
)
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
        self._epoch: SiteEpoch | None = None
        self._is_unconfirmed = False
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
        return 0 if self._epoch is None else self._epoch.number

    @property
    def epoch_at_ms(self) -> int:
        """When they did so last, by the clock of who switched; 0: never."""
        return 0 if self._epoch is None else self._epoch.at_ms

    @property
    def is_unconfirmed(self) -> bool:
        """Whether the site's records are copied, all its brokers were started since somebody last
        said that it is the primary, and nobody has said so again: the other one may be."""
        return self._is_unconfirmed

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
        asked_at_s = time.monotonic()
        is_of_other = False
        if self._asks_epoch:  # first: a new primary that does not know so yet decides nothing
            is_of_other = self._ask_epoch(admin)
        try:
            configs = admin.topic_configs(DATA_VEHICLE)
        except BusError as error:
            if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            configs, asked_at_s = {}, -math.inf  # a bus without data mirrors none
        is_secondary = is_of_other or bool(configs.get(SOURCE_CLUSTER_KEY))
        if self._asks_epoch:
            is_copied = not is_secondary and bool(configs.get(TARGET_CLUSTER_KEY))
            self._is_unconfirmed = is_copied and not _is_any_confirmed(admin)
        if not is_secondary and self._secondary_since_ms is not None:
            log.warning("%s: this site is the primary", self._client_id)
            self._secondary_since_ms = None
        elif is_secondary and self._secondary_since_ms is None:
            log.warning("%s: the data of this site are another one's", self._client_id)
            self._secondary_since_ms = now_ms() if self._known.is_set() else 0
        self._primary_at_s = -math.inf if is_secondary else asked_at_s
        self._known.set()

    def _ask_epoch(self, admin: Admin) -> bool:
        """Whether the newest site epoch has another primary. An epoch never falls; brokers that
        know none leave it as it was."""
        cluster = admin.cluster()
        text = _keys(admin).get(SITE_EPOCH_KEY, "")
        try:
            found = parse_site_epoch(text) if text else None
        except SiteEpochError as error:
            log.error("%s", error)
            found = None
        if found is not None and found.number >= self.site_epoch:
            self._epoch = found
        return self._epoch is not None and self._epoch.primary != cluster.cluster_id


def _keys(admin: Admin) -> dict[str, str]:
    alive = admin.cluster().alive
    return admin.broker_configs(alive[0].broker_id) if alive else {}


def _is_any_confirmed(admin: Admin) -> bool:
    """Brokers that know no confirmations need none."""
    text = _keys(admin).get(SITE_MEMBERS_KEY)
    if text is None:
        return True
    try:
        members = parse_members(text)
    except SiteConfirmationError as error:
        log.error("%s", error)
        return False
    return any(one.broker_id in members for one in admin.cluster().alive)
