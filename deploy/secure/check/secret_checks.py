"""Doors that secrets leave open: files, words that everybody tries, certificates that end.

In: `SiteFacts`. Out: findings, which name keys and files and never a secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import timedelta

from bus.files.file_modes import OTHERS_MASK
from bus.security.jaas import JaasError, parse_jaas
from deploy.secure.check.facts import OWN_BROKER, SecurityFinding, SiteFacts
from deploy.settings.composed import SECTION_CLASSES, Settings, as_tables
from deploy.settings.secret_fields import secrets_in, section_type
from monitor.watch.ending_certificates import WARN_MS

LEAST_SECRET = 12
"""Characters of a secret that a process sends; nobody has to remember it."""
WELL_KNOWN = frozenset(
    {
        "admin", "admin-secret", "adminpassword", "administrator", "broker-secret", "change-me",
        "change-this", "changeit", "changeme", "client-secret", "databus", "default", "password",
        "password123", "password1234", "secret", "kafka", "kafka-secret", "letmein", "qwerty",
        "test", "test1234", "12345678", "123456789", "1234567890", "admin1234", "admin123",
    }
)
"""What is tried first, and what stands in other people's examples."""
EXPIRY = timedelta(milliseconds=WARN_MS)
KAFKA_TABLES = frozenset(
    {"librdkafka", "java", "source_librdkafka", "target_librdkafka", "second_site_librdkafka"}
)
"""Tables in the keys of Kafka's clients, most of which are no secrets."""
_IS_SECRET = re.compile(r"password|token|secret")
_JAAS = "sasl.jaas.config"


def readable_secret(facts: SiteFacts) -> Iterator[SecurityFinding]:
    """Other users of the machine can read it, or it belongs to one of them."""
    for one in facts.files:
        right = "700" if one.is_folder else "600"
        if one.mode & OTHERS_MASK:
            yield SecurityFinding(
                "readable-secret", one.path, f"others of this machine may use it ({one.mode:o})",
                f"chmod {right} {one.path}",
            )  # fmt: skip
        if one.owner not in (facts.owner, 0):
            yield SecurityFinding(
                "readable-secret", one.path,
                f"it belongs to user {one.owner}, and the product's data to {facts.owner}",
                f"chown {facts.owner} {one.path}",
            )  # fmt: skip


def weak_secret(facts: SiteFacts) -> Iterator[SecurityFinding]:
    """A password that is empty, short or in everybody's list."""
    for key, owner, secret in secrets_of(facts.settings, facts):
        why = why_weak(secret, owner)
        if why:
            yield SecurityFinding(
                "weak-secret", key, why, "a long random one: openssl rand -base64 32"
            )


def guessed_account(facts: SiteFacts) -> Iterator[SecurityFinding]:
    """An account of the console that the first try opens."""
    for name in facts.guessed_accounts:
        yield SecurityFinding(
            "guessed-account", f"the console's account {name}",
            "its password is one of those that everybody tries first",
            f"./databus accounts password {name}",
        )  # fmt: skip


def secret_on_command_line(facts: SiteFacts) -> Iterator[SecurityFinding]:
    """`ps` shows it to every user of the machine."""
    for key in facts.given_secrets:
        yield SecurityFinding(
            "secret-on-command-line", f"--set {key}=…",
            "a secret stands on a command line, where every user of the machine reads it",
            "write it into databus.toml, readable by its owner alone",
        )  # fmt: skip


def ending_certificate(facts: SiteFacts) -> Iterator[SecurityFinding]:
    """Within a month every process that needs it stands still."""
    for one in facts.certificates:
        if one.ends_at - facts.now <= EXPIRY:
            has_ended = one.ends_at <= facts.now
            yield SecurityFinding(
                "ending-certificate", f"{one.path} ({one.subject})",
                f"{'ended' if has_ended else 'ends'} on {one.ends_at:%Y-%m-%d}",
                "put a new one in its place; brokers take it up while they run (docs/security.md)",
            )  # fmt: skip


def why_weak(secret: str, owner: str) -> str:
    """What is wrong with it; empty: nothing that can be seen."""
    if not secret:
        return "it is empty"
    if secret.lower() in WELL_KNOWN or (owner and secret.lower() == owner.lower()):
        return "it is one of those that everybody tries first"
    if len(secret) < LEAST_SECRET:
        return f"it has fewer than {LEAST_SECRET} characters"
    return ""


def secrets_of(settings: Settings, facts: SiteFacts) -> Iterator[tuple[str, str, str]]:
    """Where each password, token and key stands, whose it is as far as that is known, and the
    secret."""
    tables = as_tables(settings)
    for section, cls in SECTION_CLASSES.items():
        table = tables[section]
        for (name, *below), secret in secrets_in(section_type(cls), table):
            is_row = bool(below) and isinstance(table[name][below[0]], str)
            said_by = name if is_row or not below else below[-1]
            if name in KAFKA_TABLES or not _IS_SECRET.search(said_by):
                continue
            if secret or is_row:
                where = " ".join([f"[{section}]", name, *below])
                yield where, below[0] if is_row else "", secret
        for name in KAFKA_TABLES.intersection(table):
            yield from _of_kafka(f"[{section}] {name}", table[name])
    told = {broker.where: broker.keys for broker in facts.brokers}
    # A broker that runs says no secret of its own.
    for where, keys in {OWN_BROKER: settings.broker, **told}.items():
        yield from _of_kafka(where, keys)


def _of_kafka(where: str, keys: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """A table in Kafka's or librdkafka's keys, where names of users stand beside passwords."""
    for key, value in keys.items():
        if key.endswith(_JAAS):
            yield from _of_jaas(f"{where} {key}", value)
        elif key.endswith("password"):
            user = keys.get(key.removesuffix("password") + "username", "")
            yield f"{where} {key}", user, value


def _of_jaas(where: str, text: str) -> Iterator[tuple[str, str, str]]:
    try:
        module = parse_jaas(text)
    except JaasError:
        return  # no broker starts with it
    for user, secret in module.users.items():
        yield f"{where}, user {user}", user, secret
    if "password" in module.options:
        user = module.options.get("username", "")
        yield f"{where}, password", user, module.options["password"]
