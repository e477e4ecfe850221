"""Settings of the ways to tell people, for the dispatcher and the watch alike."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import tzinfo
from pathlib import Path
from typing import Literal

import msgspec

from bus.contracts.headers import RecordKind
from bus.domain.visibility import is_unit_name
from bus.notify.notice_digest import SEVERITIES
from bus.notify.notice_plan import ALARMS_A_MINUTE, NoticePlan
from bus.notify.notice_route import NoticeRoute
from bus.settings import NotNegative, Port, Positive, Seconds, Secret, SiteSettings

WEBHOOK, MAIL, COMMAND = "webhook", "mail", "command"
NAMES = ("log", WEBHOOK, MAIL, "sms", COMMAND)
_HTTP = ("http://", "https://")
_RECIPIENT = re.compile(r"[\w-]{1,40}")
_SPAN = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)")
_ADDRESS = re.compile(r"[^\s@<>]+@[^\s@<>]+")


def name_of(recipient: str, way: str) -> str:
    """Of a notifier: its way, or that of a recipient."""
    return f"{recipient}.{way}" if recipient else way


class NoticeRecipient(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`databus.toml` [notices.recipients.NAME]: who is told of some alarms, and how. An empty part
    restricts nothing."""

    mail_to: tuple[str, ...] = ()
    webhook_url: Secret = ""
    webhook_secret: Secret = ""
    command: tuple[str, ...] = ()
    units: tuple[str, ...] = ()  # also of rules that only these units see
    districts: tuple[str, ...] = ()  # ids of the register
    kinds: tuple[str, ...] = ()  # of records: vehicle, face …
    least_severity: Literal["info", "warning", "critical"] = "info"
    incidents: bool = False  # also of these, of his districts and as severe

    def __post_init__(self) -> None:
        """Refuse what could never be delivered."""
        if not self.ways:
            raise ValueError("recipients: one has a mail_to, a webhook_url or a command")
        if self.webhook_url and not self.webhook_url.startswith(_HTTP):
            raise ValueError("recipients: webhook_url: it begins with http:// or https://")
        if self.webhook_secret and not self.webhook_url:
            raise ValueError("recipients: webhook_secret: there is no webhook_url to be signed")
        for address in self.mail_to:
            if not _ADDRESS.fullmatch(address):
                raise ValueError(f"recipients: mail_to: {address!r} is no address")
        for unit in self.units:
            if not is_unit_name(unit):
                raise ValueError(f"recipients: units: {unit!r} is no unit")
        known = {kind.value for kind in RecordKind}
        for kind in self.kinds:
            if kind not in known:
                raise ValueError(f"recipients: kinds: {kind!r} is none of {', '.join(known)}")

    @property
    def ways(self) -> tuple[str, ...]:
        """Those that are configured."""
        return tuple(
            way for way, is_on in (
                (MAIL, self.mail_to), (WEBHOOK, self.webhook_url), (COMMAND, self.command),
            ) if is_on
        )  # fmt: skip

    @property
    def route(self) -> NoticeRoute:
        """Of which alarms and incidents."""
        return NoticeRoute(
            frozenset(self.units), frozenset(self.districts), frozenset(self.kinds),
            self.least_severity, self.incidents,
        )  # fmt: skip


class NoticeSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`databus.toml` [notices]. A way without its address, sender or program is off."""

    alarm_log: str = ""  # one line of JSON each; empty: log/alarms.log, "-" for none
    # POSTed the JSON. Secret: chat services put the key into the address.
    webhook_url: Secret = ""
    webhook_secret: Secret = ""  # signs the request (HMAC-SHA256); empty: it is not signed
    mail_host: str = ""  # the SMTP server
    mail_port: Port = 587
    mail_security: Literal["starttls", "tls", "none"] = "starttls"
    mail_user: str = ""  # empty: no log-in
    mail_password: Secret = ""
    mail_from: str = ""
    mail_to: tuple[str, ...] = ()
    # The request that makes a gateway send an SMS; {text}, {id}, {severity} are filled in.
    sms_url: Secret = ""
    sms_method: Literal["POST", "PUT", "GET"] = "POST"
    sms_headers: dict[str, Secret] = {}
    sms_body: Secret = ""
    command: tuple[str, ...] = ()  # program and arguments, without a shell; the JSON is its stdin
    timeout_s: Seconds = 10.0  # of one attempt, whatever the way
    give_up_hours: Positive = 24  # a notice that could not be delivered for so long is given up
    webhook_give_up_hours: NotNegative = 0  # the same of the webhook; 0: tried until delivered
    quiet_hours: dict[str, str] = {}  # severity -> "22:00-07:00" of the site's clock; log excepted
    escalate_to: tuple[str, ...] = ()  # ways that are told only what nobody has acknowledged
    escalate_after_minutes: NotNegative = 15
    alarms_a_minute: Positive = ALARMS_A_MINUTE  # of one rule; those beyond are one notice together
    recipients: dict[str, NoticeRecipient] = {}  # name -> who is told of some alarms beside those

    def __post_init__(self) -> None:
        """Refuse what could never be delivered: every notice would be lost."""
        for key in ("webhook_url", "sms_url"):
            url = getattr(self, key)
            if url and not url.startswith(_HTTP):
                raise ValueError(f"{key}: an address begins with http:// or https://")
        if self.webhook_secret and not self.webhook_url:
            raise ValueError("webhook_secret: there is no webhook_url to be signed")
        self._check_mail()
        for severity, span in self.quiet_hours.items():
            if severity not in SEVERITIES:
                raise ValueError(f"quiet_hours: {severity!r} is none of {', '.join(SEVERITIES)}")
            if not _SPAN.fullmatch(span):
                raise ValueError(f"quiet_hours: {span!r}: write 22:00-07:00")
        known = (*NAMES, *self.routes)
        for name in self.escalate_to:
            if name not in known:
                raise ValueError(f"escalate_to: {name!r} is none of {', '.join(known)}")
        for name, one in self.recipients.items():
            if not _RECIPIENT.fullmatch(name):
                raise ValueError(f"recipients: {name!r}: a name has letters, digits, _ and -")
            if one.mail_to and not self.mail_host:
                raise ValueError(f"recipients: {name}: mail_to needs a mail_host")

    def _check_mail(self) -> None:
        if not self.mail_host:
            return
        if not _ADDRESS.fullmatch(self.mail_from):
            raise ValueError("mail_from: a sender is needed, as databus@example.org")
        if not self.mail_to and not any(one.mail_to for one in self.recipients.values()):
            raise ValueError("mail_to: nobody is named")
        for address in self.mail_to:
            if not _ADDRESS.fullmatch(address):
                raise ValueError(f"mail_to: {address!r} is no address")
        if self.mail_user and self.mail_security == "none":
            raise ValueError("mail_security: none would send the password as it is")

    @property
    def routes(self) -> dict[str, NoticeRoute]:
        """By the names of the recipients' ways: `north.mail`."""
        return {
            name_of(name, way): one.route
            for name, one in self.recipients.items()
            for way in one.ways
        }

    @property
    def give_up_ms(self) -> int:
        """The greatest age of a notice."""
        return self.give_up_hours * 3_600_000

    def give_up_ms_of(self, notifier: str) -> int:
        """The same for one way; 0: none."""
        is_webhook = notifier.rpartition(".")[2] == WEBHOOK
        return self.webhook_give_up_hours * 3_600_000 if is_webhook else self.give_up_ms

    def plan(self, notifiers: Iterable[str], zone: tzinfo) -> NoticePlan:
        """Who of them is told what, and when."""
        return NoticePlan(
            tuple(notifiers), self.quiet_hours, frozenset(self.escalate_to),
            self.escalate_after_minutes * 60_000, zone, self.alarms_a_minute, self.routes,
        )  # fmt: skip

    def alarm_log_path(self, site: SiteSettings) -> Path | None:
        """The alarm log, None if there is to be none."""
        if self.alarm_log == "-":
            return None
        return Path(self.alarm_log) if self.alarm_log else site.data_path / "log" / "alarms.log"
