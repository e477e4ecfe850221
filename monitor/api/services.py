"""Everything the routes and pages of one console share, made once, passed by argument."""

from __future__ import annotations

import asyncio
import os
import secrets
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import msgspec

from bus.client.register_follower import RegisterFollower
from bus.contracts.commands import WatchCommand
from bus.domain.face_search import FacePiece, FaceQuestion
from bus.domain.feature_models import FeatureSettings, Models
from bus.domain.list_import import ListImport, ListUpload
from bus.domain.policy import PolicySettings
from bus.domain.rule_check import check_rule
from bus.domain.visibility import Viewer
from bus.notify.acknowledgements import Acknowledgements
from bus.notify.notice_plan import ALARMS_A_MINUTE
from bus.runtime.tasks import RequestFailures
from bus.runtime.wall_clock import now_ms
from bus.settings import BusSettings, SiteSettings
from ingest.store.port import RecordReader, RecordRow
from monitor.accounts.known_devices import KnownDevices
from monitor.accounts.login_limiter import LoginLimiter
from monitor.accounts.replicated_accounts import ReplicatedAccounts
from monitor.accounts.sessions import SessionStore
from monitor.accounts.site_accounts import SiteAccounts
from monitor.accounts.store import AccountStore
from monitor.api.account_changes import AccountChanges
from monitor.api.account_writes import AccountWrites
from monitor.api.auth import PasswordCheck
from monitor.api.kpis import KpiPoll
from monitor.api.latency_totals import LatencyTotals
from monitor.api.pool import ReaderPool
from monitor.api.waiting_lists import WaitingListPoll
from monitor.api.watch_sign import WatchSign
from monitor.cluster.bus_overview import BusOverviewReader
from monitor.cluster.poller import ClusterPoller
from monitor.cluster.topic_orders import TopicOrders
from monitor.cluster.traffic import metrics_urls
from monitor.cluster.znodes import EnsembleTlsFiles, ZnodeReader
from monitor.live.command_sender import CommandNotAcknowledged, CommandSender
from monitor.live.live_hub import LiveHub
from monitor.live.register_writes import CLIENT_ID, RegisterWrites
from monitor.live.visible_live import VisibleLive
from monitor.ports import (
    AlarmReader,
    FindFaces,
    ImportList,
    OpenAlarms,
    OpenLists,
    OpenRecords,
    PlateListReader,
    PreviewRule,
    ReadIncidents,
    ReadPicture,
    ReadProcesses,
    ReadWatch,
)
from monitor.questions.question_log import QuestionLog
from monitor.questions.read_port import QuestionPort
from monitor.questions.session_cases import SessionCases
from monitor.settings import ConsoleSettings


def midnight_ms(site: SiteSettings) -> int:
    """The beginning of the site's today."""
    today = datetime.now(site.tz).replace(hour=0, minute=0, second=0, microsecond=0)
    return round(today.timestamp() * 1000)


class SentCommand(NamedTuple):
    """A command under the version that was decided; `waits`: for an approval, and nothing of it is
    in force."""

    command: WatchCommand
    waits: bool


@dataclass(frozen=True)
class ConsoleServices:
    """What a request may need. Everything that can block is behind an `await`."""

    site: SiteSettings
    console: ConsoleSettings
    account_store: AccountStore
    account_writes: AccountWrites
    sessions: SessionStore
    passwords: PasswordCheck
    known_devices: KnownDevices
    account_changes: AccountChanges
    records: ReaderPool[RecordReader]
    alarms: ReaderPool[AlarmReader]
    previews: ReaderPool[RecordReader]
    questions: QuestionPort
    session_cases: SessionCases
    lists: ReaderPool[PlateListReader]
    waiting_lists: WaitingListPoll
    import_list: ImportList
    feature_models: Models
    preview_rule: PreviewRule
    find_faces: FindFaces
    register: RegisterFollower
    register_writes: RegisterWrites
    hub: LiveHub
    kpis: KpiPoll
    latency_totals: LatencyTotals
    cluster: BusOverviewReader
    topic_orders: TopicOrders
    poller: ClusterPoller
    commands: CommandSender
    read_picture: ReadPicture
    read_processes: ReadProcesses
    watch: WatchSign
    read_incidents: ReadIncidents
    site_accounts: SiteAccounts | None
    secret: str
    page_token: str = ""
    """What pages ask for, the console's own of metrics and those that it reads; empty: nothing."""
    failures: RequestFailures = field(default_factory=RequestFailures)
    background: list[asyncio.Task[None]] = field(default_factory=list)
    """What runs beside the requests, for as long as the process does."""

    @property
    def dead_tasks(self) -> list[str]:
        """What should run beside the requests and does not; the process is about to end then."""
        return [task.get_name() for task in self.background if task.done()]

    @property
    def acknowledgements(self) -> Acknowledgements:
        """Which alarms and incidents somebody has taken in hand."""
        return Acknowledgements(self.site)

    def live_for(self, viewer: Viewer) -> VisibleLive:
        """The live state as somebody may see it."""
        return VisibleLive(self.hub.live, viewer)

    def diverged_epoch(self, record_id: str) -> int:
        """The site epoch in which only this site had a record; 0: none."""
        return self.hub.live.diverged_ids.epoch_of(record_id)

    async def send_rule(self, command: WatchCommand) -> SentCommand:
        """Check and send a command of the watch list; returns it under the version decided.
        Raises `RuleError`, and what `CommandSender.send` does."""
        if command.op == "put":
            check_rule(command, now_ms())
        answer = await self.commands.send(command)
        decided = msgspec.structs.replace(command, version=answer.version)
        return SentCommand(decided, waits=answer.state == "proposed")


def build_services(
    site: SiteSettings,
    bus: BusSettings,
    console: ConsoleSettings,
    open_records: OpenRecords,
    open_alarms: OpenAlarms,
    read_picture: ReadPicture,
    preview_rule: PreviewRule,
    read_processes: ReadProcesses = tuple,
    read_watch: ReadWatch = str,
    read_incidents: ReadIncidents = tuple,
    open_lists: OpenLists | None = None,
    import_list: ImportList | None = None,
    policy: PolicySettings = PolicySettings(),
    features: FeatureSettings = FeatureSettings(),
    find_faces: FindFaces | None = None,
    alarms_a_minute: int = ALARMS_A_MINUTE,
    page_token: str = "",
) -> ConsoleServices:
    """Wire the parts; nothing is opened or started yet."""
    data_path = site.data_path
    account_store = AccountStore(data_path)
    records = ReaderPool("records", open_records, threads=console.reader_threads)
    alarms = ReaderPool("operations", open_alarms, threads=console.reader_threads)
    lists = ReaderPool("lists", open_lists or _no_lists, threads=1)
    previews = ReaderPool("previews", open_records, threads=1, is_background=True)
    kept = QuestionLog(data_path, policy.questions_days)
    register = RegisterFollower(bus, data_path / "register.json", CLIENT_ID)
    limiter = LoginLimiter(
        console.failed_logins,
        console.failed_logins_per_address,
        console.failed_login_window_seconds * 1000,
    )
    secret = _secret(data_path / "console" / "secret")
    passwords = PasswordCheck(account_store, limiter, now_ms)
    account_writes = AccountWrites()
    return ConsoleServices(
        site=site,
        console=console,
        account_store=account_store,
        account_writes=account_writes,
        sessions=SessionStore(
            account_store, lifetime_ms=console.session_hours * 3_600_000, now_ms=now_ms
        ),
        passwords=passwords,
        known_devices=KnownDevices(secret),
        account_changes=AccountChanges(account_store, account_writes, passwords),
        records=records,
        alarms=alarms,
        lists=lists,
        waiting_lists=WaitingListPoll(lists, now_ms),
        import_list=import_list or _no_import,
        feature_models=features.table(),
        previews=previews,
        questions=QuestionPort(records, alarms, previews, kept, policy, now_ms),
        session_cases=SessionCases(),
        preview_rule=preview_rule,
        find_faces=find_faces or _no_faces,
        register=register,
        register_writes=RegisterWrites(site, bus, register),
        hub=LiveHub(
            bus,
            site.tz,
            now_ms,
            rows=console.live_rows,
            decoded_per_second=console.decoded_per_second,
            alarms_a_minute=alarms_a_minute,
        ),
        kpis=KpiPoll(records, now_ms, lambda: midnight_ms(site)),
        latency_totals=LatencyTotals(),
        cluster=BusOverviewReader(bus, now_ms),
        topic_orders=TopicOrders(bus),
        poller=ClusterPoller(
            bus, _znodes(console), metrics_urls(console.brokers), now_ms, page_token
        ),
        commands=CommandSender(bus, site.name),
        read_picture=read_picture,
        read_processes=read_processes,
        watch=WatchSign(read_watch),
        read_incidents=read_incidents,
        site_accounts=_site_accounts(bus, console, account_store),
        secret=secret,
        page_token=page_token,
    )


def _znodes(console: ConsoleSettings) -> ZnodeReader | None:
    if not console.zookeeper:
        return None
    files = EnsembleTlsFiles(console.zookeeper_certificate_pem, console.zookeeper_authority_pem)
    return ZnodeReader(console.zookeeper, files)


def _no_import(_: ListUpload) -> ListImport:
    raise CommandNotAcknowledged("this console was started without lists of plates")


def _no_faces(_reader: RecordReader, _asked: FaceQuestion) -> FacePiece[RecordRow]:
    raise OSError("this console was started without the search for faces")


def _no_lists() -> PlateListReader:
    raise OSError("this console was started without lists of plates")


def _site_accounts(
    bus: BusSettings, console: ConsoleSettings, store: AccountStore
) -> SiteAccounts | None:
    if not console.accounts_secret:
        return None
    return SiteAccounts(bus, console.accounts_secret, ReplicatedAccounts(store.database))


def _secret(path: Path) -> str:
    """The key that signs cookies; made once, readable by the owner only."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return path.read_text()
    with os.fdopen(descriptor, "w") as file:
        file.write(secrets.token_urlsafe(48))
        file.flush()
        os.fsync(file.fileno())
    return path.read_text()
