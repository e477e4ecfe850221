"""Carries a running site from open to closed, one stage at a time, each broker after the other.

In: the settings of this machine, the folder of its site. Out: the stage that is recorded and in
force here; what is to be done elsewhere, as OperatorError. Core: `conversion`. Never: a broker
restarted while another one is away or behind; a stage carried out that is not recorded.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from http.client import HTTPException

from bus.client.admin import queries, site_keys
from bus.client.admin.cluster_admin import ClusterAdmin
from bus.client.admin.config_resources import BROKER, TOPIC
from bus.client.wire.sync_client import SyncClient
from bus.contracts.access import OPERATOR, all_acls
from bus.contracts.mirror import REFUSED_COMMITS_KEY
from bus.errors import BusError
from bus.files.lock_file import hold_lock_file
from bus.metrics.read_page import read_page
from bus.settings import BusSettings
from deploy.errors import OperatorError
from deploy.secure.account_settings import as_account, as_logged_in, as_open, site_folder
from deploy.secure.apply import known_acls
from deploy.secure.broker_keys import PROTOCOL_MAP, ConversionStage, stage_of
from deploy.secure.conversion import (
    PlainClient,
    PlainClientReport,
    blocked_by,
    closing_obstacles,
    following,
    late_brokers,
    preceding,
    waiting_for,
)
from deploy.secure.conversion_file import (
    is_converting,
    mark_processes,
    read_stage,
    write_stage,
)
from deploy.secure.init import check_standing
from deploy.secure.layout import (
    CONVERSION_FILE,
    DEFAULT_FOLDER,
    PROCESSES_MARK,
    node_name,
    node_path,
)
from deploy.secure.restarts import LocalRestarts
from deploy.secure.started_before import started_before
from deploy.settings.composed import Settings, broker_pages, with_changes
from deploy.supervisor.state_file import CLUSTER_ADDRESSES, is_held, read_state
from monitor.cluster.traffic import metrics_urls

CLIENT_ID = "databus-secure-convert"
QUIET_S = 600.0
"""How long nobody may have come in plain before plain listeners are closed."""
SETTLE_TIMEOUT_S = 300.0
"""Until a restarted broker has caught up, and until all know the rights."""
ASK_TIMEOUT_MS = 5_000
PAUSE_S = 0.3
PLAIN_CLIENTS = "/plain-clients"
Say = Callable[[str], None]


class Conversion:
    """One machine's part of it. Every method raises OperatorError with what is to be done."""

    def __init__(self, settings: Settings, say: Say = lambda _: None) -> None:
        """`say`: is told of each step."""
        self._settings = _of_running_cluster(settings)
        self._say = say
        self.folder = site_folder(settings)
        self._restarts = LocalRestarts(settings)

    # -- what stands ------------------------------------------------------------------------------

    @property
    def stage(self) -> ConversionStage:
        """What is recorded here; CLOSED also where nothing was ever converted."""
        return read_stage(self.folder)

    def observed(self) -> dict[int, ConversionStage]:
        """What each broker of the cluster runs with."""
        with self._client() as client:
            return _stages(client)

    def visits(self, brokers: Mapping[int, ConversionStage]) -> list[PlainClientReport]:
        """Who came in plain, as each broker says that can be asked from here."""
        urls = self._pages()
        token = as_logged_in(self._settings, self.folder, OPERATOR).security.page_token
        return [
            found
            for number in brokers
            if number in urls and (found := _visits(number, urls[number], token)) is not None
        ]

    def late_processes(self) -> list[str]:
        """Our own ones here that have not started since their stage was recorded."""
        mark = self.folder / PROCESSES_MARK
        return started_before(self._settings.site.data_path, [mark] if mark.exists() else [])

    # -- what is done -----------------------------------------------------------------------------

    def go_on(self, *, anyway: bool = False, quiet_s: float = QUIET_S) -> ConversionStage:
        """Finish the recorded stage; where it is finished, record the next one and carry it out.
        `anyway`: although somebody still comes in plain, or a switch of sites is under way."""
        with self._alone():
            if not self._has_begun():
                return self._begin()
            if self._finish():
                return self.stage
            target = following(self.stage)
            if target is None:
                raise OperatorError("the site is closed: there is nothing left to convert")
            self._check(target, anyway=anyway, quiet_s=quiet_s)
            self._record(target)
            self._finish()
            return target

    def go_back(self) -> ConversionStage:
        """Record the stage before, and carry it out."""
        with self._alone():
            target = preceding(self.stage) if self._has_begun() else None
            if target is None:
                raise OperatorError(
                    "there is no way back from here: a closed site is opened by taking [security]"
                    " folder out of databus.toml and starting everything again"
                )
            blocked = blocked_by(self.observed(), target)
            if blocked:
                raise OperatorError("; ".join(blocked))
            self._record(target)
            self._finish()
            return target

    # -- parts ------------------------------------------------------------------------------------

    def _has_begun(self) -> bool:
        return is_converting(check_standing(self.folder))

    def _begin(self) -> ConversionStage:
        """Nothing changes yet, but from now on the folder's name in the settings closes nothing."""
        if PROTOCOL_MAP in self._settings.broker:
            raise OperatorError(
                f"[broker] {PROTOCOL_MAP} is set: these listeners are yours to change, by hand"
            )
        opened = as_open(self._settings)
        try:
            with _connected(opened.bus) as client:
                observed = _stages(client)
                _check_controllers(client, observed)
        except BusError as error:
            raise OperatorError(
                f"no broker answers in plain at {opened.bus.bootstrap_servers}: either the site is"
                f" closed already, or it does not run ({error})"
            ) from error
        missing = [n for n in observed if not node_path(self.folder, n).is_dir()]
        if missing:
            self._say(f"{node_name(missing[0])} has no certificate in {self.folder}: it is"
                      " restarted where it has one")  # fmt: skip
        self._record(ConversionStage.OPEN)
        return ConversionStage.OPEN

    def _check(self, target: ConversionStage, *, anyway: bool, quiet_s: float) -> None:
        if not self._settings.security.folder:
            raise OperatorError(
                "nothing uses the folder yet; write these lines into databus.toml, then say it"
                f' again (nothing closes by them):\n[security]\nfolder = "{DEFAULT_FOLDER}"'
            )
        observed = self.observed()
        behind = waiting_for(observed, self.stage)
        waiting = [f"broker {number} is not at {self.stage.name} yet" for number in behind]
        waiting += blocked_by(observed, target)
        if waiting:
            raise OperatorError("; ".join(waiting))
        if anyway:
            return
        if self._is_switching():
            raise OperatorError(
                "a switch of sites is under way; finish it first (`./databus mirror switch`), or go"
                " on with --anyway"
            )
        if target is ConversionStage.PROCESSES:
            self._wait_until_known(observed)
        if target is ConversionStage.CLOSED:
            found = closing_obstacles(
                self.visits(observed), observed, self.late_processes(), quiet_s
            )
            if found:
                lines = "\n".join(f"  {one}" for one in found)
                raise OperatorError(
                    f"plain listeners are still needed:\n{lines}\nclose them all the same: --anyway"
                )

    def _finish(self) -> bool:
        """Carry out what is recorded here; whether there was anything to do."""
        stage = self.stage
        acted = False
        observed = self.observed()
        behind = waiting_for(observed, stage)
        for number in late_brokers(observed, stage):
            if number in behind or self._is_here(number):
                self._restart_broker(number, stage)
                acted = True
        for name in self.late_processes():
            self._say(f"{name} starts again, with its account")
            self._restarts.restart(name)
            acted = True
        return acted

    def _restart_broker(self, number: int, stage: ConversionStage) -> None:
        observed = self._settled()
        blocked = blocked_by(observed, stage)
        if blocked:
            raise OperatorError("; ".join(blocked))
        if not self._is_here(number):
            raise OperatorError(
                f"broker {number} is not kept alive by the product on this machine. Where it runs:"
                " `systemctl restart databus-broker` once its folder is there and says the same"
                f" ({CONVERSION_FILE}); then say this command again"
            )
        self._say(f"broker {number} starts again, with {stage.name}")
        self._restarts.restart_broker(number)
        after = self._settled(number)
        if late_brokers({number: after[number]}, stage):
            raise OperatorError(
                f"broker {number} has started again with {after[number].name}, not {stage.name}:"
                " the settings that it is started with do not name [security] folder"
            )

    def _is_here(self, number: int) -> bool:
        return node_path(self.folder, number).is_dir() and self._restarts.has_broker(number)

    def _settled(self, number: int | None = None) -> dict[int, ConversionStage]:
        """What all brokers are at, once each replica is in sync and each voter has caught up."""
        deadline_s = time.monotonic() + SETTLE_TIMEOUT_S
        why = ""
        while time.monotonic() < deadline_s:
            try:
                with self._client() as client:
                    why = _unsettled(client, number)
                    if not why:
                        return _stages(client)
            except (BusError, OSError) as error:
                why = str(error)
            time.sleep(PAUSE_S)
        raise OperatorError(f"no broker is restarted: {why}")

    def _wait_until_known(self, observed: Mapping[int, ConversionStage]) -> None:
        """Whoever moves has to find its user and its rights at every broker."""
        bus = as_logged_in(self._settings, self.folder, OPERATOR).bus
        wanted, why = set(all_acls()), ""
        deadline_s = time.monotonic() + SETTLE_TIMEOUT_S
        while time.monotonic() < deadline_s:
            try:
                with contextlib.closing(ClusterAdmin(bus, CLIENT_ID)) as admin:
                    late = [n for n in observed if wanted - known_acls(admin, n)]
                if not late:
                    return
                why = f"broker {late[0]} does not know all rights"
            except BusError as error:
                why = f"the operator's account cannot log in: {error}"
            time.sleep(PAUSE_S)
        raise OperatorError(why)

    def _is_switching(self) -> bool:
        """From the fence of the former primary's topics until the new one takes records."""
        with self._client() as client:
            epoch = site_keys.read(client).epoch
            if epoch is None:
                return False
            names = [one.name for one in queries.topics(client) if not one.internal]
            found = queries.many_configs(client, TOPIC, names)
        return any(
            one.name == REFUSED_COMMITS_KEY and one.value == str(epoch.number)
            for entries in found.values()
            for one in entries
        )

    def _record(self, stage: ConversionStage) -> None:
        if ConversionStage.PROCESSES in (stage, self.stage) and stage != ConversionStage.CLOSED:
            mark_processes(self.folder)
        write_stage(self.folder, stage)
        self._say(f"recorded: {stage.name}")

    def _pages(self) -> dict[int, str]:
        """Where brokers show who comes in plain."""
        found = metrics_urls(broker_pages(self._settings))
        return {n: url.removesuffix("/metrics") + PLAIN_CLIENTS for n, url in found.items()}

    @contextlib.contextmanager
    def _client(self) -> Iterator[SyncClient]:
        try:
            with _connected(as_account(self._settings, OPERATOR).bus) as client:
                yield client
        except BusError as error:
            raise OperatorError(f"the brokers cannot be asked: {error}") from error

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        try:
            with hold_lock_file(self.folder.with_name(f"{self.folder.name}.lock")):
                yield
        except BlockingIOError:
            raise OperatorError("another command changes this folder right now") from None


def _connected(bus: BusSettings) -> SyncClient:
    return SyncClient.of(
        bus, CLIENT_ID, connect_timeout_ms=ASK_TIMEOUT_MS, request_timeout_ms=ASK_TIMEOUT_MS
    )


def _stages(client: SyncClient) -> dict[int, ConversionStage]:
    found = {}
    for node in queries.cluster(client).alive:
        entries = queries.configs(client, BROKER, str(node.broker_id))
        keys = {one.name: one.value for one in entries if one.value is not None}
        found[node.broker_id] = stage_of(keys)
    return found


def _check_controllers(client: SyncClient, observed: Mapping[int, ConversionStage]) -> None:
    quorum = queries.quorum_or_none(client)
    alone = [one.node_id for one in quorum.voters if one.node_id not in observed] if quorum else []
    if alone:
        raise OperatorError(
            f"node {alone[0]} is a controller and no broker: such a cluster is converted by hand"
            " (docs/decisions/0119)"
        )


def _unsettled(client: SyncClient, number: int | None) -> str:
    """Why no broker may be restarted now; empty where one may."""
    alive = {one.broker_id for one in queries.cluster(client).alive}
    if number is not None and number not in alive:
        return f"broker {number} is not back yet"
    for topic in queries.topics(client):
        for one in topic.partitions:
            if one.under_replicated or one.unavailable:
                away = sorted(set(one.replicas) - set(one.isr))
                return f"brokers {away} are behind with {topic.name}-{one.index}"
    quorum = queries.quorum_or_none(client)
    if quorum is not None:
        for voter in quorum.voters:
            if voter.end_offset < quorum.high_watermark:
                return f"controller {voter.node_id} is behind"
    return ""


def _visits(number: int, url: str, token: str) -> PlainClientReport | None:
    """None where the page cannot be read."""
    try:
        page = json.loads(read_page(url, ASK_TIMEOUT_MS / 1000, token))
        clients = tuple(
            PlainClient(number, one["listener"], one["host"], one["client_id"], one["age_s"])
            for one in page["clients"]
            if one["client_id"] != CLIENT_ID
        )
        return PlainClientReport(number, page["watched_s"], clients)
    except (OSError, ValueError, KeyError, TypeError, HTTPException):
        return None


def _of_running_cluster(settings: Settings) -> Settings:
    """For clients of the cluster that is kept alive on this data directory."""
    folder = settings.site.data_path
    if not is_held(folder):
        return settings
    addresses = (read_state(folder) or {}).get(CLUSTER_ADDRESSES)
    return with_changes(settings, addresses) if addresses else settings
