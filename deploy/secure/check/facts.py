"""What `secure check` judges, and what it says.

In: what `gather` has read. Out: values. Never: a file, a client; a secret in a finding.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from bus.protocol.acls import AclBinding
from deploy.settings.composed import Settings

OWN_BROKER = "[broker] of the settings"
"""Where the keys stand that this machine would start a broker with."""


@dataclass(frozen=True, slots=True)
class SecurityFinding:
    """One open door. `check` is the same in every release, for scripts."""

    check: str
    where: str
    what: str
    remedy: str


@dataclass(frozen=True, slots=True)
class BrokerFacts:
    """Kafka's keys of one broker: as it says itself, or as the settings would start it.

    `address` is the host at which clients reach it, which stands for a listener that names none.
    """

    where: str
    keys: Mapping[str, str]
    address: str = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class FileFacts:
    """A file or folder that holds secrets: `mode` as of `chmod`, `owner` as a number."""

    path: str
    mode: int
    owner: int
    is_folder: bool = False


@dataclass(frozen=True, slots=True)
class CertificateFacts:
    """A certificate that a process of this machine shows or trusts."""

    path: str
    subject: str
    ends_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteFacts:
    """Everything that is judged, at one moment.

    `settings` are those of the machine with the operator's account laid over. `acls` None: nobody
    could be asked. `owner` is whom the data directory belongs to. `guessed_accounts` are names at
    the console whose passwords everybody would try first. `given_secrets` are settings that stand
    on the command line. `unused_folder` is that of a secured site that no setting names.
    `converted_folder` is that of a site that was closed, or is being closed, while it worked.
    `spark_file` is what the file of Spark's own keys says.
    """

    settings: Settings
    now: datetime
    brokers: tuple[BrokerFacts, ...] = ()
    acls: tuple[AclBinding, ...] | None = None
    files: tuple[FileFacts, ...] = ()
    owner: int = 0
    certificates: tuple[CertificateFacts, ...] = ()
    guessed_accounts: tuple[str, ...] = ()
    given_secrets: tuple[str, ...] = ()
    spark_file: Mapping[str, str] = field(default_factory=dict)
    unused_folder: str = ""
    converted_folder: str = ""
    not_asked: tuple[str, ...] = ()
