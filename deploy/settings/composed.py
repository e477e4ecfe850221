"""The settings of the whole product: one section per package, composed and validated here.

Sources, later wins: defaults of each section's class, `databus.toml`, `DATABUS_SECTION_KEY` in the
environment, `--set section.key=value` on the command line. Every fault names where it stands (the
line of the file, the variable, the flag) and, for an unknown key, the nearest known one.

In: a file, an environment, flags. Out: one frozen `Settings`. Never: defaults of the
keys themselves.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from alarm.settings import DispatcherSettings
from broker.config.key import ConfigError
from broker.config.views import BrokerConfig
from broker.settings import SettingError, split
from bus.domain.feature_models import FeatureSettings
from bus.domain.policy import PolicySettings
from bus.domain.retention import RetentionSettings
from bus.notify.settings import NoticeSettings
from bus.settings import BusSettings, SecuritySettings, SiteSettings
from deploy.paths import PROJECT_ROOT
from deploy.settings.sources import (
    SettingEntry,
    SettingsError,
    from_environment,
    from_flags,
    from_toml,
    kafka_text,
    unknown,
)
from dr_mirror.settings import MirrorSettings
from ingest.films.settings import FilmSettings
from ingest.senders.simulator.settings import CitySettings
from ingest.settings import EdgeSettings, PictureSettings, StoreSettings
from monitor.settings import ConsoleSettings, WatchSettings
from spark_apps.settings import StreamsSettings

SECTION_CLASSES: dict[str, type[msgspec.Struct]] = {
    "site": SiteSettings,
    "bus": BusSettings,
    "edge": EdgeSettings,
    "store": StoreSettings,
    "streams": StreamsSettings,
    "dispatcher": DispatcherSettings,
    "notices": NoticeSettings,
    "console": ConsoleSettings,
    "city": CitySettings,
    "pictures": PictureSettings,
    "film": FilmSettings,
    "watch": WatchSettings,
    "retention": RetentionSettings,
    "policy": PolicySettings,
    "features": FeatureSettings,
    "mirror": MirrorSettings,
    "security": SecuritySettings,
}
SECRET_MASK = "***"  # what `config` prints for a secret that is set; no value of any key
SECTIONS = (
    "broker",
    *SECTION_CLASSES,
)  # `broker` holds Kafka's own keys and is validated there


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything a process needs to know; packages are handed their part.

    `arguments` are the command-line words that reproduce these settings in a child process, but for
    `account`: what the tables of a file that only this process reads have laid over them.
    """

    site: SiteSettings
    bus: BusSettings
    broker: dict[str, str]
    edge: EdgeSettings
    store: StoreSettings
    streams: StreamsSettings
    dispatcher: DispatcherSettings
    notices: NoticeSettings
    console: ConsoleSettings
    city: CitySettings
    pictures: PictureSettings
    film: FilmSettings
    watch: WatchSettings
    retention: RetentionSettings
    policy: PolicySettings
    features: FeatureSettings
    mirror: MirrorSettings
    security: SecuritySettings
    arguments: tuple[str, ...] = ()
    account: dict[str, dict[str, Any]] = {}


def config_path(chosen: str | None, environment: Mapping[str, str] = os.environ) -> Path | None:
    """The settings file: the flag's, the variable's, or `databus.toml` beside `databus`."""
    named = chosen or environment.get("DATABUS_CONFIG")
    if named:
        path = Path(named).absolute()
        if not path.is_file():
            raise SettingsError(f"there is no settings file {path}")
        return path
    usual = PROJECT_ROOT / "databus.toml"
    return usual if usual.is_file() else None


def load(
    config: str | None = None,
    flags: Sequence[str] = (),
    environment: Mapping[str, str] = os.environ,
) -> Settings:
    """Read all sources, merge them, validate; the first fault is a `SettingsError`."""
    path = config_path(config, environment)
    entries = from_toml(path, path.read_text(encoding="utf-8")) if path else []
    entries += from_environment(environment, SECTIONS)
    entries += from_flags(flags)
    arguments = ["--config", str(path)] if path else []
    for flag in flags:
        arguments += ["--set", flag]
    return compose(entries, base=path.parent if path else PROJECT_ROOT, arguments=tuple(arguments))


def with_changes(settings: Settings, changes: Mapping[str, Any]) -> Settings:
    """The same settings with some changed (`{"city.rate": 7.5}`), for children as well."""
    more = [word for name, value in changes.items() for word in ("--set", f"{name}={value}")]
    changed = load_arguments([*settings.arguments, *more])
    return with_account(changed, settings.account) if settings.account else changed


def with_account(settings: Settings, tables: Mapping[str, Mapping[str, Any]]) -> Settings:
    """The same settings in this process alone: of these sections the keys that are named, and of
    a table among them the rows. Raises SettingsError for a section or a key that there is not."""
    changed: dict[str, Any] = {}
    for section, values in tables.items():
        if section not in SECTIONS:
            raise SettingsError(unknown("section", section, SECTIONS))
        if section == "broker":
            changed[section] = {**settings.broker, **values}
            continue
        before = msgspec.to_builtins(getattr(settings, section))
        merged = {
            key: {**before[key], **value} if isinstance(before.get(key), dict) else value
            for key, value in values.items()
        }
        try:
            changed[section] = msgspec.convert({**before, **merged}, SECTION_CLASSES[section])
        except msgspec.ValidationError as error:
            raise SettingsError(f"[{section}]: {error}") from error
    kept = {section: dict(values) for section, values in tables.items()}
    return msgspec.structs.replace(settings, account=kept, **changed)


def load_arguments(words: Sequence[str]) -> Settings:
    """The settings that `Settings.arguments` reproduce."""
    config = words[words.index("--config") + 1] if "--config" in words else None
    return load(config, [words[n + 1] for n, word in enumerate(words) if word == "--set"])


def compose(
    entries: Sequence[SettingEntry], *, base: Path, arguments: tuple[str, ...] = ()
) -> Settings:
    """Settings out of entries in their order; a relative data directory hangs below `base`."""
    by_section: dict[str, list[SettingEntry]] = {section: [] for section in SECTIONS}
    for entry in entries:
        if entry.section not in by_section:
            raise SettingsError(f"{entry.where}: {unknown('section', entry.section, SECTIONS)}")
        if _is_masked(entry.plain):
            raise SettingsError(
                f"{entry.where}: {SECRET_MASK} is how `config` shows a secret; write the secret"
            )
        by_section[entry.section].append(entry)
    sections: dict[str, Any] = {
        section: _section(cls, by_section[section]) for section, cls in SECTION_CLASSES.items()
    }
    site: SiteSettings = sections["site"]
    sections["site"] = msgspec.structs.replace(
        site,
        data_dir=str((base / site.data_dir).absolute()),
        keep_days=site.keep_days
        or sections["store"].keep_days
        or sections["retention"].longest_record_days,
    )
    broker = {entry.key: _kafka_value(entry) for entry in by_section["broker"]}
    return Settings(broker=broker, arguments=arguments, **sections)


def _section(cls: type[msgspec.Struct], entries: Sequence[SettingEntry]) -> msgspec.Struct:
    known = {field.name: field for field in msgspec.structs.fields(cls)}
    values: dict[str, Any] = {}
    for entry in entries:
        name, plain = _place_in_table(entry, known, values)
        field = known.get(name)
        if field is None:
            raise SettingsError(
                f"{entry.where}: {unknown(f'key of [{entry.section}]', entry.key, known)}"
            )
        try:
            values[name] = msgspec.convert(plain, field.type, strict=not entry.is_text)
        except msgspec.ValidationError as error:
            raise SettingsError(f"{entry.where}: {entry.section}.{entry.key}: {error}") from error
    try:
        return msgspec.convert(values, cls)
    except msgspec.ValidationError as error:
        # a class names the key it refuses first
        named = [entry for entry in entries if str(error).startswith(f"{entry.key}:")]
        where = (named or entries)[-1].where if entries else cls.__name__
        raise SettingsError(f"{where}: {error}") from error


def _place_in_table(
    entry: SettingEntry, known: Mapping[str, Any], values: Mapping[str, Any]
) -> tuple[str, Any]:
    """`edge.tokens.server-1=secret` adds one row to the table `edge.tokens`."""
    name, dot, row = entry.key.partition(".")
    if not dot or name not in known or not isinstance(values.get(name, {}), dict):
        return entry.key, entry.plain
    return name, {**values.get(name, {}), row: entry.plain}


def _is_masked(value: Any) -> bool:
    """Whether a value comes from what `config` printed: its stars would become the token."""
    if isinstance(value, dict):
        return any(_is_masked(each) for each in value.values())
    return isinstance(value, str) and (value == SECRET_MASK or f":{SECRET_MASK}@" in value)


def _kafka_value(entry: SettingEntry) -> str:
    """One of Kafka's keys, or of the broker's own, judged by the broker's package."""
    text = kafka_text(entry.value)
    try:
        kafka, _ = split({entry.key: text})
        BrokerConfig.only_of_known(kafka)
    except (ConfigError, SettingError) as error:
        raise SettingsError(f"{entry.where}: {error}") from error
    return text


def as_tables(settings: Settings) -> dict[str, dict[str, Any]]:
    """The settings in force as plain tables, as `databus.toml` would hold them."""
    tables = {name: msgspec.to_builtins(getattr(settings, name)) for name in SECTION_CLASSES}
    return {**tables, "broker": dict(settings.broker)}


def broker_pages(settings: Settings) -> str:
    """Where brokers show their metrics, as `[console] brokers` has it; else this machine's own."""
    if settings.console.brokers:
        return settings.console.brokers
    host = settings.broker.get("metrics.host", "127.0.0.1")
    port = settings.broker.get("metrics.port", "9094")
    return f"{own_broker(settings)}=http://{host}:{port}/metrics"


def own_broker(settings: Settings) -> str:
    """The number of the broker of these settings: of KRaft, else of ZooKeeper, else the first."""
    return settings.broker.get("node.id", settings.broker.get("broker.id", "1"))


def edge_url(settings: Settings) -> str:
    """Where senders on this machine find the edge."""
    host = "127.0.0.1" if settings.edge.host in ("0.0.0.0", "::") else settings.edge.host
    return f"http://{host}:{settings.edge.port}"
