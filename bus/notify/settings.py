"""Settings of the ways to tell people, for the dispatcher and the watch alike."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import tzinfo
from pathlib import Path
from typing import Literal

import msgspec

from bus.notify.notice_plan import ALARMS_A_MINUTE, NoticePlan
from bus.settings import NotNegative, Port, Positive, Seconds, Secret, SiteSettings

SEVERITIES = ("info", "warning", "critical")
WEBHOOK = "webhook"
NAMES = ("log", WEBHOOK, "mail", "sms", "command")
_SPAN = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)")
_ADDRESS = re.compile(r"[^\s@<>]+@[^\s@<>]+")


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

    def __post_init__(self) -> None:
        """Refuse what could never be delivered: every notice would be lost."""
        for key in ("webhook_url", "sms_url"):
            url = getattr(self, key)
            if url and not url.startswith(("http://", "https://")):
                raise ValueError(f"{key}: an address begins with http:// or https://")
        if self.webhook_secret and not self.webhook_url:
            raise ValueError("webhook_secret: there is no webhook_url to be signed")
        self._check_mail()
        for severity, span in self.quiet_hours.items():
            if severity not in SEVERITIES:
                raise ValueError(f"quiet_hours: {severity!r} is none of {', '.join(SEVERITIES)}")
            if not _SPAN.fullmatch(span):
                raise ValueError(f"quiet_hours: {span!r}: write 22:00-07:00")
        for name in self.escalate_to:
            if name not in NAMES:
                raise ValueError(f"escalate_to: {name!r} is none of {', '.join(NAMES)}")

    def _check_mail(self) -> None:
        if not self.mail_host:
            return
        if not _ADDRESS.fullmatch(self.mail_from):
            raise ValueError("mail_from: a sender is needed, as databus@example.org")
        if not self.mail_to:
            raise ValueError("mail_to: nobody is named")
        for address in self.mail_to:
            if not _ADDRESS.fullmatch(address):
                raise ValueError(f"mail_to: {address!r} is no address")
        if self.mail_user and self.mail_security == "none":
            raise ValueError("mail_security: none would send the password as it is")

    @property
    def give_up_ms(self) -> int:
        """The greatest age of a notice."""
        return self.give_up_hours * 3_600_000

    def give_up_ms_of(self, notifier: str) -> int:
        """The same for one way; 0: none."""
        return self.webhook_give_up_hours * 3_600_000 if notifier == WEBHOOK else self.give_up_ms

    def plan(self, notifiers: Iterable[str], zone: tzinfo) -> NoticePlan:
        """Who of them is told what, and when."""
        return NoticePlan(
            tuple(notifiers), self.quiet_hours, frozenset(self.escalate_to),
            self.escalate_after_minutes * 60_000, zone, self.alarms_a_minute,
        )  # fmt: skip

    def alarm_log_path(self, site: SiteSettings) -> Path | None:
        """The alarm log, None if there is to be none."""
        if self.alarm_log == "-":
            return None
        return Path(self.alarm_log) if self.alarm_log else site.data_path / "log" / "alarms.log"
