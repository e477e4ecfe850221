"""One mail by SMTP, with the standard library's client. Blocking: to be called in a thread."""

from __future__ import annotations

import hashlib
import smtplib
import ssl
from dataclasses import dataclass
from email.message import EmailMessage

from bus.notify.notice_text import NoticeText
from bus.notify.settings import NoticeSettings


@dataclass(frozen=True, slots=True)
class MailServer:
    """Where mails are handed in, and from whom to whom."""

    host: str
    port: int
    security: str
    user: str
    password: str
    sender: str
    recipients: tuple[str, ...]
    timeout_s: float

    @classmethod
    def of(cls, settings: NoticeSettings, recipients: tuple[str, ...] = ()) -> MailServer:
        """As configured, to these recipients instead of `mail_to`."""
        return cls(
            settings.mail_host, settings.mail_port, settings.mail_security, settings.mail_user,
            settings.mail_password, settings.mail_from, recipients or settings.mail_to,
            settings.timeout_s,
        )  # fmt: skip


def send_mail(server: MailServer, subject: str, text: NoticeText) -> None:
    """Raises `OSError` or `smtplib.SMTPException`. A retry has the same Message-ID, by which mail
    programs show it once; a recipient that is refused does not keep the others from it."""
    message = EmailMessage()
    message["From"], message["To"] = server.sender, ", ".join(server.recipients)
    message["Subject"] = text.line
    message["Message-ID"] = f"<{hashlib.sha256(subject.encode()).hexdigest()[:32]}@databus>"
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(text.text)
    with _connected(server) as client:
        if server.user:
            client.login(server.user, server.password)
        client.send_message(message)


def _connected(server: MailServer) -> smtplib.SMTP:
    if server.security == "tls":
        return smtplib.SMTP_SSL(
            server.host, server.port, timeout=server.timeout_s,
            context=ssl.create_default_context(),
        )  # fmt: skip
    client = smtplib.SMTP(server.host, server.port, timeout=server.timeout_s)
    if server.security == "starttls":
        client.starttls(context=ssl.create_default_context())
    return client
