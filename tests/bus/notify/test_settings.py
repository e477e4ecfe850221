"""What could never be delivered is refused at the start, with the key that is wrong."""

from __future__ import annotations

import pytest

from deploy.settings.composed import load
from deploy.settings.sources import SettingsError

MAIL = ["notices.mail_host=localhost", "notices.mail_from=a@b.org", 'notices.mail_to=["c@d.org"]']


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["notices.webhook_url=ftp://x"], "notices.webhook_url"),
        (["notices.sms_url=gateway"], "sms_url: an address begins with http"),
        (["notices.webhook_secret=s"], "webhook_secret: there is no webhook_url"),
        (MAIL[:1], "mail_from: a sender is needed"),
        (MAIL[:2], "mail_to: nobody is named"),
        ([*MAIL[:2], 'notices.mail_to=["nobody"]'], "'nobody' is no address"),
        ([*MAIL, "notices.mail_user=u", "notices.mail_security=none"], "mail_security: none would"),
        ([*MAIL, "notices.mail_security=ssl"], "mail_security"),
        (["notices.quiet_hours.warning=22-7"], "write 22:00-07:00"),
        (["notices.quiet_hours.urgent=22:00-07:00"], "'urgent' is none of info, warning, critical"),
        (['notices.escalate_to=["pager"]'], "'pager' is none of log, webhook"),
        (["notices.escalate_after_minutes=-1"], "escalate_after_minutes"),
    ],
)
def test_a_wrong_key_is_named(flags: list[str], words: str) -> None:
    """And no secret is repeated."""
    with pytest.raises(SettingsError, match=words.replace("[", r"\[")) as error:
        load(None, flags, {})
    assert "notices" in str(error.value)


def test_all_ways_together_are_accepted() -> None:
    """As the operations page shows them."""
    flags = [
        *MAIL, "notices.webhook_url=http://h/", "notices.webhook_secret=s", "notices.sms_url=http://g/",
        "notices.quiet_hours.warning=22:00-07:00", 'notices.escalate_to=["sms"]',
        'notices.command=["/usr/bin/logger", "-t", "databus"]',
    ]  # fmt: skip
    found = load(None, flags, {}).notices
    assert found.quiet_hours == {"warning": "22:00-07:00"}
    assert found.command == ("/usr/bin/logger", "-t", "databus")
